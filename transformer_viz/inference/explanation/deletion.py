"""The deletion curve: hide the k words that a method names, against k words by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from ...checkpoints.common.model import Model
from ...metrics.attribution.deletion import by_words, ordered, random_orders
from ...metrics.statistics import bootstrap
from ..model_inputs import model_of
from ..run_card import hash_of_ids, model_card
from .captions import OVER_WORDS
from .explaining import VERSION, Explainer
from .hiding import Tell, log_probabilities
from .question import Question, ask

MOST = 8  # words that are hidden on a curve
DRAWS = 20  # random orders
RANDOM = "random"


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """What the asked word loses when the first k words of each method are hidden.

    ``table`` has a row for each method and k: ``method`` (``random`` too), ``hidden`` (k), ``loss``
    in nats of the word's log probability (below 0: it gains), ``low`` and ``high``, the band that
    holds 95 % of the random orders (of a method its own loss), and ``words``, the labels that were
    hidden last. ``best`` is the mean loss over all k, by method.
    """

    table: pd.DataFrame
    card: dict[str, Any]

    @property
    def best(self) -> pd.Series:
        """The mean loss over k >= 1 by method, the largest first."""
        some = self.table[self.table["hidden"] > 0]
        return some.groupby("method")["loss"].mean().sort_values(ascending=False)


def words_to_hide(question: Question) -> dict[int, list[tuple[str, int]]]:
    """The words that a deletion may hide, by number, each with its tokens.

    Words of the source; special tokens stay, and so do later words than the row and, of a masked
    model, the place that is asked about.
    """
    tokens, found = question.read.source, dict[int, list[tuple[str, int]]]()
    lone = question.stack == "encoder" and question.read.target is None
    own = question.row if lone and question.model.gives == "words" else None
    unseen = question.unseen if question.read.target is None else frozenset()
    for number, word in enumerate(tokens.words):
        if tokens.special[number] or number in unseen or number == own:
            continue
        found.setdefault(word, []).append(("source", number))
    return found


def deletion_curve(
    explainer: Explainer,
    methods: Sequence[str] = OVER_WORDS,
    *,
    most: int = MOST,
    draws: int = DRAWS,
    seed: int = 0,
    tell: Tell | None = None,
) -> DeletionCurve:
    """The curves of several methods on one question, and that of chance.

    Args:
        explainer: of the question.
        methods: of those with a number for each word; one that the model cannot serve is left out.
        most: the most words that are hidden.
        draws: random orders.
        seed: of these.
        tell: hears how many of the runs are done, and of how many.

    Raises:
        ValueError: no output layer, fewer than two words, or a method without words.
    """
    question = explainer.question
    question.needs_logit("the deletion curve")
    words = words_to_hide(question)
    if len(words) < 2:
        raise ValueError(
            f"A deletion curve hides some words and leaves others, and this input has {len(words)} "
            "that can be hidden; give a longer sentence."
        )
    for method in methods:
        if method not in OVER_WORDS:
            raise ValueError(
                f"The deletion curve judges {', '.join(OVER_WORDS)}; {method!r} names no words."
            )
    orders = {}
    for method in methods:
        try:
            values = explainer.answer(method).values
        except ValueError:
            if method == "removal":
                raise
            continue
        orders[method] = ordered(_scores(values, words))
    count = min(most, len(words) - 1)
    chance = random_orders(list(words), draws, seed)
    sets = [
        _tokens(order[:k], words) for order in [*orders.values(), *chance] for k in range(count + 1)
    ]
    found = log_probabilities(question, sets, tell)
    loss = found[0] - found.reshape(-1, count + 1)
    rows = []
    for number, (method, order) in enumerate(orders.items()):
        for k in range(count + 1):
            value = float(loss[number, k])
            named = "" if not k else _label(question, words[order[k - 1]])
            rows.append((method, k, value, value, value, named))
    low, high = bootstrap.percentile_interval(loss[len(orders) :])
    for k in range(count + 1):
        mean = float(loss[len(orders) :, k].mean())
        rows.append((RANDOM, k, mean, float(low[k]), float(high[k]), ""))
    columns = ["method", "hidden", "loss", "low", "high", "words"]
    card = explainer.answer("weights").card | {"method": "deletion", "draws": draws, "seed": seed}
    return DeletionCurve(pd.DataFrame(rows, columns=columns), card)


def _scores(values: pd.DataFrame, words: dict[int, list[tuple[str, int]]]) -> dict[int, float]:
    source = values[values["sentence"] == "source"].set_index("token")["value"]
    tokens = [(word, token) for word, places in words.items() for _, token in places]
    numbers = np.array([source.get(token, np.nan) for _, token in tokens])
    return by_words(numbers, [word for word, _ in tokens])


def _tokens(
    order: Sequence[int], words: dict[int, list[tuple[str, int]]]
) -> frozenset[tuple[str, int]]:
    return frozenset(place for word in order for place in words[word])


def _label(question: Question, places: Sequence[tuple[str, int]]) -> str:
    return "".join(question.read.source.pieces[n] for _, n in places).replace("▁", " ").strip()


@dataclass(frozen=True, eq=False)
class Judged:
    """Methods judged over many sentences.

    ``table`` has a row for each method (``random`` too) and k: ``method``, ``hidden``, ``loss`` in
    nats with its 95 % interval ``low`` to ``high`` over sentences, and ``above``, how much more
    than chance on the same sentences, with ``above_low`` and ``above_high``. ``losses`` are
    ``[sentence, method, k]`` in the order of ``methods`` and ``hidden``; NaN where a sentence has
    fewer words. ``sentences`` counts those with that many.
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
    tell: Callable[[int, int], None] | None = None,
) -> Judged:
    """The deletion test over a list of sentences, one output word of each, drawn by seed.

    Args:
        model: what `load` gave, or a module.
        pairs: (source, target) pairs, or sources; a target left out is written greedily.
        methods: of those that give a number for each word.
        most: the most words that are hidden.
        draws: random orders a sentence.
        seed: of the words asked about, and of the orders.
        tell: hears how many sentences are done, of how many.

    Raises:
        ValueError: no sentence that could be judged.
    """
    ready, names = model_of(model), (*methods, RANDOM)
    generator = np.random.default_rng(seed)
    losses, asked = [], []
    for number, pair in enumerate(pairs):
        source, target = pair if isinstance(pair, tuple) else (pair, None)
        draw = int(generator.integers(2**31))
        question = _drawn(ready, source, target, draw)
        if question is not None:
            losses.append(_losses(Explainer(question), names, most, draws, draw))
            asked.append((source, target, question.number))
        if tell is not None:
            tell(number + 1, len(pairs))
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
    return Judged(_judged(found, names, hidden, seed), found, names, hidden, card)


def _drawn(model: Model, source: Any, target: Any, draw: int) -> Question | None:
    """One of the output's words with a letter or a digit; None where there is none."""
    try:
        first = ask(model, source, 0, target)
    except ValueError:
        return None
    if len(words_to_hide(first)) < 2 or first.token is None:
        return None
    if model.gives == "classes" or first.row is None:
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
    """``[method, k]``, NaN where there are not so many words or the method is not served."""
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
