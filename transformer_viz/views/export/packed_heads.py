"""Heads of a long run, packed for a page that computes their maps in the browser.

Each head stores the inputs of its tiles (`core.tiles.Part`): queries, keys, logarithms of row
denominators, masks, biases, caps. Float32 is stored exactly, in four planes of bytes, which deflate
better. ``int16`` is half of that: integers with a scale for each token. The coarsest levels, which
would need the whole map, are precomputed. ``browser/report/long_head.js`` reads it.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...components.blob import pack
from ...components.js_texts import taught
from ...core.sites import MAPS, Site
from ...core.tiles import Part, Tiles, Visible
from ...core.tiles.cells import CELL
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention import tile_pyramid
from .report_data import Place

PRECISIONS = ("float32", "int16")
LARGEST = 32_767  # of a 16-bit integer
STEPS = 65_535  # of a head's largest weight, at the coarse levels
COMPUTED = 4  # levels that the page computes: cells of up to 8 x 8 weights
BYTES = {"float32": 4, "int16": 2}

Tell = Callable[[int], None]


class Store:
    """Deduplicated blobs as deflated base64 text, named by their number."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.size = 0
        self._names: dict[bytes, str] = {}

    def put(self, **arrays: np.ndarray) -> str:
        """Store arrays, unless they are stored already, and return their name."""
        with taught():
            blob = pack({"part": "factors"}, **arrays)
        digest = hashlib.sha256(blob).digest()
        if digest not in self._names:
            letters = base64.b64encode(zlib.compress(blob, 6)).decode("ascii")
            self._names[digest] = str(len(self.letters))
            self.letters.append(letters)
            self.size += len(letters)
        return self._names[digest]

    def cut(self, count: int) -> None:
        """Drop all but the first ``count`` blobs."""
        self._names = {one: name for one, name in self._names.items() if int(name) < count}
        self.size -= sum(map(len, self.letters[count:]))
        del self.letters[count:]


@dataclass(frozen=True)
class Packed:
    """Packed head of a page.

    Attributes:
        words: References to its arrays.
        within: Largest relative error of a weight from rounding.
    """

    words: dict[str, Any]
    within: float


def why_not(trace: Trace, block: str, layer: int) -> str:
    """Return the reason why the heads of a layer cannot be packed; empty if they can."""
    found = tiles_of(trace, block, layer)
    if found is None:
        untiled = trace.manifest.get("untiled", {}).get(f"{block}.{layer}")
        return untiled or say("its queries and keys were not kept in this run")
    for part in found.parts:
        if not isinstance(part, Part):
            return say("it has no queries and keys")
        if part.bias is not None and part.bias.kind == CELL:
            return say("its scores add a table as large as the map")
        if not (np.isfinite(part.q).all() and np.isfinite(part.k).all()):
            return say("its queries or keys are no finite numbers")
    return ""


def tiles_of(trace: Trace, block: str, layer: int) -> Tiles | None:
    """Return the queries and keys of a layer of a map, or None if they were not kept."""
    same = (one for one in trace.tiles if (one.site.map, one.site.layer) == (block, layer))
    return next(same, None)


def raw_size(trace: Trace, place: Place, precision: str) -> int:
    """Return the approximate letters of a head in a page: 4 for 3 bytes, before deflation."""
    found = tiles_of(trace, *place[:2])
    assert found is not None
    width = max(part.q.shape[2] for part in found.parts if isinstance(part, Part))
    return sum(found.shape) * width * BYTES[precision] * 4 // 3


def packed(trace: Trace, place: Place, precision: str, store: Store) -> Packed:
    """Pack a head into a store; `why_not` must be empty for its layer.

    Args:
        trace: A run with tiles.
        place: Block, layer and head.
        precision: Item of `PRECISIONS`.
        store: Receives the arrays.
    """
    block, layer, head = place
    found = tiles_of(trace, block, layer)
    assert found is not None
    parts, within = [], 0.0
    for part in found.parts:
        mine = head - part.first_head
        if isinstance(part, Part) and 0 <= mine < part.heads:
            words, off = _part(part, mine, precision, store)
            parts.append(words)
            within = max(within, off)
    whole = _whole(trace, Site(*MAPS[block], layer, head), store)
    return Packed({"parts": parts, "whole": whole}, within)


def _part(part: Part, head: int, precision: str, store: Store) -> tuple[dict[str, Any], float]:
    """Return the fields of a part for one of its heads, and the largest relative weight error."""
    q, k = part.q[head], part.k[head // (part.heads // len(part.k))]
    mine, rounded_q = _numbers("q", q, precision)
    theirs, rounded_k = _numbers("k", k, precision)
    mine["log_sum"] = np.ascontiguousarray(part.log_sum[head], np.float64).view(np.uint8)
    if part.blank is not None:
        mine["blank"] = part.blank[head].astype(np.float32)
    if part.only is not None:
        mine["only"] = part.only[head].astype(np.int32)
    sharpness = float(part.sharpness[head])
    words = {
        "queries": store.put(**mine),
        "keys": store.put(**theirs),
        "visible": None if part.visible is None else store.put(**_visible(part, head)),
        "bias": None,
        "biasKind": "",
        "span": part.rows,
        "scale": part.scale,
        "cap": part.cap,
        "sharpness": sharpness,
        "gain": float(part.gain[head]),
        "firstRow": part.first_row,
    }
    if part.bias is not None:
        table = part.bias.table[head if len(part.bias.table) > 1 else 0]
        words["bias"] = store.put(table=table.astype(np.float32))
        words |= {"biasKind": part.bias.kind, "span": part.bias.queries}
    off = abs(part.scale * sharpness) * _off(q, rounded_q, k, rounded_k)
    return words, float(np.expm1(off))


def _numbers(name: str, x: np.ndarray, precision: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return queries or keys ``[token, width]`` as arrays of a blob, and their decoded values."""
    x = np.ascontiguousarray(x, np.float32)
    if precision == "float32":
        planes = x.view(np.uint8).reshape(-1, 4).T.reshape(4, *x.shape)
        return {name: np.ascontiguousarray(planes)}, x
    unit = (np.abs(x).max(axis=1, initial=0) / LARGEST).astype(np.float32)
    unit[unit == 0] = 1
    codes = np.clip(np.round(x / unit[:, None]), -LARGEST, LARGEST).astype(np.int16)
    return {name: codes, f"{name}_unit": unit}, codes.astype(np.float32) * unit[:, None]


def _off(q: np.ndarray, rounded_q: np.ndarray, k: np.ndarray, rounded_k: np.ndarray) -> float:
    """Return the largest error of a product of rounded queries and keys (Cauchy-Schwarz)."""
    lengths = (np.linalg.norm(x.astype(np.float64), axis=1) for x in (rounded_q, q - rounded_q))
    length, lost = lengths
    keys, lost_keys = (
        float(np.linalg.norm(x.astype(np.float64), axis=1).max(initial=0))
        for x in (k, k - rounded_k)
    )
    return float((length * lost_keys + lost * keys).max(initial=0))


def _visible(part: Part, head: int) -> dict[str, np.ndarray]:
    """Return the edges of one head's mask, counted from its first."""
    assert isinstance(part.visible, Visible)
    mine = part.visible.of_head(head)
    return {"edges": mine.edges.astype(np.int32), "ends": mine.ends[0].astype(np.int32)}


def made_level(shape: tuple[int, int]) -> int:
    """Return the first precomputed level; 0 if the page computes all of them."""
    count = tile_pyramid.levels(shape)
    return min(COMPUTED, count - 1) if count > 2 else 0


def _whole(trace: Trace, site: Site, store: Store) -> dict[str, Any] | None:
    """Return the precomputed coarse levels of a map; None if all levels are computed."""
    level = made_level(trace.map_shape(site.map, site.layer))
    if not level:
        return None
    weights, hidden = tile_pyramid.whole(trace, site, lambda done, total: None, level)
    most = float(weights.max()) or 1.0
    codes = np.round(weights.astype(np.float64) / most * STEPS).astype(np.uint16)
    name = store.put(
        high=(codes >> 8).astype(np.uint8),
        low=(codes & 255).astype(np.uint8),
        masked=np.packbits(hidden.reshape(-1)),
    )
    return {"name": name, "level": level, "unit": most / STEPS}
