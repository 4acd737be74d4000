"""The numbers behind a picture, to take along: CSV and NPZ, and the manifest that says whose."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd

from ..core.given.facts import SHORT
from ..core.trace import Trace
from ..core.version import __version__
from ..i18n import say
from ..metrics.attention.map_cells import Cells, cells
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


def whose(trace: Trace, before: Trace | None = None) -> str:
    """Which model with which weights, which edits, which program, in a sentence or two."""
    words = trace.manifest
    edits = trace.intervention.describe(trace.source.labels)
    model = say("Model {model}", model=words.get("model", say("unnamed")))
    if words.get("hash"):
        model = say("{model}, weights {hash}", model=model, hash=str(words["hash"])[:10])
    said = say("{model}; {edits}.", model=model, edits=edits)
    if trace.report.given:
        said += " " + say(SHORT)
    if before is not None:
        said += " " + say("The other run: {edits}.", edits=before.intervention.describe())
    return f"{said} transformer_viz {__version__}."


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
) -> str:
    """One head's weights as a table: a line for each pair of words.

    Columns: ``from`` (the word that looks) and ``to``; ``weight``, which reads back as the same
    float32; ``masked`` (1: the model may not look there); ``query`` and ``key``, their numbers
    from 0. With ``before`` also ``before`` and ``change``, empty where they do not exist.

    Args:
        trace: the run to take.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: from 0.
        before: another run over the same words, or over the first of them.
        words: merge pieces to whole words.
        special: take start and end marks too.

    Raises:
        LookupError: a map, layer or head that the trace lacks; names those it has.
        ValueError: the two runs speak about different words.
    """
    now = cells(trace, block, layer, head, words=words, special=special)
    query, key = np.indices(now.weights.shape).reshape(2, -1)
    table = {
        "from": np.array(now.rows.labels, object)[query],
        "to": np.array(now.columns.labels, object)[key],
        "weight": now.weights.reshape(-1),
        "masked": now.masked.reshape(-1).astype(np.uint8),
        "query": query,
        "key": key,
    }
    if before is not None:
        require_same_words(trace, before, block)
        was = cells(before, block, layer, head, words=words, special=special)
        table["before"] = _padded(was, now.weights.shape).reshape(-1)
        table["change"] = difference(now, was).reshape(-1)
    return csv_text(pd.DataFrame(table))


def npz_numbers(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    before: Trace | None = None,
    words: bool = False,
    special: bool = True,
) -> bytes:
    """One head's weights as a numpy archive, which ``np.load`` reads without pickle.

    Arrays: ``weights`` ``[query, key]`` float32, ``masked`` ``[query, key]`` bool, ``queries`` and
    ``keys`` (the words), ``note`` (what was regrouped), ``manifest`` (JSON). With ``before`` also
    ``before`` and ``change`` ``[query, key]`` float32, NaN where they do not exist.

    The arguments and errors are those of :func:`csv_numbers`.
    """
    now = cells(trace, block, layer, head, words=words, special=special)
    place = {"block": block, "layer": layer, "head": head}
    arrays = {
        "weights": now.weights.astype(np.float32),
        "masked": now.masked,
        "queries": np.array(now.rows.labels),
        "keys": np.array(now.columns.labels),
        "note": np.array(now.note),
        "manifest": np.array(as_text(manifest(trace, before, **place))),
    }
    if before is not None:
        require_same_words(trace, before, block)
        was = cells(before, block, layer, head, words=words, special=special)
        arrays["change"] = difference(now, was)
        arrays["before"] = _padded(was, now.weights.shape)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _padded(was: Cells, shape: tuple[int, ...]) -> np.ndarray:
    """An earlier run's weights in the place of the later one's; NaN where it had none."""
    wide = np.full(shape, np.nan, np.float32)
    rows, columns = was.weights.shape
    wide[:rows, :columns] = was.weights
    return wide
