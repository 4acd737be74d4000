"""M11 and M12: what weights alone cannot tell; the caller, who has the model, gives the arrays."""

from __future__ import annotations

import numpy as np

from .rows import HeadRows, Tally, nothing, tally

SINK = 0.3  # a row that gives more than this to sinks, or to its largest key, is asked
TOP = 5  # tokens that a head raises most


def copying(r: HeadRows) -> Tally:
    """M11: share of rows where the word most looked at is among the 5 that the head raises most.

    Range 0..1, chance 5/V; with ``-direct`` it finds heads that suppress. Rows of words with more
    than .3 on that word. Needs ``direct``. After Wang et al. 2022, section 3 (name movers).
    """
    if r.direct is None or r.key_ids is None:
        return nothing(r)
    token, rows = asked_to_copy(r)
    above = (r.direct > np.take_along_axis(r.direct, token[..., None], -1)).sum(-1)
    return tally((above < TOP).astype(np.float64), rows)


def asked_to_copy(r: HeadRows) -> tuple[np.ndarray, np.ndarray]:
    """For M11 the token each row looks at most, and whether it is asked, ``[head, query]`` both."""
    assert r.key_ids is not None
    on_words = np.where(r.allowed & r.content, r.weights, 0.0)
    return r.key_ids[on_words.argmax(-1)], r.asked & (on_words.max(-1) > SINK)


def copying_by_chance(r: HeadRows) -> Tally:
    """What `copying` gives where the raised tokens have nothing to do with those looked at: 5/V."""
    found = copying(r)
    share = 0.0 if r.direct is None else min(1.0, TOP / r.direct.shape[-1])
    return Tally(found.rows * share, found.rows, found.rows * share**2)


def ov_values(
    embed: np.ndarray, w_v: np.ndarray, w_o: np.ndarray, unembed: np.ndarray
) -> np.ndarray:
    """M12: ``Re sum(lambda) / sum abs(lambda)`` of ``W_E W_V W_O W_U``, ``[head]``, -1..1.

    The eigenvalues of the small product ``(W_O W_U)(W_E W_V)`` are the same but for zeros, so no
    matrix of the whole vocabulary is made. Gains of norms are to be folded in. No evidence of a
    role alone. Elhage et al. 2021, "Copying / OV circuits".

    Args:
        embed: ``[vocabulary, d_model]``.
        w_v: ``[head, d_model, d_head]``.
        w_o: ``[head, d_head, d_model]``.
        unembed: ``[d_model, vocabulary]``, of the same vocabulary.
    """
    around = unembed.astype(np.float64) @ embed.astype(np.float64)  # [d_model, d_model]
    small = w_o.astype(np.float64) @ around @ w_v.astype(np.float64)
    found = np.linalg.eigvals(small)
    size = np.abs(found).sum(-1)
    return np.where(size > 0, found.sum(-1).real / np.where(size > 0, size, 1.0), np.nan)


def ov_copying(r: HeadRows) -> Tally:
    """M12: the number that `ov_values` gave for each head; no row is asked, so it counts once."""
    if r.ov is None:
        return nothing(r)
    known = np.isfinite(r.ov)[:, None]
    return tally(np.nan_to_num(r.ov)[:, None], known)


def ov_by_chance(r: HeadRows) -> Tally:
    """Random weights give about 0."""
    found = ov_copying(r)
    return Tally(0 * found.total, found.rows, 0 * found.total)
