"""Recorded search for the browser: all steps are sent at once, so stepping needs no request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.search_tree import Search
from .blob import both_palettes, pack
from .head_map import map_height

HIGHEST = 520  # largest height of the history in pixels


@dataclass(frozen=True)
class PlayLook:
    """Display options of a search: step, text, head and colours.

    Args:
        layer, head: Source of the shown row of weights, from 0.
        pooled: Show the mean over that layer's heads instead of the one head.
        played: The shown step, from 0.
        chosen: The candidate whose text is shown; None for the best one.
        ramp: Colours of the history, one of :data:`transformer_viz.core.palette.RAMPS`.
        seq: Number of this state, which the browser returns once it is painted.
    """

    layer: int = 0
    head: int = 0
    pooled: bool = True
    played: int = 0
    chosen: int | None = None
    ramp: str = "ink"
    seq: int = 0


#: Default display options of a search.
PLAIN = PlayLook()


def play_data(
    search: Search,
    pieces: Sequence[str],
    words: Sequence[str],
    look: PlayLook = PLAIN,
    *,
    about: str,
    start: str = "",
    before: str | None = None,
) -> bytes:
    """Return a search for ``play.js``.

    Arrays by candidate: ``steps``, ``parents``, ``tokens`` (indices of the header's ``names``),
    ``ranks`` int32, ``logs``, ``totals``, ``scores``, ``chances`` float32, ``fates`` uint8. Arrays
    by pass: ``owners`` int32 ``[pass]``, ``top`` int32, ``top_logs`` and ``top_chances`` float32
    ``[pass, 10]``, ``keys`` int32, and ``rows`` float32 ``[pass, head, key]`` of one layer.
    :class:`transformer_viz.core.search_tree.Search` describes them.

    Args:
        search: Result of `search_recorder.record`.
        pieces: Name of every token of the vocabulary, ``[id]``.
        words: The key tokens that exist before the first step.
        look: Step, text, head and colours.
        about: Description of the search that distinguishes it from others.
        start: The text that is continued.
        before: Output of the clean run, for a changed run.

    Raises:
        LookupError: A layer that was not recorded, or no such candidate; the message lists both.
    """
    if not 0 <= look.layer < len(search.rows):
        raise LookupError(f"There are layers 0 to {len(search.rows) - 1}; got {look.layer}.")
    chosen = search.best[0] if look.chosen is None else look.chosen
    search.line(chosen)  # raises an error if there is no such candidate
    ids = sorted({*search.tokens.tolist(), *search.top_tokens.ravel().tolist()})
    place = {token: number for number, token in enumerate(ids)}
    header: dict[str, Any] = {
        "part": "play",
        "seq": look.seq,
        "colours": both_palettes(),
        "about": about,
        **_searched(search),
        "layer": look.layer,
        "head": look.head,
        "pooled": look.pooled,
        "names": [pieces[token] for token in ids],
        "words": list(words),
        "start": start,
        "before": before,
        "best": list(search.best),
        "written": list(search.texts),
        "played": look.played,
        "chosen": chosen,
        "ramp": look.ramp,
        "height": min(HIGHEST, map_height(int(search.steps.max()) + 1)),
    }
    return pack(header, **_candidates(search, place), **_passes(search, place, look.layer))


def _searched(search: Search) -> dict[str, Any]:
    """Return the search settings, for the header."""
    return {
        "way": "sample" if search.drawing else "beam" if search.beam > 1 else "greedy",
        "beam": search.beam,
        "drawing": search.drawing,
        "penalty": search.penalty,
        "block": search.block,
        "layers": len(search.rows),
    }


def _candidates(search: Search, place: dict[int, int]) -> dict[str, np.ndarray]:
    numbers = {
        name: getattr(search, name).astype(np.float32)
        for name in ("logs", "totals", "scores", "chances")
    }
    return numbers | {
        "steps": search.steps,
        "parents": search.parents,
        "ranks": search.ranks,
        "fates": search.fates,
        "tokens": _placed(search.tokens, place),
    }


def _passes(search: Search, place: dict[int, int], layer: int) -> dict[str, np.ndarray]:
    return {
        "owners": search.owners,
        "keys": search.keys,
        "top": _placed(search.top_tokens, place),
        "top_logs": search.top_logs.astype(np.float32),
        "top_chances": search.top_chances.astype(np.float32),
        "rows": search.rows[layer],
    }


def _placed(tokens: np.ndarray, place: dict[int, int]) -> np.ndarray:
    """Return ids as indices of the list of names."""
    return np.vectorize(place.__getitem__, otypes=[np.int32])(tokens)
