"""M11 and M12, which need model weights; the caller passes the arrays."""

from __future__ import annotations

import numpy as np

from .rows import HeadRows, Tally, nothing, tally

SINK = 0.3  # rows with more weight on sinks, or on their largest key, count
TOP = 5  # tokens that a head promotes most


def copying(r: HeadRows) -> Tally:
    """Return M11: share of rows whose strongest token is among the 5 that the head promotes most.

    Range 0..1, chance 5/V; with ``-direct`` it finds suppressing heads. Rows of words with more
    than .3 on that token count. Needs ``direct``. After Wang et al. 2022, section 3 (name movers).
    """
    if r.direct is None or r.key_ids is None:
        return nothing(r)
    token, rows = asked_to_copy(r)
    above = (r.direct > np.take_along_axis(r.direct, token[..., None], -1)).sum(-1)
    return tally((above < TOP).astype(np.float64), rows)


def asked_to_copy(r: HeadRows) -> tuple[np.ndarray, np.ndarray]:
    """Return, for M11, each row's strongest token and the row mask, ``[head, query]`` both."""
    assert r.key_ids is not None
    on_words = np.where(r.allowed & r.content, r.weights, 0.0)
    return r.key_ids[on_words.argmax(-1)], r.asked & (on_words.max(-1) > SINK)


def copying_by_chance(r: HeadRows) -> Tally:
    """Return `copying` for promoted tokens that are independent of attention: 5/V."""
    found = copying(r)
    share = 0.0 if r.direct is None else min(1.0, TOP / r.direct.shape[-1])
    return Tally(found.rows * share, found.rows, found.rows * share**2)


def ov_values(
    embed: np.ndarray, w_v: np.ndarray, w_o: np.ndarray, unembed: np.ndarray
) -> np.ndarray:
    """Return M12: ``Re sum(lambda) / sum abs(lambda)`` of ``W_E W_V W_O W_U``, ``[head]``, -1..1.

    The small product ``(W_O W_U)(W_E W_V)`` has the same nonzero eigenvalues, so no matrix of the
    whole vocabulary is built. Norm gains must be folded in. M12 alone is no evidence of a role.
    Elhage et al. 2021, "Copying / OV circuits".

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
    """Return M12: the result of `ov_values` for each head; needs no row, so it counts once."""
    if r.ov is None:
        return nothing(r)
    known = np.isfinite(r.ov)[:, None]
    return tally(np.nan_to_num(r.ov)[:, None], known)


def ov_by_chance(r: HeadRows) -> Tally:
    """Return 0, the value of random weights."""
    found = ov_copying(r)
    return Tally(0 * found.total, found.rows, 0 * found.total)
