"""The deletion curve: hide the k words that a method names, against k words by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ...metrics.attribution.deletion import by_words, ordered, random_orders
from ...metrics.statistics import bootstrap
from .captions import OVER_WORDS
from .hiding import Tell, scores_without
from .question import Question

MOST = 8  # words that are hidden on a curve
DRAWS = 20  # random orders
RANDOM = "random"


class Answers(Protocol):
    """What is judged: all methods on one question."""

    question: Question

    def answer(self, method: str) -> Any:
        """What one method says: ``values`` and ``card`` of an `Explanation`."""
        ...


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """What the asked word loses when the first k words of each method are hidden.

    ``table`` has a row for each method and k: ``method`` (``random`` too), ``hidden`` (k), ``loss``
    of the word's score (below 0: it gains), ``low`` and ``high``, the band that holds 95 % of the
    random orders (of a method its own loss), ``words``, the labels that were hidden last, and
    ``unit``, nats of its log-probability or the logit of a regression. ``best`` is the mean loss
    over all k, by method.
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
    explainer: Answers,
    methods: Sequence[str] = OVER_WORDS,
    *,
    most: int = MOST,
    draws: int = DRAWS,
    seed: int = 0,
    on_progress: Tell | None = None,
) -> DeletionCurve:
    """The curves of several methods on one question, and that of chance.

    Args:
        explainer: of the question.
        methods: of those with a number for each word; one that the model cannot serve is left out.
        most: the most words that are hidden.
        draws: random orders.
        seed: of these.
        on_progress: hears how many of the runs are done, and of how many.

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
                f"The deletion curve judges {', '.join(OVER_WORDS)}; {method!r} is not judged."
            )
    orders = {}
    for method in methods:
        if method == "removal":
            orders[method] = ordered(_removed(question, words, on_progress))
            continue
        try:
            values = explainer.answer(method).values
        except ValueError:
            continue
        orders[method] = ordered(_scores(values, words))
    count = min(most, len(words) - 1)
    chance = random_orders(list(words), draws, seed)
    sets = [
        _tokens(order[:k], words) for order in [*orders.values(), *chance] for k in range(count + 1)
    ]
    found = scores_without(question, sets, on_progress)
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
    table = pd.DataFrame(rows, columns=columns).assign(unit=question.model.unit)
    return DeletionCurve(table, card)


def _scores(values: pd.DataFrame, words: dict[int, list[tuple[str, int]]]) -> dict[int, float]:
    source = values[values["sentence"] == "source"].set_index("token")["value"]
    tokens = [(word, token) for word, places in words.items() for _, token in places]
    numbers = np.array([source.get(token, np.nan) for _, token in tokens])
    return by_words(numbers, [word for word, _ in tokens])


def _removed(
    question: Question, words: dict[int, list[tuple[str, int]]], on_progress: Tell | None
) -> dict[int, float]:
    """What each word costs with all of its tokens hidden at once: no order begins better."""
    found = scores_without(question, [(), *words.values()], on_progress)
    return {word: float(found[0] - x) for word, x in zip(words, found[1:], strict=True)}


def _tokens(
    order: Sequence[int], words: dict[int, list[tuple[str, int]]]
) -> frozenset[tuple[str, int]]:
    return frozenset(place for word in order for place in words[word])


def _label(question: Question, places: Sequence[tuple[str, int]]) -> str:
    return "".join(question.read.source.pieces[n] for _, n in places).replace("▁", " ").strip()
