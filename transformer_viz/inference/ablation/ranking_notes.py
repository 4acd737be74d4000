"""Notes needed to read a ranking, as sentences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ...core.guesses import library_note
from ...core.numerics import MULTI_LABEL, REGRESSION
from .bench import Bench
from .stand_ins import HARDLY

NAMED = 8  # heads named in a note


def notes_of(bench: Bench, table: pd.DataFrame, card: Mapping[str, object]) -> tuple[str, ...]:
    """Return the notes of a ranking from its bench, table and card."""
    rows = "outputs" if bench.model.task == REGRESSION else "tokens"
    said = [
        f"Measured on these {len(bench.examples)} sentences, teacher forced, {card['rows']} "
        f"{rows}; {card['replacement']}. References: {card['references']}."
    ]
    if bench.model.task == REGRESSION:
        said.append(
            "The effect is the score (the output before any activation, in logits) that is lost on "
            "average; gains and losses cancel in it, and moved is the mean absolute change."
        )
    if bench.model.task == MULTI_LABEL:
        said.append(
            "The effect is what the named labels lose: nats of the sigmoid of each, independent of "
            "the other labels."
        )
    if bench.method == "zero":
        said.append(
            "Zero is no property of the function alone: a bias moved from the values into the "
            "output projection changes this ranking and not the model."
        )
    if bench.constant:
        said.append(_constant(bench))
    told = table["significant"].to_numpy(bool)
    dull = int(np.count_nonzero(~told))
    if dull:
        said.append(
            f"{dull} of {len(bench.heads)} heads cannot be told from no effect on these "
            "sentences; each may be covered by others that do the same: see groups and pairs."
        )
    return (*said, *library_note(card))


def _constant(bench: Bench) -> str:
    """Return the note on heads whose output hardly varies over the texts."""
    sites, method = bench.constant, bench.method
    names = ", ".join(map(str, sites[:NAMED]))
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    return (
        f"The output of {names}{more} varies by less than {HARDLY:.0%} of its length over these "
        f"texts, so method={method!r} replaces it by nearly the same and hides what it does. "
        "method='zero' removes it; texts of other classes may make it vary."
    )
