"""A trial run of a model that was just loaded: what it is, by what it does.

Neither class names nor words of a config say for certain whether a stack looks ahead, or what the
rows of an attention are. One small input does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...capture import AttentionRecord, CaptureRequest, probe
from ...core.interventions import Intervention
from ...core.numerics import task_of
from ...preprocessing.tokenizers import Tokenizer
from ..common.model import Calls
from ..common.word_checks import checked_task
from ..files.errors import CheckpointError
from .library import plainly
from .parts import words_config

TAGGERS = "ForTokenClassification"  # how the library ends the names of such classes
JUDGES = ("ForSequenceClassification", "ForQuestionAnswering")
SPELLERS = "ForCTC"  # and of those that give a letter for each frame of a sound
LENGTH = 6  # tokens of the input
ADVICE = "tv.probe(module) shows what can be seen of it, with inputs of your own."


@dataclass(frozen=True)
class Trial:
    """What one small input showed.

    ``causal``: no row looks at a later column; ``layers`` is the number of self-attentions,
    ``numbers`` those in the paths of their modules (``layers.3.attn``), as far as there is one;
    ``rows`` the length of the first one; ``soft``: every map comes out of a softmax; ``sums`` how
    far the sum of a row is from 1; ``shape`` that of the output.
    """

    causal: bool
    layers: int
    numbers: tuple[int, ...]
    rows: int
    soft: bool
    sums: float
    shape: tuple[int, ...]


def try_out(module: nn.Module, calls: Calls, source: Tensor, target: Tensor | None) -> Trial:
    """Run a model once on a small input, and look at its attention.

    Raises:
        CheckpointError: the run fails, there is no attention, or it is spread over the batch.
    """
    request = CaptureRequest(weights=lambda site: site.layer == 0, norms=False, residuals=False)
    name = type(module).__name__
    try:
        with torch.inference_mode(), probe(module, Intervention(), request) as capture:
            output = calls.forward(source, target)
    except Exception as error:  # whatever a foreign forward pass may raise
        raise CheckpointError(
            f"{name} opens, but does not run on a plain input ({plainly(error)}). {ADVICE}"
        ) from error
    own = [record for record in capture.attentions if record.kind == "self"]
    if not capture.attentions:
        raise CheckpointError(
            f"{name} has no attention that could be shown: it mixes its tokens without a map of "
            f"queries and keys that is known here. {ADVICE}"
        )
    if any(record.statistics["entropy"].shape[0] != 1 for record in capture.attentions):
        raise CheckpointError(
            f"{name} attends in windows, each with a small map of its own, and not all tokens to "
            f"all; such maps have no common rows and columns to be shown on. {ADVICE}"
        )
    if _joins(own, source, target):
        raise CheckpointError(
            f"{name} joins or adds tokens between its layers, so that the rows and columns of its "
            f"maps are not the tokens of its input. {ADVICE}"
        )
    first = [record for record in own if record.weights is not None]
    return Trial(
        causal=bool(first) and all(_causal(record.weights) for record in first),
        layers=len(own),
        numbers=tuple(record.number for record in own if record.number is not None),
        rows=own[0].shape[0] if own else 0,
        soft=all(record.form == "softmax" for record in capture.attentions),
        sums=max(float(r.statistics["row_sum_error"].max()) for r in capture.attentions),
        shape=tuple(output.shape),
    )


def runs_apart(calls: Calls, source: Tensor, target: Tensor) -> bool:
    """Whether encoder and decoder, run one after the other, give what the whole model gives.

    Mixtures of experts hand more from the one to the other than their states.
    """
    if calls.encode is None or calls.decode is None:
        return False
    try:
        with torch.inference_mode():
            parts = calls.decode(target, calls.encode(source))
            whole = calls.forward(source, target)
    except Exception:  # whatever a foreign forward pass may raise
        return False
    return torch.allclose(parts, whole, rtol=1e-3, atol=1e-4)


def _joins(own: Sequence[AttentionRecord], source: Tensor, target: Tensor | None) -> bool:
    """Whether a stack's self-attentions are of different lengths, or not of its text's length."""
    lengths: dict[str, set[int]] = {}
    for record in own:
        lengths.setdefault(record.stack, set()).update(record.shape)
    if source.is_floating_point():
        return any(len(found) > 1 for found in lengths.values())
    read = {source.shape[1] if target is None else target.shape[1]}
    return any(
        found != ({source.shape[1]} if stack == "encoder" else read)
        for stack, found in lengths.items()
    )


def _causal(weights: Tensor | None) -> bool:
    return weights is not None and not bool(weights.triu(1).any())


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
