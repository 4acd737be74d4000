"""Parts of a model (vision tower beside a language model, two towers), their inputs and outputs.

Outputs are words, classes, tags, spans or states.
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
TAGGERS = "ForTokenClassification"  # suffix of the library's token classifiers
JUDGES = ("ForSequenceClassification", "ForQuestionAnswering")
SPELLERS = "ForCTC"  # suffix of classes that predict a letter for each frame of a sound
WRITTEN = "decoder_input_ids"  # argument of models that write a text
SENSES = ("vision", "audio")  # parts of config names for inputs other than text


def senses_of(config: Any) -> list[str]:
    """Return the parts of a config that read other inputs than text: ``vision``, ``audio``."""
    parts = [name.removesuffix("_config") for name in type(config).sub_configs]
    return [part for part in parts if any(sense in part for sense in SENSES)]


def sees(config: Any) -> bool:
    """Return True if a model that reads text has a vision part too."""
    return "vision" in senses_of(config) and hasattr(config, "text_config")


def words_config(config: Any) -> Any:
    """Return the config of the language model inside a multimodal model; else the config itself."""
    text = getattr(config, "text_config", None)
    return config if text is None or not senses_of(config) else text


def takes(cls: Any, config: Any, parts: tuple[str, ...] = ()) -> str:
    """Return the input of a library class: ``text``, ``image`` or ``audio``.

    A language model with vision or audio reads text alone as well. Two towers, or a model that only
    describes pictures, do not.

    Args:
        parts: Parts that open alone, named in the error.

    Raises:
        CheckpointError: It reads several inputs at once, or sound in unknown frames.
    """
    names = inspect.signature(cls.forward).parameters
    given = getattr(cls, "main_input_name", "input_ids")
    if given not in names:  # some vision models use this name too
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
    """Return the advice for a model that is not opened as a whole."""
    if not parts:
        return "call it with inputs of your own inside `with tv.probe(module) as run:`."
    way = f"open one of its parts alone: {' or '.join(f'part={part}' for part in parts)}."
    if config.model_type in ("clip", "siglip"):
        way = way[:-1] + ", or part=both to compare a picture with captions (tv.match)."
    return way


def sensed(cls: Any) -> str:
    """Return the argument of a class that takes a picture or a sound; empty if there is none."""
    names = inspect.signature(cls.forward).parameters
    return next((name for name in INPUTS if name in names and INPUTS[name] != "text"), "")


def parts_of(module: nn.Module) -> tuple[str, ...]:
    """Return the paths of library models inside one that read text or pictures and nothing else.

    Nested ones are left out.
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
    """Return the kind of output, by its shape."""
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
    """Return True if a class of the library classifies its source or marks an answer in it.

    With a decoder, the decoder reads the source again, shifted by the start token.
    """
    return any(head in base.__name__ for base in type(module).__mro__ for head in JUDGES)


def task_named(
    config: Any, trial: Trial, gives: str, overrides: Mapping[str, Any]
) -> tuple[str, dict[str, str]]:
    """Return the task of a classification head, and its origin.

    Raises:
        CheckpointError: The override is no task, or the model is no classifier.
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
    """Return the names of the classes, or numbers if there are none; for CTC they are letters."""
    named = words_config(module.config).id2label or {}
    if spells(module):
        named = dict(enumerate(face.pieces))
    return tuple(str(named.get(i, i)) for i in range(trial.shape[-1]))


def spells(module: Any) -> bool:
    """Return True if a class predicts a letter for each frame."""
    return type(module).__name__.endswith(SPELLERS)


def vocabulary_size(config: Any) -> int | None:
    """Return the number of ids that a model can read, if its config has it."""
    encoder = getattr(config, "encoder", None)  # of two combined models
    places = ((config, "src_vocab_size"), (config, "vocab_size"), (encoder, "vocab_size"))
    sizes = [getattr(place, name, None) for place, name in places]
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


BOTH = "both"  # value of part= that opens them together
SOFTMAX, SIGMOID = ("clip",), ("siglip",)  # kinds of models, by the activation of a caption's score
TOWERS = ("text_model", "vision_model")


def towers_of(whole: Any) -> tuple[str, Any]:
    """Return the path of the text tower, and the image tower.

    Raises:
        CheckpointError: The model is of another kind.
    """
    kind = whole.config.model_type
    if kind not in (*SOFTMAX, *SIGMOID) or not all(hasattr(whole, tower) for tower in TOWERS):
        raise CheckpointError(
            f"part={BOTH} opens the two towers of a CLIP or SigLIP model, and this is "
            f"{type(whole).__name__} ({kind}); leave part out."
        )
    return TOWERS[0], whole.vision_model


def without_padding(whole: Any) -> dict[str, Any]:
    """Return no padding token for SigLIP, trained on padded captions with visible padding."""
    return {"pad_id": None} if whole.config.model_type in SIGMOID else {}


def paired(model: Model, whole: Any, eyes: Model, tokenizer: Any, folder: Path | None) -> Model:
    """Return the text tower with the image tower beside it.

    Raises:
        CheckpointError: There is no image processor.
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
