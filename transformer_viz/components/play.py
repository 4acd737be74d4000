"""A search as it went, for the browser: every step of it at once, so that stepping asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.search_tree import Search
from .blob import both_palettes, pack
from .head_map import map_height

HIGHEST = 520  # pixels of the history


@dataclass(frozen=True)
class PlayLook:
    """Which step, text and head of a search are shown, and in which colours.

    Args:
        layer, head: whose row of weights is shown, from 0.
        pooled: show the mean over that layer's heads instead of the one head.
        played: the step that is shown, from 0.
        chosen: the candidate whose text is shown; None is the best one.
        ramp: the colours of the history, one of :data:`transformer_viz.core.palette.RAMPS`.
        seq: the number of this state, which the browser gives back when it is painted.
    """

    layer: int = 0
    head: int = 0
    pooled: bool = True
    played: int = 0
    chosen: int | None = None
    ramp: str = "ink"
    seq: int = 0


#: The look that a search has unless another is given.
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
    """A search for ``play.js``.

    Arrays: by candidate ``steps``, ``parents``, ``tokens`` (places in the header's ``names``),
    ``ranks`` int32, ``logs``, ``totals``, ``scores``, ``chances`` float32, ``fates`` uint8; by pass
    ``owners`` int32 ``[pass]``, ``top`` int32 ``[pass, 10]`` with ``top_logs`` and ``top_chances``
    float32, ``keys`` int32, and ``rows`` float32 ``[pass, head, key]`` of one layer. What they mean
    is said in :class:`transformer_viz.core.search_tree.Search`.

    Args:
        search: what `search_recorder.record` gave.
        pieces: the name of every token that the model writes, ``[id]``.
        words: the tokens that are looked at, as far as they were there before the first step.
        look: the step, the text and the head that are shown, and the colours.
        about: what was searched for and how, so that another search is told from this one.
        start: the text that is gone on with.
        before: what the clean run writes, where this is a changed one.

    Raises:
        LookupError: a layer that was not watched, or no such candidate; says which there are.
    """
    if not 0 <= look.layer < len(search.rows):
        raise LookupError(f"There are layers 0 to {len(search.rows) - 1}; got {look.layer}.")
    chosen = search.best[0] if look.chosen is None else look.chosen
    search.line(chosen)  # says so where there is no such candidate
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
    """How was searched, for the header."""
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
    """Ids as places in the list of names."""
    return np.vectorize(place.__getitem__, otypes=[np.int32])(tokens)
