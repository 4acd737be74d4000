"""Evaluation of attribution methods over many sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from ...checkpoints.common.model import Model
from ...metrics.statistics import bootstrap
from ..model_inputs import model_of
from ..run_card import hash_of_ids, model_card
from .captions import OVER_WORDS
from .deletion import DRAWS, RANDOM, deletion_curve, words_to_hide
from .explaining import VERSION, Explainer
from .question import JUDGED, Question, ask


@dataclass(frozen=True, eq=False)
class Judged:
    """Deletion losses of several methods over many sentences.

    Attributes:
        table: A row per method (also ``random``) and k: ``method``, ``hidden``, ``sentences``
            (those with that many words), and ``loss``. The loss is in ``unit`` (nats, or the logit
            of a regression), with its 95 % interval ``low`` to ``high`` over sentences. ``above``
            is the loss minus that of random orders on the same sentences, with ``above_low`` and
            ``above_high``.
        losses: ``[sentence, method, k]`` in the order of ``methods`` and ``hidden``; NaN where a
            sentence has fewer words.
        methods: Names of the methods.
        hidden: Values of k.
        card: Details of the measurement.
    """

    table: pd.DataFrame
    losses: np.ndarray
    methods: tuple[str, ...]
    hidden: tuple[int, ...]
    card: dict[str, Any]


def judge(
    model: Model | nn.Module,
    pairs: Sequence[Any],
    methods: Sequence[str] = OVER_WORDS,
    *,
    most: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Judged:
    """Run the deletion test over a list of sentences, on one random output word of each.

    Args:
        model: Result of `load`, or a module.
        pairs: (source, target) pairs, or sources; a missing target is decoded greedily.
        methods: Methods with a value for each word.
        most: Largest number of hidden words.
        draws: Random orders per sentence.
        seed: Seed of the chosen words and of the orders.
        on_progress: Called with the number of sentences done and in all.

    Raises:
        ValueError: No sentence could be used.
    """
    ready, names = model_of(model), (*methods, RANDOM)
    generator = np.random.default_rng(seed)
    losses, asked = [], []
    for number, pair in enumerate(pairs):
        source, target = (pair, None) if _is_source(ready, pair) else pair
        draw = int(generator.integers(2**31))
        question = _drawn(ready, source, target, draw)
        if question is not None:
            losses.append(_losses(Explainer(question), names, most, draws, draw))
            asked.append((source, target, question.number))
        if on_progress is not None:
            on_progress(number + 1, len(pairs))
    if not losses:
        raise ValueError(
            "None of these sentences has two words to hide and an output word to ask about; give "
            "longer ones."
        )
    found, hidden = np.stack(losses), tuple(range(1, most + 1))
    card = model_card(ready) | {
        "sentences": len(losses),
        "sentences_hash": hash_of_ids(asked),
        "rows": len(losses),
        "method": "deletion",
        "metric_version": VERSION,
        "draws": draws,
        "seed": seed,
    }
    table = _judged(found, names, hidden, seed).assign(unit=ready.unit)
    return Judged(table, found, names, hidden, card)


def _is_source(model: Model, item: Any) -> bool:
    """Return True if an item is a source alone; two texts that a model reads together are one."""
    texts = isinstance(item, tuple) and all(isinstance(part, str) for part in item)
    return not isinstance(item, tuple) or (texts and model.pairs and item[1] not in model.labels)


def _drawn(model: Model, source: Any, target: Any, draw: int) -> Question | None:
    """Return a question on a random output word with a letter or digit; None without any."""
    try:
        first = ask(model, source, 0, target)
    except ValueError:
        return None
    if len(words_to_hide(first)) < 2 or first.token is None:
        return None
    if model.gives in JUDGED or first.row is None:
        return first
    choices = [
        first.about(word)
        for word, label in enumerate(first.words)
        if any(letter.isalnum() for letter in label) and not label.startswith("<")
    ]
    if not choices:
        return None
    return choices[int(np.random.default_rng(draw).integers(len(choices)))]


def _losses(
    explainer: Explainer, names: Sequence[str], most: int, draws: int, seed: int
) -> np.ndarray:
    """Return ``[method, k]``, NaN where there are fewer words or the method is unsupported."""
    made = deletion_curve(explainer, names[:-1], most=most, draws=draws, seed=seed).table
    found = np.full((len(names), most), np.nan)
    for row in made.itertuples():
        if row.hidden:
            found[names.index(row.method), row.hidden - 1] = row.loss
    return found


def _judged(
    losses: np.ndarray, names: Sequence[str], hidden: Sequence[int], seed: int
) -> pd.DataFrame:
    rows = []
    for n, name in enumerate(names):
        for k, count in enumerate(hidden):
            own, chance = losses[:, n, k], losses[:, -1, k]
            told = np.isfinite(own) & np.isfinite(chance)
            both = np.stack((own, own - chance), 1)[told]
            if not len(both):
                rows.append((name, count, 0, *[np.nan] * 6))
                continue
            one = np.ones(len(both))
            weights = bootstrap.reweightings(len(both), seed=seed)
            low, high = bootstrap.percentile_interval(bootstrap.pooled_means(both, one, weights))
            mean = both.mean(0)
            pair = [v for m, x, y in zip(mean, low, high, strict=True) for v in (m, x, y)]
            rows.append((name, count, int(told.sum()), *map(float, pair)))
    return pd.DataFrame(
        rows,
        columns=[
            *("method", "hidden", "sentences", "loss", "low", "high"),
            *("above", "above_low", "above_high"),
        ],
    )
