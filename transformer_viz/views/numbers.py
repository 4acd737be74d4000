"""Data behind a figure as CSV and NPZ, and the manifest with its origin."""

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
    """Return the origin of a figure as JSON data: program, figure, model and edits.

    Args:
        trace: The run that is shown.
        before: The run that it is compared with.
        picture: Further fields about the figure, such as ``block`` and ``layer``.
    """
    found: dict[str, Any] = {"made by": f"transformer_viz {__version__}", **picture}
    found |= {"run": trace.manifest, "capture report": trace.report.status}
    if before is not None:
        found["compared with"] = before.manifest
    return found


def whose(trace: Trace, before: Trace | None = None, *, marked: bool = True) -> str:
    """Return the model, its weights, the edits and the program, in a sentence or two.

    Args:
        trace: The run that is shown.
        before: The run that it is compared with.
        marked: Append the mark of guessed values.
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
    """Return a warning for a text longer than the model's positions; empty for others."""
    known = trace.manifest.get("beyond")
    if not known:
        return ""
    return say(
        "Its positions are sines, which go on beyond the {known:,} tokens that it was made for; it "
        "was never trained on such a text.",
        known=known,
    )


def as_text(fields: dict[str, Any]) -> str:
    """Return a manifest as one line of ASCII, which every file format can hold."""
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
    """Return one head's weights as a CSV table with a line for each pair of tokens.

    Columns: ``from`` (the query token), ``to``, ``weight`` (reads back as the same float32),
    ``masked`` (1: masked by the model), ``query`` and ``key`` (indices from 0). With ``before``
    also ``before`` and ``change``, empty where they do not exist. A run with edits has a column
    ``edits`` with their description. If values of the model's config were guessed, a last column
    ``guessed`` lists them (``heads=1``).

    Args:
        trace: The run to export.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        before: Another run on the same tokens, or on the first of them.
        words: Merge pieces to whole words.
        special: Include start and end tokens.
        rows, columns: The rows and columns to export, counted in tokens from 0; if omitted, all.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: The two runs have different tokens, rows or columns that the map lacks, or more
            lines than a table can hold.
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
    """Return one head's weights as a numpy archive, which ``np.load`` reads without pickle.

    Arrays: ``weights`` ``[query, key]`` float32, ``masked`` ``[query, key]`` bool, ``queries`` and
    ``keys`` (the tokens), ``note`` (regrouping), ``manifest`` (JSON). With ``before`` also
    ``before`` and ``change`` ``[query, key]`` float32, NaN where they do not exist.

    Arguments and errors are those of :func:`csv_numbers`.
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
    """Return the requested rows and columns; None for all of them."""
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
    """Check that the weights of a long text fit into a file."""
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
    """Return the cells of a head in one run or in two."""
    now, before = runs
    if before is not None:
        require_same_words(now, before, place[0])

    def of(run: Trace) -> Cells:
        if part is None and not is_tiled(run):
            return cells(run, *place, words=words, special=special)
        return part_cells(run, *place, *(part or (slice(None), slice(None))))

    return of(now), None if before is None else of(before)


def _padded(was: Cells, shape: tuple[int, ...]) -> np.ndarray:
    """Return an earlier run's weights in the later one's shape; NaN where it had none."""
    wide = np.full(shape, np.nan, np.float32)
    rows, columns = was.weights.shape
    wide[:rows, :columns] = was.weights
    return wide
