"""Stages before a layer: embedding, position, and the contribution of the layers below."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from ..core.stages import Stage
from ..inference.capture_to_numpy import to_numpy
from .arrays import as_float32, row_of
from .layer_run import Ran
from .norm_stages import norm_stage
from .seam import seam


def start_stages(ran: Ran, row: int) -> Iterator[Stage]:
    """Yield scaled embedding, position and the layers below (sections 3.4 and 3.5)."""
    made = _embedding(ran, row)
    yield made
    embedding = ran.stack.embedding
    first = _first(ran)
    summed = first if embedding.norm is None else ran.calls.given(embedding.norm)
    if ran.transformer.config.positions not in ("rotary", "none"):
        made = _position(ran, made["out"], row_of(summed, row), row)
        yield made
    if embedding.norm is not None:
        made = norm_stage(embedding.norm, "embedding", summed, ran.calls.gave(embedding.norm), row)
        yield made
    yield from seam(made, row_of(first, row), "embedding")
    if ran.site.layer:
        yield _below(ran, row)


def _first(ran: Ran) -> Tensor:
    """Return the input of the lowest layer."""
    return ran.calls.given(ran.stack.layers[0])


def _embedding(ran: Ran, row: int) -> Stage:
    embedding = ran.stack.embedding
    if embedding.tokens is None:
        given, scale, number = ran.calls.given(embedding), 1.0, -1
    else:
        given, scale = ran.calls.gave(embedding.tokens), embedding.scale
        number = int(ran.calls.given(embedding.tokens)[0, row])
    token = row_of(given, row)
    out = row_of(given * scale, row)  # in the model's own precision
    numbers = {"scale": float(scale), "id": float(number)}
    return Stage("embedding", "embedding", {"token": token, "out": out}, numbers)


def _position(ran: Ran, x: np.ndarray, out: np.ndarray, row: int) -> Stage:
    """Return the stage of the position, with the row that was added, edits included.

    The row is that of the captured table, or the difference if the table was not recognised because
    it has a single row.
    """
    found = ran.capture.positions.get(f"table.{ran.site.stack}")
    table = as_float32(out - x) if found is None else to_numpy(found[row])
    return Stage("position", "embedding", {"x": x, "table": table, "out": out}, {"place": row})


def _below(ran: Ran, row: int) -> Stage:
    layers = list(ran.stack.layers)[: ran.site.layer + 1]
    streams = np.stack([row_of(ran.calls.given(layer), row) for layer in layers])
    arrays = {
        "x": streams[0],
        "layers": streams,
        "added": streams[-1] - streams[0],
        "out": streams[-1],
    }
    return Stage("below", "self", {name: as_float32(array) for name, array in arrays.items()})
