"""What can be taken along of a run, by the name of its format."""

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

#: Every format, in the order of the buttons, and what it is.
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
    """The bytes of a file; pictures and pages speak the present language, data English.

    Args:
        trace: the run.
        kind: one of `FORMATS`.
        picture: ``map``, ``lines`` or ``atlas``, for the formats that are pictures.
        place: block, layer and head.
        before: another run over the same words, to compare with.
        words: merge pieces to whole words.
        special: start and end marks too.
        rows, columns: of numbers, those to take, counted in tokens; left out, all.
        look: further words of a picture: ``ramp``, ``threshold``, ``dark``, ``width``, ``also``.

    Raises:
        LookupError: a map, layer or head that the trace lacks; names those it has.
        ValueError: what cannot be drawn or compared; says why.
    """
    grouped: dict[str, Any] = {"words": words, "special": special}
    if kind in ("csv", "npz"):
        grouped |= {"rows": rows, "columns": columns}
        with speaking(ENGLISH):  # data are the same for everybody
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
