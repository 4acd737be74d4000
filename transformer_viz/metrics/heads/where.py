"""Where a head looks: entropy, confidence, distance, offsets, sinks (M1 to M7).

Each takes :class:`Maps` and gives :class:`Moments`, a value a row and head.
"""

from __future__ import annotations

import numpy as np

from .maps import TIE, Maps
from .moments import Moments, nothing, ratio, tally

OFFSETS = np.arange(-8, 9)


def entropy(maps: Maps) -> Moments:
    """M1: how widely a row spreads, ``-sum w ln w / ln n``, 0...1; uniform 1.

    Eligible: ordinary rows with n >= 2 keys in the view. Shannon 1948, over what the row allows.
    """
    w = maps.viewed
    logs = np.log(w, out=np.zeros_like(w), where=w > 0)
    return tally(-(w * logs).sum(-1) / np.log(np.maximum(maps.n, 2)), maps.rows)


def confidence(maps: Maps) -> Moments:
    """M2: the largest raw weight but on the end of the sentence, 0...1; uniform 1/n.

    Eligible: ordinary rows, in either view. Voita et al. 2019, section 4.
    """
    return tally((maps.raw * ~maps.ends).max(-1), maps.ordinary)


def distance(maps: Maps) -> Moments:
    """M3: how far a row looks, of how far it could: ``sum w |j - i| / max |j - i|``, 0...1.

    Eligible: rows of the view with a key elsewhere.
    """
    rows, columns = maps.visible.shape
    steps = np.abs(np.arange(columns) - np.arange(rows)[:, None])
    furthest = (steps * maps.keys).max(1)
    return tally(
        (maps.viewed * steps).sum(-1) / np.maximum(furthest, 1), maps.rows & (furthest > 0)
    )


def offset_profile(maps: Maps, offsets: np.ndarray = OFFSETS) -> Moments:
    """M4: the weight on key i + o for each offset o, ``[head, offset]``, 0...1; uniform 1/n.

    Eligible: rows where that key is there, allowed and an ordinary token.
    """
    return tally(*maps.at(offsets, maps.viewed))


def previous(maps: Maps) -> Moments:
    """M4 at -1: the weight on the token before, 0...1."""
    return _one(maps, -1)


def itself(maps: Maps) -> Moments:
    """M4 at 0: the weight on the token's own position, 0...1."""
    return _one(maps, 0)


def following(maps: Maps) -> Moments:
    """M4 at 1: the weight on the token after, 0...1; no value in causal maps."""
    return _one(maps, 1)


def _one(maps: Maps, offset: int) -> Moments:
    found = offset_profile(maps, np.array([offset]))
    return Moments(found.sum[:, 0], found.count[:, 0], found.squares[:, 0])


def positional(maps: Maps) -> Moments:
    """M5: the share of rows whose largest weight is at offset o, ``[head, offset]``, 0...1.

    The end of the sentence is left out, ties share. A head's score is that of its best offset,
    see :func:`best_offset`. Voita et al. 2019, section 5.1.
    """
    asked = np.where(maps.keys & ~maps.ends, maps.viewed, -1.0)
    top = asked >= asked.max(-1, keepdims=True) - TIE
    return tally(*maps.at(OFFSETS, top / np.maximum(top.sum(-1, keepdims=True), 1)))


def best_offset(total: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest mean over the last axis ``[..., offset]``, and its offset's place.

    An offset that fewer than half as many rows have as the commonest one is none: on a short
    sentence the furthest have a row or two. NaN where no row was counted.
    """
    enough = (count > 0) & (2 * count >= count.max(-1, keepdims=True))
    mean = np.where(enough, ratio(total, count), -1.0)
    best = mean.argmax(-1)
    value = np.take_along_axis(mean, best[..., None], -1)[..., 0]
    return np.where(value < 0, np.nan, value), best


def sink(maps: Maps) -> Moments:
    """M6: the raw weight on the first token, 0...1; uniform 1/n, in either view.

    Eligible: ordinary rows, in causal maps from the third on. Xiao et al. 2023, Gu et al. 2024.
    """
    early = np.arange(len(maps.visible)) < maps.first + 2 if maps.causal else False
    rows = maps.ordinary & maps.visible[:, maps.first] & ~np.asarray(early)
    return tally(maps.raw[..., maps.first], rows)


def special(maps: Maps) -> Moments:
    """M7: the raw weight on special tokens, periods and commas, 0...1, in either view.

    Eligible: ordinary rows that see one of them and something else. Clark et al. 2019, section 3.2.
    """
    return mass_on(maps, maps.key.special | maps.key.marks)


def mass_on(maps: Maps, keys: np.ndarray) -> Moments:
    """The raw weight on some keys ``[key]``, 0...1, of ordinary rows that see one and another."""
    asked = maps.visible & keys
    both = asked.any(1) & (maps.visible & ~keys).any(1)
    return tally((maps.raw * asked).sum(-1), maps.ordinary & both)


def null(maps: Maps) -> Moments:
    """M8: the share of the weight on first and special tokens that does nothing, 0...1.

    ``max(0, 1 - |sum over sinks of w f| / |sum w f|)`` with f = v W_O. Eligible: ordinary rows with
    more than .3 on them. Kobayashi et al. 2020. No value without values and output projection.
    """
    v, output = maps.beyond.values, maps.beyond.output
    if v is None or output is None:
        return nothing(maps.raw.shape[:1])
    sinks = maps.key.special | maps.key.marks | (np.arange(len(maps.key.special)) == maps.first)
    parked, whole = (np.linalg.norm(w @ v @ output, axis=-1) for w in (maps.raw * sinks, maps.raw))
    share = np.clip(1 - parked / np.maximum(whole, np.finfo(np.float64).tiny), 0, 1)
    return tally(share, maps.ordinary & ((maps.raw * sinks).sum(-1) > 0.3) & (whole > 0))
