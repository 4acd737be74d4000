"""Hugging Face folders: any architecture of the transformers library.

A folder holds ``config.json`` and weights (``model.safetensors`` or ``pytorch_model.bin``, whole or
in parts with an index). A tokenizer, ``generation_config.json`` and ``preprocessor_config.json``
may be beside them. Only the library's own classes are used, never code of the folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Vocabularies
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.number_type import number_type
from ..files.adapters import Adapter
from ..files.errors import CheckpointError
from .adapter import head_of, merged, refuse_adapter, with_heads
from .adapter_tables import resizing_note
from .build import NAME as NAME
from .build import build_model
from .config import library_config, refuse
from .config_words import WORDS as WORDS
from .config_words import overridden
from .library import library
from .parts import BOTH, paired, takes, towers_of, vocabulary_size, without_padding, words_config
from .quantized import loaded_quantized, method_of, quantized_note, refuse_quantized
from .side_files import as_vocabularies, open_tokenizer
from .weights import class_of, difference, left_over, loaded, part_of, require_input

NAMES: tuple[str, ...] = ()  # the library has hundreds of spellings; config.json decides
SPREADING = ("max_memory", "offload_folder")
OTHERS = ("layout", "architecture")  # options of our configs, or timm's


def recognise(found: Candidate) -> bool:
    """Return True if ``config.json`` names a model type of the library."""
    return is_librarys(found.config)


def is_librarys(config: Mapping[str, Any]) -> bool:
    """Return True if a config is the library's, and neither ours nor timm's."""
    return isinstance(config.get("model_type"), str) and not any(w in config for w in OTHERS)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the model that ``config.json`` names, with the folder's weights.

    The overrides may include options of loading, see :func:`settings_of`.

    Raises:
        CheckpointError: The folder has its own code, an unknown architecture or one that cannot be
            shown, or quantised weights without their package; or weights or overrides do not fit.
    """
    if not isinstance(found.config.get("model_type"), str):
        raise CheckpointError(
            "A Hugging Face folder needs a config.json with a model_type beside its weights."
        )
    refuse(found.config)
    refuse_quantized(found.config)
    weights, settings = found.weights, settings_of(overrides, found.weights.floats)
    adapter, file, notes = found.change, found.config, []
    if adapter is not None:
        refuse_adapter(adapter, method_of(file))
    with library() as transformers:
        config = library_config(transformers, file, weights.tensors)
        head = {} if adapter is None else head_of(transformers, config, adapter)
        if adapter is not None and head:
            file, weights = {**file, **head}, with_heads(weights, adapter)
            config = library_config(transformers, file, weights.tensors)
        said = overridden(words_config(config).to_dict(), overrides)
        if said:
            changed = {**file, **said}
            if words_config(config) is not config:
                changed = {**file, "text_config": {**file.get("text_config", {}), **said}}
            config = library_config(transformers, changed, weights.tensors)
        cls = class_of(transformers, config, weights)
        part = overrides.get("part")
        if part is None:
            require_input(cls, config)
        if method_of(file):
            module = loaded_quantized(cls, config, weights, settings, overrides.get("dtype"))
            notes.append(quantized_note(module, file))
        else:
            complaint, unknown = difference(cls, config, weights)
            if complaint:
                raise CheckpointError(complaint)
            notes.append(left_over(transformers, cls, config, unknown, weights))
            module = loaded(cls, config, weights, settings)
        if adapter is not None:
            notes.append(resizing_note(module, adapter))
            module = merged(module, adapter)
            notes.append(_merged_into(_name(found.folder), adapter))
        whole = module if part == BOTH else None
        if whole is not None:
            part, picture = towers_of(whole)
            eyes = build_model(picture, None, picture.config.to_diff_dict(), {}, {}, found.folder)
            overrides = overrides | without_padding(whole)
        if part is not None:
            module = part_of(module, part)
            file = module.config.to_diff_dict()
            notes.append(f"Of {cls.__name__} only the part {part} is opened.")
        own: Any = module.config
        given: Any = tokenizer
        lacks = given is None or (isinstance(given, Vocabularies) and given.of_source is None)
        if lacks and takes(type(module), own) != "image":
            beside, note = _tokenizer(transformers, found, vocabulary_size(words_config(own)))
            given = beside if given is None else given.fill(as_vocabularies(beside)[0])
            notes.append(note)
        model = build_model(module, given, file, said, overrides, found.folder)
        if whole is not None:
            model = paired(model, whole, eyes, as_vocabularies(given)[1], found.folder)
    place = found.folder if found.adapter is None else found.adapter.parent
    return dataclasses.replace(
        model,
        name=_name(place),
        folder=place,
        hash=found.hash,
        file_dtype=weights.floats,
        notes=(*model.notes, *filter(None, notes)),
    )


def _tokenizer(transformers: Any, found: Candidate, size: int | None) -> tuple[Any, str]:
    """Return the tokenizer beside the adapter, if there is one, else the model's own."""
    places = [found.folder] if found.adapter is None else [found.adapter.parent, found.folder]
    for place in places:
        given, note = open_tokenizer(transformers, place, size)
        if given is not None or note:
            break
    return given, note


def _merged_into(base: str, adapter: Adapter) -> str:
    return (
        f"The adapter {adapter.name} ({adapter.kind}) is merged into {base} in memory; no file was "
        "changed."
    )


def _name(folder: Path) -> str:
    """Return the folder's name; in the library's cache, with numbered folders, the model's."""
    place = folder.resolve()
    if place.parent.name == "snapshots":
        return place.parent.parent.name.removeprefix("models--").replace("--", "/")
    return place.name


def settings_of(overrides: Mapping[str, Any], floats: str) -> dict[str, Any]:
    """Return the options of the library's loading: dtype, and devices over which to spread a model.

    ``dtype`` None is float32, ``auto`` that of the file (``floats``). ``device="auto"``,
    ``max_memory`` (limit of each device) and ``offload_folder`` (folder for the rest) need
    accelerate.

    Raises:
        CheckpointError: A value is invalid, or accelerate is not installed.
    """
    found: dict[str, Any] = {"dtype": number_type(overrides.get("dtype"), floats)}
    device, memory, folder = (overrides.get(w) for w in ("device", *SPREADING))
    if device not in (None, "auto"):
        raise CheckpointError(f"The word device may only be auto here; got {device!r}.")
    if memory is not None and not isinstance(memory, Mapping):
        raise CheckpointError(
            'max_memory says what each device may hold, like {0: "10GB", "cpu": "30GB"}; got '
            f"{memory!r}."
        )
    asked = [word for word in ("device", *SPREADING) if overrides.get(word) is not None]
    if not asked:
        return found
    if find_spec("accelerate") is None:
        word = 'device="auto"' if asked == ["device"] else asked[-1]
        raise CheckpointError(f"{word} needs the package accelerate: pip install accelerate.")
    found["device_map"] = "auto"
    if memory is not None:  # a command line can only name devices as text
        found["max_memory"] = {int(d) if str(d).isdigit() else d: m for d, m in memory.items()}
        _refuse_missing(found["max_memory"])
    if folder is not None:
        found["offload_folder"] = str(folder)
    return found


def _refuse_missing(memory: Mapping[Any, Any]) -> None:
    """Refuse numbers of GPUs that this machine does not have.

    Raises:
        CheckpointError: Names the first, and how many there are.
    """
    count = torch.accelerator.device_count()
    missing = [device for device in memory if isinstance(device, int) and device >= count]
    if missing:
        cards = f"cards 0 to {count - 1}" if count > 1 else "card 0" if count else "no card"
        raise CheckpointError(
            f"max_memory names card {missing[0]}; this machine has {cards}. "
            'Name the processor "cpu".'
        )
