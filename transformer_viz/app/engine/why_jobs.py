"""The runs behind Why this word: all methods on one word of the output, and the deletion curve.

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
#: The methods with a number for each word, in the order in which they stand side by side: first
#: the one that is measured on the word itself.
OVER_WORDS = ("removal", "weights", "gradient", "contribution", "rollout")
METHODS = (*OVER_WORDS, "lens", "logits")


@dataclass(frozen=True, eq=False)
class Answer:
    """What one method says, without the run that it was read from; see `Explanation`."""

    method: str
    values: pd.DataFrame
    complete: float | None
    caption: str
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """All methods on one word: ``found`` by method, and of the others the sentence why not.

    ``word`` is what the word is called, ``probability`` the model's own, None without an output
    layer and for a regression; ``value`` is its score in ``unit``, None without an output layer.
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
    """Every method's answer.

    Args:
        text: a text, or two that the model reads together.
        target: ids of the decoder's input, start mark included; of a classifier the class; None
            where the text itself is all.
        word: number of the word; of a model that marks an answer 0 for its start, 1 for its end.
        language: of the captions, which are remembered with the numbers.

    Raises:
        ValueError: no such word.
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
    """A deletion curve: its table and card; see `DeletionCurve`."""

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
    """The deletion curves of all methods with a number for each word.

    Raises:
        ValueError: no output layer, or fewer than two words.
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
