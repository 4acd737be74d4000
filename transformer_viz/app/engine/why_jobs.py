"""Runs of the page Why this word: all methods on one output word, and the deletion curve.

Plain functions of a model, which import torch when they run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...core.numerics import ENDS, NATS

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.explanation.question import Question

Ids = tuple[int, ...]
Text = str | tuple[str, str]
#: Methods with a number per word, in display order; the first one is measured on the word itself.
OVER_WORDS = ("removal", "weights", "gradient", "contribution", "rollout")
METHODS = (*OVER_WORDS, "lens", "logits")


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of one method, without the run it was read from; see `Explanation`."""

    method: str
    values: pd.DataFrame
    complete: float | None
    caption: str
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """Results of all methods for one word.

    Attributes:
        word: Label of the word.
        probability: Its probability; None without an output layer and for a regression.
        found: Result by method.
        refused: Message by method that has no result.
        value: Score in ``unit``; None without an output layer.
    """

    word: str
    probability: float | None
    found: dict[str, Answer]
    refused: dict[str, str]
    value: float | None = None
    unit: str = NATS


def answers(
    model: Model,
    text: Text,
    target: Ids | int | None,
    word: int,
    masked: Ids,
    language: str,
    on_progress: Callable[[int, int], None],
) -> Answers:
    """Return the results of all methods.

    Args:
        text: A text, or two that the model reads together.
        target: Ids of the decoder's input with its start token; the class for a classifier; None
            if the text is the only input.
        word: Index of the word; for a model that marks an answer, 0 is its start, 1 its end.
        language: Language of the captions, which are cached with the numbers.

    Raises:
        ValueError: There is no such word.
    """
    from ...inference.explanation.explaining import Explainer

    question = _asked(model, text, target, word, masked)
    explainer = Explainer(question)
    found, refused = {}, {}
    for number, method in enumerate(METHODS):

        def within(done: int, of: int, number: int = number) -> None:
            on_progress(number * of + done, len(METHODS) * of)

        within(0, 1)
        try:
            made = explainer.answer(method, within)
        except ValueError as error:
            refused[method] = str(error)
            continue
        found[method] = Answer(method, made.values, made.complete, made.caption, made.card)
    on_progress(len(METHODS), len(METHODS))
    known = question.token is not None
    chance, value = (question.probability, question.value) if known else (None, None)
    return Answers(question.label, chance, found, refused, value, model.unit)


@dataclass(frozen=True, eq=False)
class Deleted:
    """Deletion curve: its table and card; see `DeletionCurve`."""

    table: pd.DataFrame
    card: dict[str, Any]


def deleted(
    model: Model,
    text: Text,
    target: Ids | int | None,
    word: int,
    masked: Ids,
    on_progress: Callable[[int, int], None],
) -> Deleted:
    """Return the deletion curves of all methods with a number for each word.

    Raises:
        ValueError: There is no output layer, or there are fewer than two words.
    """
    from ...inference.explanation.deletion import deletion_curve
    from ...inference.explanation.explaining import Explainer

    explainer = Explainer(_asked(model, text, target, word, masked))
    made = deletion_curve(explainer, OVER_WORDS, on_progress=on_progress)
    return Deleted(made.table, made.card)


def _asked(model: Model, text: Text, target: Ids | int | None, word: int, masked: Ids) -> Question:
    from ...inference.explanation.question import ask

    held = list(target) if isinstance(target, tuple) else target
    if model.gives == "spans":
        return ask(model, text, 0, held, output=ENDS[word])
    return ask(model, text, word, held, masked=masked)
