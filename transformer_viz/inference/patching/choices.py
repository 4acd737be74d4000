"""Choices compared by patching: a pair of words, classes or tokens, or a single output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.numerics import best_span
from ...preprocessing.tokenizers import target_side
from ..capture_to_numpy import to_numpy
from ..outputs import scores_of
from ..token_ids import source_ids, vocabulary_ids

Question = Any  # `question.Question`; its module imports this one


def about(made: Question, wanted: list[int] | None, words: Sequence[Any] | None) -> Question:
    """Return the question for two ids: the named ones, or each run's top choice.

    For independent outputs, the one with the largest difference between the runs.
    """
    if wanted is None:
        own, there = (_row(*run) for run in _outputs(made))
        if made.alone:
            own, there = (scores_of(run, made.model.task) for run in (own, there))
            wanted = [int((own - there).abs().argmax())]
        else:
            wanted = _first_choices(made, own, there)
    if len(wanted) > 1 and wanted[0] == wanted[1]:
        same = "begin with the same piece" if made.model.gives == "words" else "are the same,"
        raise ValueError(
            f"Both words of {tuple(words or ())!r} {same} “{_name(made, wanted[0])}”; name two "
            f"that {'begin differently' if made.model.gives == 'words' else 'differ'}."
        )
    told = tuple(
        _told(made, word, token) for word, token in zip(words or wanted, wanted, strict=True)
    )
    there_too = None
    if made.model.gives == "spans":
        there_too = tuple(counterpart(made, token) for token in wanted)
    return replace(made, wanted=tuple(wanted), words=told, wanted_there=there_too)


def _first_choices(made: Question, own: Tensor, there: Tensor) -> list[int]:
    """Return the top choice of each run; for an answer, the selected end of its best span."""
    choices = [int(own.argmax()), int(there.argmax())]
    if made.model.gives == "spans":
        spans = [best_span(to_numpy(output[0])) for output, _ in _outputs(made)]
        choices = [span[made.row or 0] for span in spans]
        if choices[1] not in made.other.counterparts:
            raise ValueError(
                f"The other run has it at “{made.other_tokens.labels[choices[1]]}”, which has no "
                "counterpart in the first text; name two tokens of that (words=)."
            )
        choices[1] = made.other.counterparts.index(choices[1])
    if choices[0] == choices[1]:
        raise ValueError(
            f"Both runs say “{_name(made, choices[0])}” there, so no pair of words tells them "
            "apart; name one (words=), or give a sentence that differs more."
        )
    return choices


def differing_token(made: Question) -> int:
    """Return the first token whose class differs between the runs.

    For a regression, the token whose output differs most.

    Raises:
        ValueError: No token has another class.
    """
    (own, _), (there, _) = _outputs(made)
    pairs = [(n, m) for n, m in enumerate(made.other.counterparts) if m is not None]
    if made.alone:
        return max(
            pairs, key=lambda pair: float((own[0, pair[0]] - there[0, pair[1]]).abs().max())
        )[0]
    classes, others = own[0].argmax(-1).tolist(), there[0].argmax(-1).tolist()
    found = next((n for n, m in pairs if classes[n] != others[m]), None)
    if found is None:
        raise ValueError(
            "Both runs give each token the same class; name a token (token=) and a pair of classes "
            "(words=), or give a text that differs more."
        )
    return found


def counterpart(made: Question, token: int) -> int:
    """Return the counterpart of a token in the other text.

    Raises:
        ValueError: There is no such token, or it has no counterpart.
    """
    places = made.other.counterparts
    if not 0 <= token < len(places):
        raise ValueError(f"There is no token {token}; the first text has 0 to {len(places) - 1}.")
    there = places[token]
    if there is None:
        raise ValueError(
            f"Token {token}, “{made.own_tokens.labels[token]}”, has no counterpart in the other "
            "text; name another one, or give a text that differs in other words."
        )
    return there


def choice_of(made: Question, word: Any) -> int:
    """Return the id of a class or word, or the index of a token.

    Raises:
        ValueError: The model has no such class, or the text no such token.
    """
    model = made.model
    if model.gives == "spans":
        labels = made.own_tokens.labels
        number = labels.index(word) if word in labels else word
        if not isinstance(number, int) or not 0 <= number < len(labels):
            raise ValueError(
                f"words are two tokens of the first text, numbers from 0 to {len(labels) - 1} or "
                f"their labels; got {word!r}."
            )
        return number
    if model.gives != "words":
        number = model.labels.index(word) if word in model.labels else word
        if not isinstance(number, int) or not 0 <= number < (len(model.labels) or 2**31):
            raise ValueError(
                f"There is no class {word!r}; this model knows "
                f"{', '.join(model.labels) or 'numbers from 0'}."
            )
        return number
    if isinstance(word, str):
        ids = [i for i in source_ids(model, word) if not model.tokenizer.tokens([i]).special[0]]
        if not ids:
            raise ValueError(f"The model knows no piece of {word!r}; name another word.")
        return ids[0]
    return vocabulary_ids(model, "target", [word])[0]


def _told(made: Question, word: Any, token: int) -> str:
    """Return the label of a choice: a word, or its first piece if it has several."""
    name = _name(made, token)
    if not isinstance(word, str) or word.strip() == name or made.model.gives == "spans":
        return name
    if not name.strip() or not word.strip().casefold().startswith(name.strip().casefold()):
        raise ValueError(
            f"{word!r} begins with the piece “{name}” in this vocabulary, which holds no letter of "
            "it and says nothing of it; name another word, or the id of a piece."
        )
    return f"{name}… ({word.strip()})"


def _name(made: Question, token: int) -> str:
    """Return the label of an id, a class or a token of the text."""
    model = made.model
    if model.gives == "spans":
        return made.own_tokens.labels[token]
    if model.gives != "words":
        return model.labels[token] if token < len(model.labels) else str(token)
    return target_side(model.tokenizer).tokens([token]).labels[0]


def _outputs(made: Question) -> tuple[tuple[Tensor, int | None], tuple[Tensor, int | None]]:
    """Return the output of both clean runs, each with its selected row."""
    with torch.no_grad():
        return (made.through(), made.row), (made.lent(patterns=False).output, made.there)


def _row(output: Tensor, row: int | None) -> Tensor:
    return output[0] if row is None else output[0, row]
