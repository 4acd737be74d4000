"""Report of a long run: small maps of all heads, queries and keys of as many as fit."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...components.atlas import atlas_data
from ...components.blob import pack
from ...components.head_map import head_numbers
from ...components.js_texts import taught
from ...components.long_map import TileLine, colour_end, long_map_data
from ...components.standalone_page import header
from ...core.sites import MAPS, Site, called
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.tile_pyramid import TILE, levels
from .packed_heads import Packed, Store, Tell, packed, raw_size, why_not
from .report_data import Place, Run

WORDS = 400  # largest number of letters of the metadata of a packed head
Kept = dict[Place, list[Packed]]  # the packed head of each run


@dataclass(frozen=True, eq=False)
class LongBook:
    """Blob of a report with the packed heads.

    Attributes:
        blob: Everything but the packed heads.
        letters: Base64 text of the packed heads.
        kept: The packed heads.
        precision: Their number format, ``float32`` or ``int16``.
        within: Largest relative error of a weight from that format.
    """

    blob: bytes
    letters: list[str]
    kept: tuple[Place, ...]
    precision: str
    within: float


@dataclass(frozen=True)
class Wanted:
    """Heads to put into a page, the first one open at first, and the size limit.

    Attributes:
        places: Block, layer and head of each.
        room: Size limit in letters.
        precision: ``float32`` or ``int16``; None for float32, unless not even the first head fits.
        every: True to require all heads, False to take as many as fit.
    """

    places: Sequence[Place]
    room: int
    precision: str | None = None
    every: bool = False


def long_book(
    runs: Sequence[Run],
    wanted: Wanted,
    blocks: Sequence[str] = (),
    on_progress: Tell = lambda done: None,
    **options: Any,
) -> LongBook:
    """Build the data of a long run's page.

    Args:
        runs: The runs to show; all of one input to one model, each with tiles.
        wanted: The heads to pack, and the size limit.
        blocks: Blocks that the atlas shows; if omitted, all of them.
        on_progress: Called with the number of packed heads.
        options: Further options for ``browser/report/book.js``.

    Raises:
        ValueError: Heads that do not fit, or that have no queries and keys; the message names them.
    """
    trace = runs[0].trace
    said = {"part": "report", "tiled": True, "opened": list(wanted.places[0]), **options}
    with taught():  # the report itself brings its texts along, once
        atlases = [atlas_data(run.trace, blocks or trace.maps) for run in runs]
    small = [{place: _words(run.trace, place) for place in _every(trace)} for run in runs]
    reasons = _reasons(runs)
    able = _able(wanted, reasons)
    front = _bound(runs, atlases, small, said)
    room = wanted.room - len(zlib.compress(front, 6)) * 4 // 3 - WORDS * len(able) * len(runs)
    precision = wanted.precision or "float32"
    store, kept = _gathered(runs, able, room, precision, wanted.every, on_progress)
    if able and not kept and wanted.precision is None:
        precision = "int16"
        store, kept = _gathered(runs, able, room, precision, wanted.every, on_progress)
    if able and not kept:
        alone, first = Store(), able[0]
        for run in runs:
            packed(run.trace, first, precision, alone)
        raise too_large(alone.size, room, 1)
    ends = {name: max(one[name]["most"] for one in small) for name in small[0]}
    for one in small:  # common colour limits for all runs
        one |= {name: words | {"most": ends[name]} for name, words in one.items()}
    with_heads = [_filled(number, one, kept, reasons) for number, one in enumerate(small)]
    within = max((one.within for heads in kept.values() for one in heads), default=0.0)
    blob = _bound(runs, atlases, with_heads, said)
    return LongBook(blob, store.letters, tuple(kept), precision, within)


def too_large(letters: float, room: float, heads: int) -> ValueError:
    """Return the error for heads that do not fit."""
    named = "The head to open takes" if heads == 1 else f"The {heads} heads that were chosen take"
    return ValueError(
        f"{named} about {letters / 1e6:,.2f} MB in a page, and it has room for "
        f"{max(0.0, room) / 1e6:,.2f} MB of heads. Allow more megabytes, choose fewer heads or "
        "layers, or take precision int16, half the size of float32."
    )


def _every(trace: Trace) -> list[Place]:
    """Return all heads of all maps."""
    counts = {block: trace.head_counts(block) for block in trace.maps}
    return [
        (block, layer, head)
        for block, heads in counts.items()
        for layer, count in enumerate(heads)
        for head in range(count)
    ]


def _reasons(runs: Sequence[Run]) -> dict[tuple[str, int], str]:
    """Return by (map, layer) the reason why its heads cannot be packed; empty if they can."""
    trace = runs[0].trace
    layers = ((block, layer) for block in trace.maps for layer in range(trace.layers(block)))
    return {
        one: next(filter(None, (why_not(run.trace, *one) for run in runs)), "") for one in layers
    }


def _able(wanted: Wanted, reasons: dict[tuple[str, int], str]) -> list[Place]:
    """Return the heads that can be packed.

    Raises:
        ValueError: A head that cannot be packed, if every head is required.
    """
    bad = [place for place in wanted.places if reasons[place[:2]]]
    if bad and wanted.every:
        block, layer, head = bad[0]
        raise ValueError(
            f"{called(block)} L{layer} H{head} cannot be in a page: {reasons[block, layer]}."
        )
    return [place for place in wanted.places if place not in bad]


def _letters(runs: Sequence[Run], places: Sequence[Place], precision: str) -> float:
    return float(sum(raw_size(run.trace, place, precision) for run in runs for place in places))


def _gathered(
    runs: Sequence[Run],
    places: Sequence[Place],
    room: int,
    precision: str,
    every: bool,
    on_progress: Tell,
) -> tuple[Store, Kept]:
    """Pack heads in their order until the size limit.

    Raises:
        ValueError: Not all of them fit, if every head is required.
    """
    store, kept = Store(), {}
    for number, place in enumerate(places):
        on_progress(number)
        before = len(store.letters)
        heads = [packed(run.trace, place, precision, store) for run in runs]
        if every and not number:  # estimates the total size from the first head
            first = store.size / max(1.0, _letters(runs, places[:1], precision))
            whole = first * _letters(runs, places, precision)
            if whole > 1.1 * room:
                raise too_large(whole, room, len(places))
        if store.size > room:
            if every:
                raise too_large(store.size * len(places) / (number + 1), room, len(places))
            store.cut(before)
            break
        kept[place] = heads
    return store, kept


def _words(trace: Trace, place: Place) -> dict[str, Any]:
    """Return the title, numbers and colour limit of a head."""
    block, layer, head = place
    return {
        "title": f"{called(block)} L{layer} H{head}",
        "numbers": head_numbers(trace, trace, Site(*MAPS[block], layer, head), False),
        **colour_end(trace.thumbnail(block)[layer, head]),
    }


def _filled(
    number: int,
    small: dict[Place, dict[str, Any]],
    kept: Kept,
    reasons: dict[tuple[str, int], str],
) -> dict[Place, dict[str, Any]]:
    """Return the heads with their packed data, or with the reason why that is missing."""
    full = say(
        "The cells of this head are not in this page, which has room for those of {count} heads.",
        count=len(kept),
    )
    found = {}
    for place, words in small.items():
        if place in kept:
            mine = kept[place][number]
            words = words | {"packed": mine.words, "within": mine.within}
        else:
            why = reasons[place[:2]]
            said = say("The cells of this head are not in this page: {why}.", why=why)
            rough = say("What is drawn is its small picture, in steps of 1/255.")
            words = words | {"why": f"{said if why else full} {rough}"}
        found[place] = words
    return found


def _bound(
    runs: Sequence[Run],
    atlases: Sequence[bytes],
    heads: Sequence[dict[Place, dict[str, Any]]],
    said: dict[str, Any],
) -> bytes:
    """Return everything but the packed heads as one blob; arrays are named by number."""
    arrays: dict[str, np.ndarray] = {}

    def put(array: np.ndarray) -> str:
        arrays[f"a{len(arrays)}"] = array
        return f"a{len(arrays) - 1}"

    entries = []
    for run, atlas, mine in zip(runs, atlases, heads, strict=True):
        blocks = {}
        for block in run.trace.maps:
            small = run.trace.thumbnail(block)
            about = {"name": put(small), "shape": list(small.shape)}
            blocks[block] = {"map": _common(run.trace, block) | {"small": about}}
        named = {"{} {} {}".format(*place): words for place, words in mine.items()}
        atlas_name = put(np.frombuffer(atlas, np.uint8))
        entries.append(
            {"name": run.name, "low": 0.0, "blocks": blocks, "heads": named, "atlas": atlas_name}
        )
    return pack(said | {"runs": entries}, **arrays)


def _common(trace: Trace, block: str) -> dict[str, Any]:
    """Return the metadata that all heads of a block share."""
    layer = next((one.site.layer for one in trace.tiles if one.site.map == block), None)
    if layer is None:
        layer = trace.blocks(block)[0].site.layer
    line = TileLine("", "", TILE, levels(trace.map_shape(block, layer)))
    with taught():
        words = header(long_map_data(trace, block, layer, 0, line))
    return {name: value for name, value in words.items() if name != "arrays"}
