"""Deletion curve: hide the top k words of a method, compared with k random words."""

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

MOST = 8  # words hidden at most
DRAWS = 20  # random orders
RANDOM = "random"


class Answers(Protocol):
    """Interface of an explainer: all methods on one question."""

    question: Question

    def answer(self, method: str) -> Any:
        """Return the ``values`` and ``card`` of an `Explanation` by one method."""
        ...


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """Loss of the target word's score when the top k words of each method are hidden.

    Attributes:
        table: A row per method and k: ``method`` (also ``random``), ``hidden`` (k), ``loss`` of the
            score (negative for a gain), ``low`` and ``high``, ``words`` and ``unit``. ``words`` is
            the label hidden last; the unit is nats of the log-probability, or the logit of a
            regression. ``low`` and ``high`` hold 95 % of the random orders; for a method they equal
            its loss.
        card: Details of the measurement.
    """

    table: pd.DataFrame
    card: dict[str, Any]

    @property
    def best(self) -> pd.Series:
        """Mean loss over k >= 1 by method, the largest first."""
        some = self.table[self.table["hidden"] > 0]
        return some.groupby("method")["loss"].mean().sort_values(ascending=False)


def words_to_hide(question: Question) -> dict[int, list[tuple[str, int]]]:
    """Return the words that a deletion may hide, by number, each with its tokens.

    These are source words. Special tokens are kept, and so are words after the row and, for a
    masked model, the masked position.
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
    """Compute the deletion curves of several methods on one question, and of random orders.

    Args:
        explainer: Explainer of the question.
        methods: Methods with a value for each word; unsupported ones are skipped.
        most: Largest number of hidden words.
        draws: Number of random orders.
        seed: Seed of the random orders.
        on_progress: Called with the number of runs done and in all.

    Raises:
        ValueError: No output layer, fewer than two words, or a method without word values.
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
    """Return each word's loss when all its tokens are hidden together: the optimal first step."""
    found = scores_without(question, [(), *words.values()], on_progress)
    return {word: float(found[0] - x) for word, x in zip(words, found[1:], strict=True)}


def _tokens(
    order: Sequence[int], words: dict[int, list[tuple[str, int]]]
) -> frozenset[tuple[str, int]]:
    return frozenset(place for word in order for place in words[word])


def _label(question: Question, places: Sequence[tuple[str, int]]) -> str:
    return "".join(question.read.source.pieces[n] for _, n in places).replace("▁", " ").strip()
