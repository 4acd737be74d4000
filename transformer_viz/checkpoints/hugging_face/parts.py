"""The parts of a model (eyes beside a language model, two towers), what each reads, and what it
ends in: words, classes, tags, spans or states.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ...core.numerics import task_of
from ...preprocessing.tokenizers import Tokenizer
from ..common.model import Model, Pair
from ..common.word_checks import checked_task
from ..files.errors import CheckpointError
from .feature_extractor import EXTRACTORS
from .image_processor import processor_words
from .trial_run import ADVICE, LENGTH, Trial

INPUTS = {
    "input_ids": "text",
    "pixel_values": "image",
    "input_features": "audio",
    "input_values": "audio",
}
TAGGERS = "ForTokenClassification"  # how the library ends the names of such classes
JUDGES = ("ForSequenceClassification", "ForQuestionAnswering")
SPELLERS = "ForCTC"  # and of those that give a letter for each frame of a sound
WRITTEN = "decoder_input_ids"  # what a model takes that writes a text
SENSES = ("vision", "audio")  # what the names of configs of other inputs than text hold


def senses_of(config: Any) -> list[str]:
    """The parts of a config that read something else than text: ``vision``, ``audio``."""
    parts = [name.removesuffix("_config") for name in type(config).sub_configs]
    return [part for part in parts if any(sense in part for sense in SENSES)]


def sees(config: Any) -> bool:
    """Whether a model that reads text has eyes too."""
    return "vision" in senses_of(config) and hasattr(config, "text_config")


def words_config(config: Any) -> Any:
    """The config of the language model of a model that also sees or hears; else the config."""
    text = getattr(config, "text_config", None)
    return config if text is None or not senses_of(config) else text


def takes(cls: Any, config: Any, parts: tuple[str, ...] = ()) -> str:
    """Whether a class of the library reads ``text``, an ``image`` or ``audio``.

    A language model with eyes or ears reads text alone as well; two towers, or one that writes
    about pictures only, do not.

    Args:
        parts: those that open alone, to be named where the whole does not.

    Raises:
        CheckpointError: it reads several things at once, or sound in frames that are not known.
    """
    names = inspect.signature(cls.forward).parameters
    given = getattr(cls, "main_input_name", "input_ids")
    if given not in names:  # some eyes call it ids all the same
        given = next((name for name in INPUTS if name in names), given)
    alone = given == "input_ids" and "inputs_embeds" in names
    several = bool(senses_of(config)) and not alone
    known = INPUTS.get(given) != "audio" or config.model_type in EXTRACTORS
    writes = INPUTS.get(given) == "image" and WRITTEN in names
    if not several and not writes and given in INPUTS and given in names and known:
        return INPUTS[given]
    reads = given if given in names else next((n for n in names if n != "self"), given)
    what = "several kinds of input at once" if several else f"{reads}, not text"
    if writes:
        raise CheckpointError(
            f"{cls.__name__} reads a picture and writes a text, which is not opened as a whole "
            f"yet; {_way(parts, config)}"
        )
    raise CheckpointError(
        f"{cls.__name__} reads {what}, for which there is no input here; {_way(parts, config)}"
    )


def _way(parts: tuple[str, ...], config: Any) -> str:
    """Return what to do with a model that is not opened as a whole."""
    if not parts:
        return "call it with inputs of your own inside `with tv.probe(module) as run:`."
    way = f"open one of its parts alone: {' or '.join(f'part={part}' for part in parts)}."
    if config.model_type in ("clip", "siglip"):
        way = way[:-1] + ", or part=both to compare a picture with captions (tv.match)."
    return way


def sensed(cls: Any) -> str:
    """The name under which a class takes a picture or a sound; empty where it takes neither."""
    names = inspect.signature(cls.forward).parameters
    return next((name for name in INPUTS if name in names and INPUTS[name] != "text"), "")


def parts_of(module: nn.Module) -> tuple[str, ...]:
    """The paths of the library's models inside one that read text or pictures and nothing else.

    Of one inside the other it is the outer.
    """
    found: list[str] = []
    for path, part in module.named_modules():
        config = getattr(part, "config", None)
        if not path or not hasattr(part, "main_input_name") or senses_of(config):
            continue
        if any(path.startswith(f"{outer}.") for outer in found):
            continue
        try:
            takes(type(part), config)
        except CheckpointError:
            continue
        found.append(path)
    return tuple(found)


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
    sizes.append(getattr(getattr(config, "decoder", None), "vocab_size", None))
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
    encoder = getattr(config, "encoder", None)  # of two models that were put together
    places = ((config, "src_vocab_size"), (config, "vocab_size"), (encoder, "vocab_size"))
    sizes = [getattr(place, name, None) for place, name in places]
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


BOTH = "both"  # the value of part= that opens them together
SOFTMAX, SIGMOID = ("clip",), ("siglip",)  # kinds of models, by how a caption's number is read
TOWERS = ("text_model", "vision_model")


def towers_of(whole: Any) -> tuple[str, Any]:
    """The path of the tower that reads captions, and the tower that reads pictures.

    Raises:
        CheckpointError: a model of another kind.
    """
    kind = whole.config.model_type
    if kind not in (*SOFTMAX, *SIGMOID) or not all(hasattr(whole, tower) for tower in TOWERS):
        raise CheckpointError(
            f"part={BOTH} opens the two towers of a CLIP or SigLIP model, and this is "
            f"{type(whole).__name__} ({kind}); leave part out."
        )
    return TOWERS[0], whole.vision_model


def without_padding(whole: Any) -> dict[str, Any]:
    """SigLIP was trained on captions filled up to one length, whose padding is seen like words."""
    return {"pad_id": None} if whole.config.model_type in SIGMOID else {}


def paired(model: Model, whole: Any, eyes: Model, tokenizer: Any, folder: Path | None) -> Model:
    """The tower of captions with the other one beside it.

    Raises:
        CheckpointError: nothing says how a picture becomes numbers.
    """
    if not processor_words(folder):
        raise CheckpointError(
            "Two towers need a preprocessor_config.json beside their weights, which says how a "
            "picture becomes numbers, and there is none; save one with "
            "processor.save_pretrained(folder), or open the captions alone: part=text_model."
        )
    sigmoid = whole.config.model_type in SIGMOID
    text = whole.config.text_config
    filler = getattr(tokenizer, "pad_token_id", None)
    pair = Pair(
        whole,
        dataclasses.replace(eyes, name=f"{model.name} (pictures)"),
        sigmoid,
        text.max_position_embeddings if sigmoid else None,
        (text.pad_token_id if filler is None else filler) if sigmoid else None,
    )
    return dataclasses.replace(model, pair=pair)
