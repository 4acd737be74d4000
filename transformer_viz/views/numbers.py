"""The numbers behind a picture, to take along: CSV and NPZ, and the manifest that says whose."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd

from ..core.given.facts import SHORT
from ..core.guesses import guess_mark, guesses_in
from ..core.tiles import LONG, MOST_CELLS
from ..core.trace import Trace
from ..core.version import __version__
from ..i18n import say
from ..metrics.attention.map_cells import Cells, cells, is_tiled, part_cells
from ..metrics.attention.map_difference import difference, require_same_words
from .csv_text import csv_text


def manifest(trace: Trace, before: Trace | None = None, **picture: Any) -> dict[str, Any]:
    """Where a picture comes from, as JSON can hold it: program, picture, model and edits.

    Args:
        trace: the run that is shown.
        before: the run that it is compared with.
        picture: further words about the picture, such as ``block`` and ``layer``.
    """
    found: dict[str, Any] = {"made by": f"transformer_viz {__version__}", **picture}
    found |= {"run": trace.manifest, "capture report": trace.report.status}
    if before is not None:
        found["compared with"] = before.manifest
    return found


def whose(trace: Trace, before: Trace | None = None, *, marked: bool = True) -> str:
    """Which model with which weights, which edits, which program, in a sentence or two.

    ``marked``: with the mark of what was guessed.
    """
    words = trace.manifest
    edits = trace.intervention.describe(trace.source.labels)
    model = say("Model {model}", model=words.get("model", say("unnamed")))
    if words.get("hash"):
        model = say("{model}, weights {hash}", model=model, hash=str(words["hash"])[:10])
    said = say("{model}; {edits}.", model=model, edits=edits)
    if trace.report.given:
        said += " " + say(SHORT)
    if trace.manifest.get("beyond"):
        said += " " + beyond(trace)
    if before is not None:
        said += " " + say("The other run: {edits}.", edits=before.intervention.describe())
    mark = guess_mark(guesses_in(trace, before))
    if mark and marked:
        said += f" {mark}."
    return f"{said} transformer_viz {__version__}."


def beyond(trace: Trace) -> str:
    """What a reader must know of a text longer than the model was made for; empty for others."""
    known = trace.manifest.get("beyond")
    if not known:
        return ""
    return say(
        "Its positions are sines, which go on beyond the {known:,} tokens that it was made for; it "
        "was never trained on such a text.",
        known=known,
    )


def as_text(fields: dict[str, Any]) -> str:
    """A manifest as one line of plain ASCII, which every file format can hold."""
    return json.dumps(fields, default=str)


def csv_numbers(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    before: Trace | None = None,
    words: bool = False,
    special: bool = True,
    rows: slice | None = None,
    columns: slice | None = None,
) -> str:
    """One head's weights as a table: a line for each pair of words.

    Columns: ``from`` (the word that looks) and ``to``; ``weight``, which reads back as the same
    float32; ``masked`` (1: the model may not look there); ``query`` and ``key``, their numbers
    from 0. With ``before`` also ``before`` and ``change``, empty where they do not exist. A run
    with edits has a column ``edits``, which says them. Where
    words of the model's config were guessed, a last column ``guessed`` says them, ``heads=1``.

    Args:
        trace: the run to take.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: from 0.
        before: another run over the same words, or over the first of them.
        words: merge pieces to whole words.
        special: take start and end marks too.
        rows, columns: the rows and columns to take, counted in tokens from 0; left out, all.

    Raises:
        LookupError: a map, layer or head that the trace lacks; names those it has.
        ValueError: the two runs speak about different words, rows or columns that the map lacks,
            or more lines than a table takes.
    """
    part = _part(rows, columns, words, special)
    _require_room(trace, (block, layer), rows, columns, LONG**2)
    now, was = _taken((trace, before), (block, layer, head), part, words, special)
    query, key = np.indices(now.weights.shape).reshape(2, -1)
    table = {
        "from": np.array(now.rows.labels, object)[query],
        "to": np.array(now.columns.labels, object)[key],
        "weight": now.weights.reshape(-1),
        "masked": now.masked.reshape(-1).astype(np.uint8),
        "query": query + (now.members[0][0] if part else 0),
        "key": key + (now.parts[0][0] if part else 0),
    }
    if was is not None:
        table["before"] = _padded(was, now.weights.shape).reshape(-1)
        table["change"] = difference(now, was).reshape(-1)
    if trace.intervention:
        edits = trace.intervention.describe(trace.source.labels)
        table["edits"] = np.full(now.weights.size, edits, object)
    return csv_text(pd.DataFrame(table), trace, before)


def npz_numbers(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    before: Trace | None = None,
    words: bool = False,
    special: bool = True,
    rows: slice | None = None,
    columns: slice | None = None,
) -> bytes:
    """One head's weights as a numpy archive, which ``np.load`` reads without pickle.

    Arrays: ``weights`` ``[query, key]`` float32, ``masked`` ``[query, key]`` bool, ``queries`` and
    ``keys`` (the words), ``note`` (what was regrouped), ``manifest`` (JSON). With ``before`` also
    ``before`` and ``change`` ``[query, key]`` float32, NaN where they do not exist.

    The arguments and errors are those of :func:`csv_numbers`.
    """
    part = _part(rows, columns, words, special)
    _require_room(trace, (block, layer), rows, columns, MOST_CELLS)
    now, was = _taken((trace, before), (block, layer, head), part, words, special)
    place: dict[str, Any] = {"block": block, "layer": layer, "head": head}
    if part:
        place |= {"queries": [now.members[0][0], now.members[-1][0] + 1]}
        place |= {"keys": [now.parts[0][0], now.parts[-1][0] + 1]}
    arrays = {
        "weights": now.weights.astype(np.float32),
        "masked": now.masked,
        "queries": np.array(now.rows.labels),
        "keys": np.array(now.columns.labels),
        "note": np.array(now.note),
        "manifest": np.array(as_text(manifest(trace, before, **place))),
    }
    if was is not None:
        arrays["change"] = difference(now, was)
        arrays["before"] = _padded(was, now.weights.shape)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _part(
    rows: slice | None, columns: slice | None, words: bool, special: bool
) -> tuple[slice, slice] | None:
    """The rows and columns that were asked for; None where all are taken."""
    if rows is None and columns is None:
        return None
    if words or not special:
        raise ValueError(
            "Rows and columns are counted in the model's own tokens; leave whole words out, and "
            "start and end marks in."
        )
    return rows or slice(None), columns or slice(None)


def _require_room(
    trace: Trace, place: tuple[str, int], rows: slice | None, columns: slice | None, most: int
) -> None:
    """Refuse more weights of a long text than a file takes."""
    if not is_tiled(trace):
        return
    shape = trace.map_shape(*place)
    high, wide = (
        len(range(*(part or slice(None)).indices(size)))
        for part, size in zip((rows, columns), shape, strict=True)
    )
    if high * wide > most:
        raise ValueError(
            f"{high:,} rows and {wide:,} columns are {high * wide:,} weights; such a file holds at "
            f"most {most:,}. Take a part: rows 0:500 and columns 0:500."
        )


def _taken(
    runs: tuple[Trace, Trace | None],
    place: tuple[str, int, int],
    part: tuple[slice, slice] | None,
    words: bool,
    special: bool,
) -> tuple[Cells, Cells | None]:
    """The cells of a head in one run or in two."""
    now, before = runs
    if before is not None:
        require_same_words(now, before, place[0])

    def of(run: Trace) -> Cells:
        if part is None and not is_tiled(run):
            return cells(run, *place, words=words, special=special)
        return part_cells(run, *place, *(part or (slice(None), slice(None))))

    return of(now), None if before is None else of(before)


def _padded(was: Cells, shape: tuple[int, ...]) -> np.ndarray:
    """An earlier run's weights in the place of the later one's; NaN where it had none."""
    wide = np.full(shape, np.nan, np.float32)
    rows, columns = was.weights.shape
    wide[:rows, :columns] = was.weights
    return wide
