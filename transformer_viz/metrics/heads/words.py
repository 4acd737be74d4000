"""What a head looks for in the words: duplicates, induction, copying (M9 to M12)."""

from __future__ import annotations

import numpy as np

from .maps import TIE, Maps
from .moments import Moments, nothing, tally

CROWD = 4  # a row with more than n / CROWD targets tells nothing: a uniform head would hit them
TOP = 5  # a head copies a token that is among so many of the largest logits
SURE = 0.3  # of the weight on one key, to ask whether it is copied


def duplicate(maps: Maps) -> Moments:
    """M9: the weight on other places of the same token, added up, 0...1; uniform #D/n.

    Eligible: rows with such places, at most a quarter of their keys. Self-attention only.
    """
    if maps.cross or maps.query.ids is None:
        return nothing(maps.raw.shape[:1])
    ids = maps.query.ids
    same = (ids[:, None] == ids) & ~np.eye(len(ids), dtype=bool)
    return _weight_on(maps, same)


def induction(maps: Maps) -> Moments:
    """M10: the weight on tokens that followed an earlier place of this token, 0...1; uniform #S/n.

    ``S = {j != i: id_(j-1) = id_i, j - 1 < i}``. Eligible: rows with such a key, at most a quarter
    of their keys, and not in a run of one token. Olsson et al. 2022 (prefix matching).
    """
    if maps.cross or maps.query.ids is None:
        return nothing(maps.raw.shape[:1])
    ids, place = maps.query.ids, np.arange(len(maps.query.ids))
    before, there = np.roll(ids, 1), np.roll(~maps.query.special, 1) & (place > 0)
    after = (ids[:, None] == before) & there & (place - 1 < place[:, None])
    run = (before == ids) & there
    return _weight_on(maps, after & (place != place[:, None]) & ~run[:, None])


def _weight_on(maps: Maps, targets: np.ndarray) -> Moments:
    """The weight on ordinary keys of a set ``[query, key]`` in rows where it is small."""
    asked = targets & maps.keys & ~maps.key.special
    count = asked.sum(1)
    few = (count > 0) & (count * CROWD <= maps.n)
    return tally((maps.viewed * asked).sum(-1), maps.rows & few)


def copying(maps: Maps) -> Moments:
    """M11: how often a head raises what it looks at: 1 where the most attended token is among the
    5 largest of its direct logits ``W_U LN*(z W_O)``; chance 5/V.

    Eligible: rows of the second half with more than .3 of their weight on that key. After Olsson et
    al. 2022 and Wang et al. 2022; LN* is the last norm with its scale held. No value without
    values, projections and a last norm, or where a key's id is no word of the output.
    """
    return _raised(maps, 1.0)


def suppressing(maps: Maps) -> Moments:
    """M11 with the sign turned: how often a head lowers what it looks at, as `copying`."""
    return _raised(maps, -1.0)


def _raised(maps: Maps, sign: float) -> Moments:
    v, final, table = maps.beyond.values, maps.beyond.final, maps.beyond.unembedding
    if v is None or final is None or table is None or maps.key.ids is None:
        return nothing(maps.raw.shape[:1])
    asked = maps.raw * ~maps.key.special
    looked = asked.argmax(-1)
    late = 2 * np.arange(len(maps.visible)) >= len(maps.visible)
    sure = maps.ordinary & late & (asked.max(-1) > SURE)
    logits = sign * ((maps.raw @ v @ final)[sure] @ table.T)
    told = np.take_along_axis(logits, maps.key.ids[looked[sure]][:, None], 1)
    near = TIE * np.abs(logits).max(1, keepdims=True)  # of equal logits none is among the largest
    hits = np.zeros(sure.shape)
    hits[sure] = (logits >= told - near).sum(1) <= TOP
    return tally(hits, sure)


def ov_copying(maps: Maps) -> Moments:
    """M12: copying by the weights alone, ``Re sum(lambda) / sum |lambda|`` of W_E W_V W_O W_U,
    -1...1; random about 0.

    From the product of ``[d_v, d_v]`` that has the same eigenvalues (Elhage et al. 2021). It asks
    no row and is one value a head; it is no evidence of a role alone.
    """
    circuit = maps.beyond.circuit
    if circuit is None:
        return nothing(maps.raw.shape[:1])
    found = np.linalg.eigvals(circuit)
    size = np.abs(found).sum(-1)
    score = found.real.sum(-1) / np.where(size > 0, size, 1)
    return tally(score[:, None], (size > 0)[:, None])
