"""Models of several parts: eyes beside a language model, two towers; which part reads what."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from ..files.errors import CheckpointError
from .feature_extractor import EXTRACTORS

INPUTS = {
    "input_ids": "text",
    "pixel_values": "image",
    "input_features": "audio",
    "input_values": "audio",
}
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
    if not several and given in INPUTS and given in names and known:
        return INPUTS[given]
    reads = given if given in names else next((n for n in names if n != "self"), given)
    what = "several kinds of input at once" if several else f"{reads}, not text"
    way = "call it with inputs of your own inside `with tv.probe(module) as run:`."
    if parts:
        way = f"open one of its parts alone: {' or '.join(f'part={part}' for part in parts)}."
        if config.model_type in ("clip", "siglip"):
            way = way[:-1] + ", or part=both to compare a picture with captions (tv.match)."
    raise CheckpointError(f"{cls.__name__} reads {what}, for which there is no input here; {way}")


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


def part_of(module: Any, part: object) -> Any:
    """The part of a model that a path names; all of it where none does.

    Raises:
        CheckpointError: no such part; names those that open.
    """
    if part is None:
        return module
    known = parts_of(module)
    if part not in known:
        raise CheckpointError(
            f"{type(module).__name__} has no part {part!r} that opens alone; "
            + (f"choose one of {', '.join(known)}." if known else "it has none, so leave part out.")
        )
    return module.get_submodule(part)
