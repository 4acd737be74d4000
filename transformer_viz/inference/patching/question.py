"""Question of activation patching: two sentences, and the output words that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...checkpoints.common.model import Model
from ...core.editing.token_match import unmatched
from ...core.interventions import Intervention
from ...core.numerics import ENDS, LOGIT, MULTI_LABEL, REGRESSION
from ...core.trace_parts import Tokens
from ...preprocessing.tokenizers import target_side
from ..donors import Lender, Lent, Other, Source, refuse_swaps
from ..generation import translate
from ..outputs import JUDGED, require_end, scores_of
from ..search import Tell
from ..token_ids import ids_and_segments, source_ids, target_ids, target_pieces, vocabulary_ids
from .choices import about, choice_of, counterpart, differing_token
from .output_words import first_piece, parting

Words = Sequence[Any]


@dataclass(frozen=True, eq=False)
class Question:
    """Subject of activation patching: two runs, each with a batch of one.

    Attributes:
        model: The model.
        lender: Source of patches.
        other: Donor sentence.
        source: Ids ``[1, token]``, with appended ones.
        target: Ids ``[1, token]`` of a decoder beside an encoder.
        written: Appended ids of a decoder-only model, ``[1, token]``.
        row: Selected row of the output; None for a class.
        there: The same of the donor run.
        wanted: The two ids whose scores are compared, or the one output that is measured alone.
        words: Labels of ``wanted``.
        place: Description of the position.
        named: Donor sentence as an edit names it.
        segments: Text index ``[1, token]`` of each source token, for two texts.
        wanted_there: ``wanted`` in the donor run, where they are source tokens.
    """

    model: Model
    lender: Lender
    other: Other
    source: Tensor
    target: Tensor | None
    written: Tensor | None
    row: int | None
    there: int | None
    wanted: tuple[int, ...]
    words: tuple[str, ...]
    place: str
    named: Source
    segments: Tensor | None = None
    wanted_there: tuple[int, ...] | None = None

    @property
    def own_tokens(self) -> Tokens:
        """Source tokens, with appended ones."""
        return self.model.tokenizer.tokens(self.source[0].tolist())

    @property
    def other_tokens(self) -> Tokens:
        """Tokens of the donor sentence, without appended ones."""
        return self.model.tokenizer.tokens(list(self.other.ids))

    @property
    def target_tokens(self) -> Tokens | None:
        """Target up to the position; row t reads token t."""
        if self.target is None:
            return None
        return target_side(self.model.tokenizer).tokens(self.target[0].tolist())

    @property
    def lone(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Source tokens without a counterpart: of the edited sentence, and of the donor."""
        return unmatched(self.other.counterparts, len(self.other.ids))

    def difference(self, output: Tensor, other: bool = False) -> Tensor:
        """Return the first word's score minus that of the second, float64 ``[item]``.

        For a single output, its score. For words and classes, it is the difference of logits, which
        equals that of log-probabilities. ``other`` marks an output of the donor sentence.
        """
        logits, (first, *second) = self._asked(output, other)
        scores = scores_of(logits, self.model.task) if self.alone else logits.double()
        return scores[:, first] - scores[:, second[0]] if second else scores[:, first]

    def chances(self, output: Tensor, other: bool = False) -> tuple[float, ...]:
        """Return the probabilities of the words, or the outputs of a regression, for one item."""
        logits, wanted = self._asked(output, other)
        scores = scores_of(logits[0], self.model.task)[list(wanted)]
        return tuple((scores if self.model.unit == LOGIT else scores.exp()).tolist())

    def _asked(self, output: Tensor, other: bool) -> tuple[Tensor, tuple[int, ...]]:
        """Return the logits ``[item, choice]`` of the selected row, and the words' ids there."""
        row = self.there if other else self.row
        wanted = self.wanted_there if other and self.wanted_there else self.wanted
        return (output if row is None else output[:, row]), wanted

    @property
    def alone(self) -> bool:
        """True if the model's outputs are independent: several labels, or a regression."""
        return stands_alone(self.model)

    def lent(self, patterns: bool = True) -> Lent:
        """Return the clean run on the donor sentence."""
        return self.lender.run(self.other, self.target, self.written, patterns)

    def through(self, copies: int = 1) -> Tensor:
        """Return the model's output for the edited sentence, repeated for each copy."""
        source = self.source.repeat(copies, 1)
        target = None if self.target is None else self.target.repeat(copies, 1)
        pad = self.model.pad_id
        mask = None if pad is None else source != pad
        mask = None if mask is None or bool(mask.all()) else mask
        more = {} if self.segments is None else {"segments": self.segments.repeat(copies, 1)}
        return self.model.calls.forward(source, target, mask, **more)


def clean_pair(
    question: Question,
) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], tuple[float, float]]:
    """Run both sentences without edits; return the words' probabilities and the first one's lead.

    See `Question.chances` and `Question.difference`.
    """
    with torch.no_grad():
        lent = question.lent(patterns=False)
        runs = (question.through(), False), (lent.output, True)
        chances = [question.chances(*run) for run in runs]
        leads = [float(question.difference(*run)[0]) for run in runs]
    return (chances[0], chances[1]), (leads[0], leads[1])


def ask(
    model: Model,
    source: Any,
    other: Any,
    words: Words | None,
    target: Any = None,
    masked: Sequence[int] = (),
    outputs: tuple[Sequence[int], Sequence[int]] | None = None,
    output: str | None = None,
    token: int | None = None,
    on_progress: Tell | None = None,
) -> Question:
    """Return the question for two sentences: position and pair of words.

    A generating model is evaluated where the two outputs diverge. With ``words``, it is evaluated
    at the first of them in the edited sentence's output (else at the second in the donor's). Both
    runs get the same tokens before that position. A masked model is evaluated at the first mask, a
    classifier on its classes, a tagger on the classes of one ``token``. A model that marks an
    answer is evaluated on the tokens at its ``output``, ``start`` or ``end``.

    Args:
        model: The model.
        source: Sentence of the edited run.
        other: Donor sentence.
        words: Pair of words, classes or tokens, or a single independent output.
        target: Tokens before the position.
        masked: Positions to mask.
        outputs: Ids of both outputs, if known; by default they are decoded greedily.
        output: End of an answer.
        token: Token to classify.
        on_progress: Called before each pass while outputs are decoded.

    Raises:
        ValueError: Unreadable or equal texts, a model without words, or a position that is not
            found.
    """
    refuse_swaps(model)
    if model.gives not in ("words", *JUDGED):
        raise ValueError(
            f"The model {model.name!r} gives {model.gives}; a swap is read off at a pair of words "
            "or classes. Choose a model with an output layer of words."
        )
    require_end(model, output)
    if token is not None and model.gives != "tags":
        raise ValueError(
            f"token is the token whose class is asked, of a model that judges each token, and "
            f"{model.name!r} gives {model.gives}; leave it out."
        )
    if words is not None and stands_alone(model):
        words = (words,) if isinstance(words, str | int) else tuple(words)
        if not 1 <= len(words) <= 2:
            raise ValueError(f"words is one output or a pair of them; got {words!r}.")
    elif words is not None and (isinstance(words, str) or len(tuple(words)) != 2):
        raise ValueError(f"words is a pair such as ('es', 'sie'); got {words!r}.")
    (own_ids, segments), theirs = (ids_and_segments(model, text) for text in (source, other))
    if (own_ids, segments) == theirs:
        raise ValueError(
            "Both sentences are the same to this model, so there is nothing to swap; change a word."
        )
    if model.kind == "encoder-only" or model.gives in JUDGED:
        row = token if model.gives == "tags" else None
        if model.gives == "spans":
            row = ENDS.index(output or ENDS[0])
        return _judged(model, own_ids, segments, other, words, masked, row)
    lender = Lender(model, Intervention(), own_ids)
    there = lender.other(_source(other))
    if target is not None:
        held = _held(model, target)
        place = "behind the target that was given"
    else:
        if outputs is None:
            best = [
                translate(model, ids, on_progress=on_progress and half(on_progress, number))[0].ids
                for number, ids in enumerate((own_ids, theirs[0]))
            ]
            outputs = (best[0], best[1])
        written = [list(ids) for ids in outputs]
        texts = tuple(target_side(model.tokenizer).decode(ids) for ids in outputs)
        held, words, place = parting(model, written[0], written[1], texts, words)
    wanted: list[int] | None = None
    if words is not None:
        wanted = [first_piece(model, own_ids, held, word) for word in words]
    return _at(model, lender, there, own_ids, held, wanted, words, place, _source(other))


def half(on_progress: Tell, number: int) -> Tell:
    """Return a progress callback for the first (0) or second (1) of two equal tasks."""
    return lambda done, of: on_progress(number * of + done, 2 * of)


def _source(other: Any) -> Source:
    if isinstance(other, str) or all(isinstance(text, str) for text in other):
        return other if isinstance(other, str) else tuple(other)
    return tuple(int(i) for i in other)


def _held(model: Model, target: Any) -> list[int]:
    """Return the tokens before the position, without the start token."""
    if model.kind == "decoder-only":
        if isinstance(target, str):
            return target_pieces(model, target)
        return vocabulary_ids(model, "target", target)
    ids = target_ids(model, target)
    return ids[1:] if ids[0] == model.bos_id else ids


def _at(
    model: Model,
    lender: Lender,
    other: Other,
    own_ids: list[int],
    held: list[int],
    wanted: list[int] | None,
    words: Words | None,
    place: str,
    named: Source,
) -> Question:
    """Return the question after these tokens, for the two most probable ones by default."""
    device = model.device
    if model.kind == "decoder-only":
        source_ids(model, [*own_ids, *held])  # checks the length as well
        source = torch.tensor([[*own_ids, *held]], device=device)
        target, written = None, torch.tensor([held], device=device, dtype=torch.long)
        rows = (source.shape[1] - 1, len(other.ids) + len(held) - 1)
    else:
        source = torch.tensor([own_ids], device=device)
        start = [] if model.bos_id is None else [model.bos_id]
        ids = target_ids(model, [*start, *held])
        target, written = torch.tensor([ids], device=device), None
        rows = (len(ids) - 1, len(ids) - 1)
    made = Question(
        model, lender, other, source, target, written, *rows, (0, 0), ("", ""), place, named
    )
    return about(made, wanted, words)


def stands_alone(model: Model) -> bool:
    """Return True if each output of a model is measured by itself, not against the others."""
    return model.task in (MULTI_LABEL, REGRESSION)


def _judged(
    model: Model,
    own_ids: list[int],
    segments: list[int] | None,
    other: Any,
    words: Words | None,
    masked: Sequence[int],
    row: int | None,
) -> Question:
    """Return the question for a model that judges, or for a masked model at its mask."""
    places: list[int] = []
    if model.gives == "words":
        if model.mask_id is None:
            raise ValueError(
                f"The model {model.name!r} has no decoder and no mask token, so none of its rows "
                "has a word to guess."
            )
        places = list(masked) or [n for n, i in enumerate(own_ids) if i == model.mask_id]
        if not places or not 0 <= places[0] < len(own_ids):
            raise ValueError(
                "A masked model is asked at a mask, and none is in the first sentence; name its "
                f"token, masked=(n,), of 0 to {len(own_ids) - 1}."
            )
        row = places[0]
        own_ids = [model.mask_id if n in places else i for n, i in enumerate(own_ids)]
    lender = Lender(model, Intervention(), own_ids, places)
    found = lender.other(_source(other))
    source = torch.tensor([own_ids], device=model.device)
    beside = None if segments is None else torch.tensor([segments], device=model.device)
    made = Question(
        *(model, lender, found, source, None, None, row, row, (0, 0), ("", "")),
        *("its output" if model.task == REGRESSION else "its class", _source(other), beside),
    )
    if model.gives == "spans":
        made = replace(made, place=f"where the answer has its {ENDS[row or 0]}")
    elif model.gives != "classes":
        row = differing_token(made) if row is None else row
        there = counterpart(made, row)
        told = f"at token {row}" + f" (“{made.own_tokens.labels[row]}”)" * (model.gives == "tags")
        made = replace(made, row=row, there=there, place=told)
    wanted = None if words is None else [choice_of(made, word) for word in words]
    return about(made, wanted, words)
