"""Data of a report: small maps of all heads, and the exact weights of as many as fit.

Weights are integers of 1/65534 of their range, uint16, as two planes of bytes, which deflate better
than pairs; 65535 means no number. For longer sentences a head also has the blobs of its pooled
maps, as in the app.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...components.atlas import atlas_data
from ...components.blob import pack
from ...components.head_map import map_data
from ...components.js_texts import taught
from ...components.lines import lines_data
from ...components.standalone_page import header
from ...core.trace import Trace
from ...metrics.attention.map_cells import cells
from ...metrics.attention.map_difference import difference

STEPS = 65534  # of a range; 65535 means no number
HEADER_OF_HEAD = ("title", "numbers", "note", "most")

Place = tuple[str, int, int]
#: A head's site, and for each run its metadata and its arrays.
_Head = tuple[Place, list[tuple[dict[str, Any], list[np.ndarray]]]]


@dataclass(frozen=True, eq=False)
class Run:
    """Run of a report; with ``before``, the change since that run."""

    name: str
    trace: Trace
    before: Trace | None = None

    @property
    def low(self) -> float:
        """Smallest possible value of its weights or changes."""
        return 0.0 if self.before is None else -1.0


def book(
    runs: Sequence[Run],
    places: Sequence[Place],
    room: int,
    blocks: Sequence[str] = (),
    **options: Any,
) -> tuple[bytes, int]:
    """Return the blob of a report.

    Args:
        runs: The runs to show; all of one input to one model.
        places: Block, layer and head of those to keep exact, the first one open at first.
        room: Largest number of bytes of the deflated blob. Heads that do not fit are left out,
            except the first.
        blocks: Blocks that the atlas shows; if omitted, all of them.
        options: Further options for ``browser/report/book.js``.

    Returns:
        The blob, and the number of heads that are exact in it.
    """
    with taught():  # the report itself brings its texts along, once
        entries = [_run(run, blocks or run.trace.maps) for run in runs]
        heads = _gathered(runs, places, room)
    said = {"part": "report", "opened": list(places[0]), **options}
    while True:
        blob = _bound(entries, heads, said)
        size = len(zlib.compress(blob, 9))
        if size <= room or len(heads) == 1:
            return blob, len(heads)
        heads = heads[: max(1, int(0.98 * len(heads) * room / size))]


def _gathered(runs: Sequence[Run], places: Sequence[Place], room: int) -> list[_Head]:
    """Return roughly as many heads as fit without other data; at least the first."""
    found: list[_Head] = []
    taken = 0
    for place in places:
        most = max(_largest(run.trace, place) for run in runs)  # common colour limits for all runs
        head = place, [_head(run, place, most) for run in runs]
        arrays = (array for _, arrays in head[1] for array in arrays)
        taken += sum(len(zlib.compress(array.tobytes(), 1)) for array in arrays)
        if found and taken > 1.1 * room:  # fast compression is slightly larger than the best
            break
        found.append(head)
    return found


def _bound(
    entries: Sequence[tuple[dict[str, Any], bytes]], heads: Sequence[_Head], said: dict[str, Any]
) -> bytes:
    """Return everything as one blob; arrays are named by number."""
    arrays: dict[str, np.ndarray] = {}

    def put(array: np.ndarray) -> str:
        arrays[f"a{len(arrays)}"] = array
        return f"a{len(arrays) - 1}"

    runs = []
    for number, (entry, atlas) in enumerate(entries):
        kept = {
            "{} {} {}".format(*place): found[number][0]
            | {"arrays": [put(array) for array in found[number][1]]}
            for place, found in heads
        }
        runs.append(entry | {"atlas": put(np.frombuffer(atlas, np.uint8)), "heads": kept})
    return pack(said | {"runs": runs}, **arrays)


def _run(run: Run, shown: Sequence[str]) -> tuple[dict[str, Any], bytes]:
    """Return the metadata that a run's maps and lines share by block, and its atlas."""
    trace, before = run.trace, run.before
    blocks = {}
    for block in dict.fromkeys(attention.site.map for attention in trace.attentions):
        layer = trace.blocks(block)[0].site.layer
        blocks[block] = {
            "map": _common(map_data(trace, block, layer, 0, before=before)),
            "lines": _common(lines_data(trace, block, [(layer, 0)], before=before)),
        }
    entry = {"name": run.name, "low": run.low, "blocks": blocks}
    return entry, atlas_data(trace, shown, before=before)


def _common(blob: bytes) -> dict[str, Any]:
    words = header(blob)
    return {name: value for name, value in words.items() if name != "arrays"}


def _largest(trace: Trace, place: Place) -> float:
    block, layer, head = place
    return float(np.nanmax(trace.block(block, layer).weights[head], initial=0.0))


def _head(run: Run, place: Place, most: float) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a head's metadata and arrays: two planes, a mask, and blobs if it is long."""
    drawn = map_data(run.trace, *place, before=run.before, most=most or None)
    words = header(drawn)
    texts = {name: words[name] for name in HEADER_OF_HEAD}
    if "pooled" not in words["arrays"]:
        return texts, list(_planes(run, place))
    blobs = drawn, lines_data(run.trace, place[0], [place[1:]], before=run.before)
    pooled = [np.frombuffer(blob, np.uint8) for blob in blobs]
    return texts | {"long": True}, [*_planes(run, place), *pooled]


def _planes(run: Run, place: Place) -> Iterator[np.ndarray]:
    """Yield high bytes, low bytes ``[row x column]``, and the masked cells as bits."""
    now = cells(run.trace, *place)
    values = now.weights if run.before is None else difference(now, cells(run.before, *place))
    part = (values.astype(np.float64) - run.low) / (1 - run.low)
    steps = np.where(np.isnan(part), STEPS + 1, np.round(np.nan_to_num(part) * STEPS))
    numbers = np.clip(steps, 0, STEPS + 1).astype(np.uint16).reshape(-1)
    yield (numbers >> 8).astype(np.uint8)
    yield (numbers & 255).astype(np.uint8)
    yield np.packbits(now.masked.reshape(-1))
