"""Tables as CSV text that a spreadsheet displays without evaluating formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.guesses import COLUMN, Record, guess_values, guesses_in

if TYPE_CHECKING:
    import pandas as pd

#: Characters that begin a formula in a spreadsheet, including full-width East Asian ones.
BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(table: pd.DataFrame, *records: Record) -> str:
    """Return a table as CSV, without its index; lines end with a line feed.

    If ``records`` (runs and cards) have guessed values, a last column ``guessed`` repeats them in
    each line (``heads=1``), since CSV has no comments.

    Text that a spreadsheet would take for a formula gets a leading apostrophe (OWASP, CSV
    injection). Numbers, and single signs such as a dash, stay as they are.
    """
    from pandas.api.types import is_numeric_dtype  # here: the command line starts without pandas

    plain = table.copy()
    guesses = guesses_in(*records)
    if guesses:
        plain[COLUMN] = guess_values(guesses)
    for column in plain.columns:
        if not is_numeric_dtype(plain[column]):
            plain[column] = plain[column].map(_inert)
    text: str = plain.rename(columns=_inert).to_csv(index=False, lineterminator="\n")
    return text


def _inert(value: Any) -> Any:
    """Return a cell, with an apostrophe before it if it is text that could be a formula."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # it would end the line, as the writer does not quote it
    if len(value) < 2 or not value.startswith(BEGINS):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return value
