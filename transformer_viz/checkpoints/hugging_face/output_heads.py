"""What a model of the transformers library ends in: words, classes, tags, spans or states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from ...core.tasks import task_of
from ...preprocessing.tokenizers import Tokenizer
from ..common.word_checks import checked_task
from ..files.errors import CheckpointError
from .parts import words_config
from .trial_run import ADVICE, LENGTH, Trial

TAGGERS = "ForTokenClassification"  # how the library ends the names of such classes
JUDGES = ("ForSequenceClassification", "ForQuestionAnswering")
SPELLERS = "ForCTC"  # and of those that give a letter for each frame of a sound


def gives_of(module: nn.Module, trial: Trial, decodes: bool) -> str:
    """What the output is, by its shape."""
    config = words_config(module.config)
    if trial.shape == (1, len(config.id2label or ())) and not decodes:
        return "classes"
    if trial.shape == (1, 2, LENGTH):  # see `calls.answer`
        return "spans"
    if len(trial.shape) != 3:
        raise CheckpointError(
            f"{type(module).__name__} gives neither words nor classes nor states, but numbers "
            f"{list(trial.shape)}, for which there is no picture here. {ADVICE}"
        )
    tagger = any(base.__name__.endswith(TAGGERS) for base in type(module).__mro__)
    if tagger and trial.shape[2] == len(config.id2label or ()):
        return "tags"
    if spells(module):
        return "tags"
    sizes = [getattr(config, n, None) for n in ("tgt_vocab_size", "decoder_vocab_size")]
    words = module.get_output_embeddings() is not None  # type: ignore[operator]
    return "words" if words and trial.shape[2] in (*sizes, vocabulary_size(config)) else "vectors"


def judges(module: nn.Module) -> bool:
    """Whether a class of the library judges its source or marks an answer in it.

    One with a decoder has it read the source again, shifted by the start token.
    """
    return any(head in base.__name__ for base in type(module).__mro__ for head in JUDGES)


def task_named(
    config: Any, trial: Trial, gives: str, overrides: Mapping[str, Any]
) -> tuple[str, dict[str, str]]:
    """The task of a head that judges, and where it was said.

    Raises:
        CheckpointError: an override that is no task, or of a model that does not judge.
    """
    named = overrides.get("task")
    if gives not in ("classes", "tags"):
        if named is not None:
            raise CheckpointError(f"task is for classifiers; this model gives {gives}.")
        return "", {}
    if named is not None:
        return checked_task(named), {"task": "override"}
    return task_of(trial.shape[-1], getattr(config, "problem_type", None)), {}


def labels_of(module: Any, face: Tokenizer, trial: Trial) -> tuple[str, ...]:
    """The names of the classes, where there is one for each; for CTC they are letters."""
    named = words_config(module.config).id2label or {}
    if spells(module):
        named = dict(enumerate(face.pieces))
    return tuple(str(named.get(i, i)) for i in range(trial.shape[-1]))


def spells(module: Any) -> bool:
    """Whether a class gives a letter for each frame."""
    return type(module).__name__.endswith(SPELLERS)


def vocabulary_size(config: Any) -> int | None:
    """How many ids a model can read, where its config says it."""
    sizes = [getattr(config, name, None) for name in ("src_vocab_size", "vocab_size")]
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)
