"""M1 to M7: where a head looks, told from its weights and the mask alone."""

from __future__ import annotations

import numpy as np

from .rows import TIE, HeadRows, Tally, tally

FURTHEST = 8  # tokens to either side for which an offset is looked at
OFFSETS = tuple(range(-FURTHEST, FURTHEST + 1))


def entropy(r: HeadRows) -> Tally:
    """M1: how widely a row spreads, ``-sum A' ln A' / ln n_i``, 0 ln 0 = 0.

    Range 0..1, 1 for a uniform head of any length. Rows of words, ``n_i >= 2``. Shannon 1948.
    """
    total = r.viewed.sum(-1, keepdims=True)
    p = r.viewed / np.where(total > 0, total, 1.0)  # a learned sink takes a part of the raw row
    nats = -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)
    return tally(nats / np.log(np.maximum(r.count, 2)), r.rows)


def largest(r: HeadRows) -> np.ndarray:
    """Each row's largest raw weight on a key that is no end token, ``[head, query]``."""
    return np.where(r.allowed & ~r.ends, r.weights, 0.0).max(-1).astype(np.float64)


def confidence(r: HeadRows) -> Tally:
    """M2: a row's largest weight, end tokens left out, not divided by what remains.

    Range 0..1, uniform 1/n_i. Rows of words. Voita et al. 2019, section 4.
    """
    return tally(largest(r), r.asked)


def distance(r: HeadRows) -> Tally:
    """M3: how far a row looks, ``sum A' |j - i| / max over K(i) of |j - i|``.

    Range 0..1, about .5 for a uniform head. Rows of words, self-attention.
    """
    span = reach(r)
    far = (r.viewed * np.abs(r.steps)).sum(-1) / np.maximum(span, 1)
    return tally(far, r.rows & (span > 0) & (not r.cross))


def reach(r: HeadRows) -> np.ndarray:
    """How far each row may look, in tokens, ``[query]``."""
    return np.where(r.keys, np.abs(r.steps), 0).max(-1)


def _at(r: HeadRows, weights: np.ndarray, offset: int) -> Tally:
    """``mean weights[i, i + offset]`` over rows where that key is there, allowed and a word."""
    return Tally(*(part[..., 0] for part in _at_all(r, weights, (offset,))))


def _at_all(r: HeadRows, weights: np.ndarray, offsets: tuple[int, ...] = OFFSETS) -> Tally:
    """The same for several offsets, ``[head, offset]``; one key a row is read, not all summed."""
    key, there = offset_keys(r, offsets)
    return tally(weights[:, np.arange(len(r.allowed)), key], r.rows[:, None] & there)


def offset_keys(r: HeadRows, offsets: tuple[int, ...] = OFFSETS) -> tuple[np.ndarray, np.ndarray]:
    """The key that stands at each offset from a row, and whether it may be asked for.

    Both ``[offset, query]``; the key is 0 where none may.
    """
    queries, keys = r.allowed.shape
    row, step = np.arange(queries), np.array(offsets)[:, None]
    key = row + step  # [offset, query]
    there = (key >= 0) & (key < keys)
    key = np.where(there, key, 0)
    there &= (r.keys & r.content)[row, key]
    if r.causal:  # the token before row 1 is the first: previous and sink are one
        there &= (step >= 0) | (key != r.first) | (row != r.first + 1)
    return key, there


def previous(r: HeadRows) -> Tally:
    """M4: weight on the token before, ``A'[i, i-1]``.

    Range 0..1, uniform 1/n_i. Rows of words whose token before is a word; under a causal mask not
    row 1, whose token before is also the first. Self-attention. Clark et al. 2019, section 3.1.
    """
    return _self(r, -1)


def itself(r: HeadRows) -> Tally:
    """M4: weight on the row's own token, ``A'[i, i]``. Range and rows as `previous`."""
    return _self(r, 0)


def following(r: HeadRows) -> Tally:
    """M4: weight on the next token, ``A'[i, i+1]``; never asked under a causal mask."""
    return _self(r, 1)


def _self(r: HeadRows, offset: int) -> Tally:
    return _at(r, r.viewed, offset) if not r.cross else nothing(r)


def offset_profile(r: HeadRows) -> Tally:
    """M4: ``A'[i, i+o]`` for each o of `OFFSETS`, ``[head, offset]``."""
    return _at_all(r, r.viewed)


def positional(r: HeadRows) -> Tally:
    """M5: for each offset the share of rows whose largest weight sits there, ``[head, offset]``.

    Equal weights share their row. Range 0..1. Rows of words where that key is there; end tokens
    are left out. `registry` takes the best offset. Voita et al. 2019, section 5.2.1.
    """
    keys = r.keys & ~r.ends
    weights = np.where(keys, r.viewed, -1.0)
    best = (weights >= weights.max(-1, keepdims=True) - TIE) & keys
    share = best / np.maximum(best.sum(-1, keepdims=True), 1)
    return _at_all(r, share)


def sink(r: HeadRows) -> Tally:
    """M6: weight on the first token, ``A[i, 0]``, in both views.

    Range 0..1, uniform 1/n_i. Rows of words; under a causal mask from row 2, as the token before
    row 1 is the first. Gu et al. 2024, section 3.
    """
    return tally(r.weights[..., r.first].astype(np.float64), r.asked & may_sink(r))


def may_sink(r: HeadRows) -> np.ndarray:
    """Rows that may be asked for `sink`, ``[query]``."""
    place = np.arange(len(r.allowed)) - r.first
    return r.allowed[:, r.first] & ((place >= 2) | (not r.causal))


def mass_on(r: HeadRows, keys: np.ndarray) -> Tally:
    """M7: raw weight on some keys, bool ``[key]``: special tokens, or full stops and commas.

    Range 0..1. Rows of words that may look at one of them and at another key. Clark et al. 2019.
    """
    on = np.where(r.allowed & keys, r.weights, 0.0).sum(-1, dtype=np.float64)
    return tally(on, r.asked & may_choose(r, keys))


def may_choose(r: HeadRows, keys: np.ndarray) -> np.ndarray:
    """Rows that may look at one of some keys and at another key, ``[query]``."""
    return (r.allowed & keys).any(-1) & (r.allowed & ~keys).any(-1)


def special(r: HeadRows) -> Tally:
    """M7: raw weight on special tokens (BOS, EOS, CLS, SEP, mask), see `mass_on`."""
    return mass_on(r, r.key_special)


def nothing(r: HeadRows) -> Tally:
    """A question that cannot be put to this block."""
    return Tally(*(np.zeros(r.heads) for _ in range(3)))
