"""Export formats of a run, by name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ...core.trace import Trace
from ...i18n import ENGLISH, mark, speaking
from ..numbers import csv_numbers, npz_numbers
from ..paper.figure_file import printed
from .html_report import report
from .report_data import Place

#: Every format, in the order of the buttons, and its description.
FORMATS = {
    "png": mark("PNG, 300 dots an inch"),
    "svg": mark("SVG, for papers and slides"),
    "pdf": "PDF",
    "csv": mark("Numbers as CSV"),
    "npz": mark("Numbers as NPZ, for numpy"),
    "safetensors": mark("The whole run, a trace file"),
    "html": mark("All heads as one page, offline"),
}


def exported(
    trace: Trace,
    kind: str,
    picture: str,
    place: Place,
    *,
    before: Trace | None = None,
    words: bool = False,
    special: bool = True,
    rows: slice | None = None,
    columns: slice | None = None,
    **look: Any,
) -> bytes:
    """Return the bytes of a file; figures and pages use the current language, data use English.

    Args:
        trace: The run.
        kind: Key of `FORMATS`.
        picture: ``map``, ``lines`` or ``atlas``, for image formats.
        place: Block, layer and head.
        before: Another run on the same tokens, to compare with.
        words: Merge pieces to whole words.
        special: Include start and end tokens.
        rows, columns: For numbers, the range of tokens; if omitted, all.
        look: Further options of a figure: ``ramp``, ``threshold``, ``dark``, ``width``, ``also``.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: The figure cannot be drawn or compared; the message gives the reason.
    """
    grouped: dict[str, Any] = {"words": words, "special": special}
    if kind in ("csv", "npz"):
        grouped |= {"rows": rows, "columns": columns}
        with speaking(ENGLISH):  # data are the same in every language
            if kind == "csv":
                return csv_numbers(trace, *place, before=before, **grouped).encode("utf-8")
            return npz_numbers(trace, *place, before=before, **grouped)
    if kind == "safetensors":
        return _saved(trace)
    if kind == "html":
        return report(trace, before, opened=place).encode("utf-8")
    block, layer, head = place
    return printed(trace, picture, kind, block, layer, head, before=before, **grouped, **look)


def _saved(trace: Trace) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.safetensors"
        trace.save(file)
        return file.read_bytes()
