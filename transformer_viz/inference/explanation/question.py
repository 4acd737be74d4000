"""Subject of an explanation: one word of an output, and its input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...capture import probe
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ...core.numerics import ENDS, LOGIT
from ...core.trace_parts import Produced, Tokens
from ...i18n import mark, say
from ..ablation.places import quiet
from ..capture_to_numpy import to_numpy
from ..model_inputs import Read, model_of, read_source
from ..outputs import produced_of, require_end, scores_of

#: Error message for a model without logits.
NO_OUTPUT = mark(
    "The model “{model}” has no output layer, so none of its rows says a word, and {method} asks "
    "what moves the logit of one. The weights, rollout and contributions of a row can be had."
)


JUDGED = ("classes", "spans")  # one output for the whole input
LISTED = 20  # words listed in an error


@dataclass(frozen=True, eq=False)
class Question:
    """Model, input and one word of the output.

    Attributes:
        model: The model.
        read: Input as the model reads it.
        row: Row of the last stack that predicts the word. For a classifier that reads one mark,
            that mark; None if all rows contribute.
        token: Id of the word, or the class; None without an output layer.
        label: Label of the word.
        number: Index of the word in the output.
        first: Row that predicts word 0.
        said: Predictions of each row.
        line: Row of the output if it differs from ``row``. For a model that marks an answer: 0 for
            its start, 1 for its end. Then ``row`` and ``token`` are the source token at which it
            starts or ends.
    """

    model: Model
    read: Read
    row: int | None
    token: int | None
    label: str
    number: int
    first: int = 0
    said: Produced | None = None
    line: int | None = None

    @property
    def count(self) -> int:
        """Number of output words that can be explained."""
        return 1 if self.model.gives in JUDGED else len(self.rows) - self.first

    @property
    def words(self) -> tuple[str, ...]:
        """Labels of these words; without an output layer, of the rows."""
        if self.model.gives in JUDGED:
            return (self.label,)
        return (self.rows if self.said is None else self.said).labels[self.first :]

    def about(self, word: int) -> Question:
        """Return the same run with another word of its output selected.

        Raises:
            ValueError: No such word; lists the words.
        """
        if not _is_number(word) or not 0 <= word < self.count:
            listed = [f"{n} {x}" for n, x in enumerate(self.words)]
            shown = ", ".join(listed[:LISTED]) + (", ..." if len(listed) > LISTED else "")
            raise ValueError(
                f"There is no word {word!r}; this output has 0 to {self.count - 1}: {shown}."
            )
        row = self.first + int(word)
        token = None if self.said is None else self.said.ids[row]
        label = self.words[int(word)]
        return replace(self, row=row, token=token, label=label, number=int(word))

    @property
    def stack(self) -> str:
        """Stack whose rows make the predictions."""
        return "encoder" if self.model.kind == "encoder-only" else "decoder"

    @property
    def rows(self) -> Tokens:
        """Tokens whose rows make the predictions."""
        return self.read.source if self.read.target is None else self.read.target

    @property
    def lone(self) -> str:
        """Stack of a lone self-attention."""
        return "decoder" if self.model.kind == "decoder-only" else "encoder"

    def needs_logit(self, method: str) -> int:
        """Return the token to explain.

        Raises:
            ValueError: The model has no output layer.
        """
        if self.token is None:
            raise ValueError(say(NO_OUTPUT, model=self.model.name, method=method))
        return self.token

    def logits(self, output: Tensor, place: int = 0) -> Tensor:
        """Return the logits ``[vocabulary]`` of the selected row, for one item of a batch."""
        found = output[place]
        row = self.row if self.line is None else self.line
        return found if found.dim() == 1 else found[row]

    def score(self, logits: Tensor) -> float:
        """Return the score of the selected word in the model's unit, from ``[vocabulary]``."""
        return float(scores_of(logits, self.model.task)[self.needs_logit("the score")])

    def watched_output(self) -> Tensor:
        """Return the output of a probed run that stores nothing.

        Fused attention runs as its formula there, so results are bit-identical to any captured run.
        """
        with probe(self.model.module, None, quiet(self.lone)):
            return self.read.through(self.model)

    @cached_property
    def value(self) -> float:
        """Score of the word in the clean run, in the model's unit."""
        with torch.no_grad():
            return self.score(self.logits(self.read.through(self.model)))

    @property
    def probability(self) -> float | None:
        """Probability of the word in the clean run; None where outputs have none."""
        return None if self.model.unit == LOGIT else math.exp(self.value)

    @cached_property
    def unseen(self) -> frozenset[int]:
        """Indices of target (or text) tokens that the row does not read: later ones."""
        if self.row is None or self.stack == "encoder" or self.line is not None:
            return frozenset()
        return frozenset(range(self.row + 1, len(self.rows)))


def ask(
    thing: Model | nn.Module,
    source: Any,
    word: int = 0,
    target: Any = None,
    image: Any = None,
    masked: Sequence[int] = (),
    output: str | None = None,
) -> Question:
    """Return a question on output word ``word``, counted from 0.

    With a target, the words are its tokens without the start mark; else the greedy output. For a
    decoder-only model without a target, word k is the prediction of row k: token k + 1 of the text.
    After the last token it is the model's own choice. For a masked model, the token at this
    position is masked (with those of ``masked``), and its prediction is explained. ``word`` is
    ignored for a classifier, where ``target`` may select another class or a regression's output. A
    model that marks an answer ignores it too: ``output`` selects its start or end, ``target``
    another token.

    Raises:
        ValueError: No such word, or an input that the model does not read.
    """
    model = model_of(thing)
    require_end(model, output)
    named = model.gives in JUDGED and target is not None
    if model.gives == "classes" and not _is_number(word):
        raise ValueError(
            f"A classifier says one thing of its input, so there is no word {word!r} to ask about. "
            f"Name a class by target={word!r}; this model knows "
            f"{', '.join(model.labels) or 'numbers from 0'}."
        )
    read = read_source(model, source, None if named else target, Intervention(), None, image=image)
    if _guesses(model):  # an unmasked word would only be copied
        hidden = {*masked, word} if _is_number(word) and 0 <= word < len(read.source) else masked
        places = tuple(sorted(int(n) for n in hidden))
        read = read_source(model, source, target, Intervention(), None, places, image)
    with torch.no_grad():
        found = read.through(model)
    said = _said(model, read, found)
    if model.gives == "classes":
        return _of_class(model, read, said, found, target if named else None)
    if model.gives == "spans":
        return _of_answer(model, read, said, output or ENDS[0], target)
    first = max(0, read.prompt - 1) if read.prompt is not None else 0
    return Question(model, read, None, None, "", 0, first, said).about(word)


def _guesses(model: Model) -> bool:
    """Return True if a model predicts masked tokens."""
    return model.kind == "encoder-only" and model.gives == "words" and model.mask_id is not None


def _is_number(word: object) -> bool:
    return isinstance(word, int | np.integer) and not isinstance(word, bool)


def _said(model: Model, read: Read, output: Tensor) -> Produced | None:
    """Return the prediction of each row; None without an output layer."""
    vectors = model.gives == "vectors" or not (read.source.ids or model.takes != "text")
    if vectors or model.takes == "vectors":
        return None
    return produced_of(model, read, to_numpy(output[0]))


def _of_answer(model: Model, read: Read, said: Produced | None, end: str, named: Any) -> Question:
    """Return a question on the start or end of the best answer, or on another token."""
    if said is None:
        raise ValueError(
            f"The model {model.name!r} marks an answer in a text; give a text, or its ids."
        )
    line, tokens = ENDS.index(end), read.source
    token = said.ids[line] if named is None else named
    if not _is_number(token) or not 0 <= token < len(tokens):
        raise ValueError(
            f"target is the token at which the answer has its {end}, a number from 0 to "
            f"{len(tokens) - 1}; got {token!r}."
        )
    label = f"{end}: {tokens.labels[token]}"
    return Question(model, read, int(token), int(token), label, 0, 0, said, line)


def _of_class(
    model: Model, read: Read, said: Produced | None, output: Tensor, named: Any
) -> Question:
    if output.dim() != 2 or said is None:
        raise ValueError(
            f"The model {model.name!r} judges in a form that is not known, "
            f"{list(output.shape)}; nothing can be asked about one class."
        )
    token = said.ids[0]
    if named is not None:
        token = model.labels.index(named) if named in model.labels else named
        if not isinstance(token, int | np.integer) or not 0 <= token < output.shape[1]:
            raise ValueError(
                f"There is no class {named!r}; this model knows "
                f"{', '.join(model.labels) or f'0 to {output.shape[1] - 1}'}."
            )
    label = model.labels[token] if token < len(model.labels) else str(token)
    return Question(model, read, _judging_row(model, read), int(token), label, 0, 0, said)


def _judging_row(model: Model, read: Read) -> int | None:
    """Return the row of the last stack that a classifier reads; None if all contribute."""
    source = read.source
    if model.kind == "decoder-only":
        return len(source) - 1
    if model.kind == "encoder-decoder":  # the library's models read the row of the last end token
        ends = [n for n, token in enumerate(source.ids) if token == model.eos_id]
        return ends[-1] if ends and read.target and ends[-1] < len(read.target) else None
    pooled = model.config.get("classifier_pooling") == "mean"  # ModernBERT
    return 0 if source.special and source.special[0] and not pooled else None
