"""Bootstrap over sentences: intervals of means and of ranks, split halves.

Whole sentences are resampled, since tokens of one sentence are not independent. Efron, B. (1979),
"Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1).
"""

from __future__ import annotations

import numpy as np

DRAWS = 1000
LEVEL = 0.95  # share of the draws within an interval


def reweightings(sentences: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Return each draw's sentence counts: int ``[draw, sentence]``, rows sum to ``sentences``."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=draws)


def pooled_means(
    sums: np.ndarray, counts: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return means over the rows of all sentences: ``[..., column]`` float64.

    Args:
        sums: ``[sentence, column]``, a sentence's sum over its rows.
        counts: ``[sentence]``, number of rows; not all 0.
        weights: ``[draw, sentence]`` from `reweightings`; by default each sentence counts once and
            the result is ``[column]``.
    """
    sums, counts = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
    if weights is None:
        return sums.sum(axis=0) / counts.sum()
    return (weights @ sums) / (weights @ counts)[:, None]


def percentile_interval(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Return the central interval of the draws ``[draw, column]``: both ends, ``[column]`` each."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), axis=0)
    return low, high


def ranks(values: np.ndarray) -> np.ndarray:
    """Return integer ranks from 1 for the largest along the last axis; ties keep their order."""
    order = np.argsort(-values, axis=-1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, values.shape[-1] + 1), axis=-1)
    return found


def rank_interval(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of each column's rank over the draws ``[draw, column]``.

    Returns:
        Best and worst rank, integers ``[column]``. Ties within a draw share their ranks.
    """
    best, worst = shared_places(draws)
    tail = (1 - level) / 2
    low = np.quantile(best, tail, axis=0, method="inverted_cdf")
    high = np.quantile(worst, 1 - tail, axis=0, method="inverted_cdf")
    return low.astype(np.int64), high.astype(np.int64)


def shared_places(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last rank of each value of a row ``[row, column]``, ties included.

    5, 3, 3 gives 1, 2, 2 and 1, 3, 3.
    """
    ordered = np.sort(-values, axis=1)
    best, worst = np.empty(values.shape, np.int64), np.empty(values.shape, np.int64)
    for row, known in enumerate(ordered):
        best[row] = np.searchsorted(known, -values[row], side="left") + 1
        worst[row] = np.searchsorted(known, -values[row], side="right")
    return best, worst


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's correlation of two lists ``[column]``, with mean ranks for ties.

    NaN if one list is constant.
    """
    x, y = (np.mean(shared_places(values[None]), axis=0)[0] for values in (a, b))
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum()) / size if size else float("nan")


def split_half(sums: np.ndarray, counts: np.ndarray, splits: int = 20, seed: int = 0) -> float:
    """Return Spearman's correlation of the columns' ranks in two halves of the sentences.

    The mean over random splits; NaN below two sentences, or where nothing differs.

    Args:
        sums: ``[sentence, column]``.
        counts: Rows of each sentence, ``[sentence]``.
        splits: Number of splits.
        seed: Seed of the splits.
    """
    if len(counts) < 2:
        return float("nan")
    generator, found = np.random.default_rng(seed), []
    for _ in range(splits):
        order = generator.permutation(len(counts))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        found.append(spearman(*(pooled_means(sums[half], counts[half]) for half in halves)))
    return float(np.mean(found))
