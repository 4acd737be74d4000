"""Conversion of a transformers model, from a folder or in memory, to a `Model`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...preprocessing.audio import AudioReader
from ...preprocessing.images import ImageReader
from ..common.model import Model
from ..common.number_type import name_of, rounding_note
from ..files.errors import CheckpointError
from .calls import TARGET, make_calls
from .config import require_shown
from .config_words import NAMES, described, join_stacks
from .eyes import eyes_of
from .feature_extractor import hearing_of
from .image_processor import prefix, reader_of, registers_of
from .library import library
from .parts import (
    gives_of,
    judges,
    labels_of,
    sees,
    senses_of,
    spells,
    takes,
    task_named,
    vocabulary_size,
    words_config,
)
from .side_files import (
    as_vocabularies,
    generation_words,
    largest_vocabulary,
    pair_notes,
    reads_pairs,
    tokenizer_of,
    unused_tokens_note,
)
from .special_tokens import (
    IDS,
    names_start,
    of_language,
    opening,
    special_ids,
    target_notes,
    text_options,
    writing_rules,
)
from .trial_run import ADVICE, LENGTH, Trial, runs_apart, try_out
from .weights import part_of, parts_that_open

NAME = "hugging_face"
ATTENDING = re.compile(r"^(full_|sliding_|chunked_)?attention|^hybrid")  # kinds of layers


def wrap(
    module: Any,
    tokenizer: Any = None,
    name: str = "",
    *,
    device: str | None = None,
    **overrides: Any,
) -> Model:
    """Return a Model of a library model in memory, put into evaluation mode.

    ``tokenizer`` may be the library's own, or `Vocabularies`. ``overrides`` accepts ``pad_id``,
    ``bos_id``, ``eos_id``, ``max_tokens``, ``task``, ``forced_bos_token_id``, ``tgt_lang`` and
    ``part``; all else is built already.

    Raises:
        CheckpointError: Other overrides, or a model without attention that could be shown.
    """
    part = overrides.pop("part", None)
    for word in overrides:
        if word not in (*IDS, "task"):
            raise CheckpointError(
                f"A model in memory is built already; {word} cannot be overridden, only "
                f"{', '.join((*IDS, 'task', 'part'))}. Build it with another config."
            )
    require_shown(module.config.model_type)
    module.eval()
    if device is not None:
        module.to(device)
    with library():
        module = part_of(module, part)
        if part is None:
            _require_input(module)
        file = module.config.to_diff_dict()
        model = build_model(module, tokenizer, file, {}, overrides, None)
    return dataclasses.replace(model, name=name or type(module).__name__)


def _require_input(module: Any) -> None:
    """Refuse a module whose input cannot be provided, and name the parts that open."""
    try:
        takes(type(module), module.config)
    except CheckpointError:
        takes(type(module), module.config, parts_that_open(module))


def build_model(
    module: nn.Module,
    tokenizer: Any,
    file: Mapping[str, Any],
    said: Mapping[str, Any],
    overrides: Mapping[str, Any],
    folder: Path | None,
) -> Model:
    """Return the Model of a library module, after a trial run.

    Args:
        module: The library's model; its config has every option.
        tokenizer: The library's, ours, or `Vocabularies`; None for ids typed as numbers.
        file: Content of ``config.json`` itself.
        said: Overrides under the config's names.
        overrides: Options of the user, under any names.
        folder: Folder of its other files; None for a model in memory.

    Raises:
        CheckpointError: It does not run, or has no attention that could be shown.
    """
    whole: Any = module.config
    config = words_config(whole)
    origin = "module" if folder is None else "file"
    beside, place = generation_words(module, folder, file, origin)
    file = file if config is whole else file.get("text_config") or {}
    tokenizer, own = as_vocabularies(tokenizer)
    decodes = TARGET in inspect.signature(module.forward).parameters and config.is_encoder_decoder
    overrides = of_language(own, overrides, config.model_type, decodes=decodes)
    ids, named = special_ids(
        config,
        beside,
        own or tokenizer,
        overrides,
        decodes=decodes,
        origin=origin,
        place=place,
        said=said,
        size=largest_vocabulary(config),
    )
    reads = takes(type(module), whole)
    image, audio, seen, told = _readers(reads, folder, config)
    size = vocabulary_size(config)
    rules = writing_rules(beside, ids.get("end_ids", [ids.get("eos_id")]))
    steps = opening(beside, config, size or 0) if audio and decodes else []
    rules |= {"opening_ids": steps} if steps else {}
    ids, named = ids | rules, named | dict.fromkeys(rules, place)
    echoes = decodes and judges(module)
    source, target = _sample(module, image or audio, ids, decodes, echoes)
    trial = try_out(module, make_calls(module), source, target)
    kind = _kind(trial, decodes)
    gives = gives_of(module, trial, decodes and not echoes)
    task, asked = task_named(config, trial, gives, overrides)
    moves = kind == "decoder-only" and gives in ("words", "vectors")
    calls = make_calls(module, causal=moves, pad_id=ids.get("pad_id"))
    if target is None or echoes or not runs_apart(calls, source, target):
        calls = dataclasses.replace(calls, encode=None, decode=None)
    every = join_stacks(config.to_dict())
    words, origins = described(every, join_stacks(file), said, kind, gives, origin)
    if audio:
        words.pop("source_vocab", None)
    start_named = names_start(config, beside, overrides, said)
    typed = "token_type_ids" in inspect.signature(module.forward).parameters
    options = text_options(ids, config, decodes=decodes, start_named=start_named, typed=typed)
    face, said_of_words = tokenizer_of(
        tokenizer, ids | {"text_options": options}, module, decodes, reads
    )
    eyes, blind = eyes_of(module, folder, face) if reads == "text" and sees(whole) else (None, "")
    pairs = reads == "text" and reads_pairs(own, kind, gives)
    first = next(module.parameters())
    return Model(
        name=type(module).__name__,
        module=module,
        kind=kind,
        config=words | ids | seen,
        tokenizer=face,
        device=str(input_device(module)),
        calls=calls,
        layout=NAME,
        pad_id=ids.get("pad_id"),
        bos_id=ids.get("bos_id"),
        eos_id=ids.get("eos_id"),
        further_end_ids=tuple(ids.get("end_ids", ())[1:]),
        max_tokens=None if image else ids.get("max_tokens", _longest(module)),
        dtype=name_of(first.dtype),
        folder=folder,
        takes=reads,
        gives=gives,
        mask_id=getattr(own, "mask_token_id", None) if _masks(kind, gives) else None,
        image=None if image is None else _named(image, trial, config),
        audio=None if audio is None else _checked(audio, trial, type(module).__name__),
        eyes=eyes,
        blind=blind,
        labels=labels_of(module, face, trial) if gives in ("classes", "tags") else (),
        layer_numbers=layer_numbers(config, trial) if kind != "encoder-decoder" else (),
        pairs=pairs,
        notes=(
            *(_unseen(whole, eyes is not None) if reads == "text" else ()),
            *_heard(module, audio),
            *_notes(config, trial, words, kind),
            *target_notes(face, ids, named, config, beside, kind),
            *(pair_notes(face, config) if pairs and typed else ()),
            *said_of_words,
            *unused_tokens_note(own, largest_vocabulary(config) if reads == "text" else None),
            *rounding_note(name_of(first.dtype)),
        ),
        provenance=origins | named | told | asked,
        task=task,
    )


def _readers(
    reads: str, folder: Path | None, config: Any
) -> tuple[ImageReader | None, AudioReader | None, dict[str, Any], dict[str, str]]:
    """Return the reader of pictures or sounds, its options, and their origins."""
    if reads == "image":
        image, seen, told = reader_of(folder, config)
        return image, None, seen, told
    if reads == "audio":
        audio, seen, told = hearing_of(folder, config)
        return None, audio, seen, told
    return None, None, {}, {}


def input_device(module: nn.Module) -> torch.device:
    """Return the device for a module's input: that of its first weight.

    A weight that accelerate keeps elsewhere until it is used is on no device; its hook names the
    device it will be on.
    """
    device = next(module.parameters()).device
    if device.type == "meta":
        hook: Any = getattr(module, "_hf_hook", None)
        device = torch.device(getattr(hook, "execution_device", None) or "cpu")
    return device


def _kind(trial: Trial, decodes: bool) -> str:
    """Return the kind of a model; a lone stack is a decoder if its trial hid later tokens."""
    if decodes:
        return "encoder-decoder"
    return "decoder-only" if trial.causal else "encoder-only"


def _masks(kind: str, gives: str) -> bool:
    return kind == "encoder-only" and gives == "words"


def _sample(
    module: nn.Module,
    reader: ImageReader | AudioReader | None,
    ids: Mapping[str, Any],
    decodes: bool,
    echoes: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return a small plain input and a target; with ``echoes`` the target is the shifted source."""
    device = input_device(module)
    if isinstance(reader, ImageReader):
        return torch.zeros(1, reader.channels, reader.height, reader.width, device=device), None
    size = vocabulary_size(words_config(module.config)) or 256
    ordinary = [i for i in range(size // 2, size) if i not in ids.values()]
    source = torch.tensor([((ordinary or [0]) * LENGTH)[:LENGTH]], device=device)
    start = [ids.get("bos_id", 0)]
    if echoes:  # such a head reads the decoder's state at the end token
        source[0, -1] = ids.get("eos_id", source[0, -1])
        return source, torch.tensor([[*start, *source[0, :-1].tolist()]], device=device)
    target = torch.tensor([[*start, *source[0, :2].tolist()]], device=device) if decodes else None
    if reader is not None:
        source = torch.as_tensor(reader.features(reader.example()), device=device)[None]
    return source, target


def _longest(module: nn.Module) -> int | None:
    """Return the number of tokens in the position table; None for unlimited positions.

    RoBERTa's tables begin after the row of the padding token; BART's and OPT's have two more rows
    than their config says.
    """
    parts: list[Any] = [getattr(module, name, None) for name in ("encoder", "decoder")]
    if all(hasattr(module.config, name) for name in ("encoder", "decoder")) and all(parts):
        return min(filter(None, map(_longest, parts)), default=None)
    for name, part in module.named_modules():
        rows = getattr(part, "padding_idx", None)
        if isinstance(part, nn.Embedding) and "position" in name and rows is not None:
            return part.num_embeddings - rows - 1
    config = words_config(module.config)
    for name in NAMES["max_positions"]:
        known = hasattr(type(config), name) or name in type(config).attribute_map
        value = getattr(config, name, None) if known else None
        if isinstance(value, int) and value > 0:
            return value
    return None


def _named(image: ImageReader, trial: Trial, config: Any) -> ImageReader:
    """Return the reader with the names of the tokens before the patches."""
    rows, columns = image.grid
    count = trial.rows - rows * columns
    if not 0 <= count <= registers_of(config) + 2:
        raise CheckpointError(
            f"A {config.model_type} model attends to {trial.rows} tokens, and a picture has "
            f"{rows} x {columns} patches; which token is which patch is not known here. {ADVICE}"
        )
    return dataclasses.replace(image, prefix=prefix(count, registers_of(config)))


def _checked(audio: AudioReader, trial: Trial, name: str) -> AudioReader:
    """Return the reader if its number of frames equals that of the trial run.

    Raises:
        CheckpointError: The model makes another number of frames.
    """
    frames = audio.frames(len(audio.example()))
    if trial.rows != frames:
        raise CheckpointError(
            f"{name} attends to {trial.rows} frames of a sound of which its config makes {frames}; "
            f"which frame is which time is not known here. {ADVICE}"
        )
    return audio


def _heard(module: nn.Module, audio: AudioReader | None) -> Iterator[str]:
    """Yield notes on the maps of a sound."""
    if audio is not None and audio.fixed:
        yield (
            f"It always hears {audio.fixed * audio.hop / audio.rate:g} s: a shorter sound is "
            "filled up with silence. Those frames take part in every softmax, so they are shown; "
            "they are marked as special, like padding."
        )
    if audio is not None and spells(module):
        blank = getattr(module.config, "pad_token_id", None)
        yield (
            f"It gives a letter for each frame (CTC). Token {blank} is the blank: repeated letters "
            "are one, and blanks between them are left out."
        )


def _unseen(config: Any, seeing: bool) -> Iterator[str]:
    """Yield notes on the parts of a multimodal model that are not run."""
    senses = senses_of(config)
    if seeing:
        yield (
            "It reads text, and a picture beside it where one is given (image=). Maps are those "
            "of its language model, over words and patches alike; those of its vision part are "
            "shown where that part is opened alone."
        )
    elif senses:
        yield (
            f"It reads text alone here, as a language model; its {' and '.join(senses)} part is "
            "not run."
        )


def layer_numbers(config: Any, trial: Trial) -> tuple[int, ...]:
    """Return the model's own number of each layer with attention, from 0; empty if unknown.

    The number comes from the module paths, or from the config's list of layer types if one module
    serves several layers.
    """
    found = trial.numbers
    if len(found) < trial.layers or any(b <= a for a, b in pairwise(found)):
        kinds = getattr(config, "layers_block_type", None) or getattr(config, "layer_types", None)
        found = tuple(n for n, kind in enumerate(kinds or ()) if ATTENDING.search(str(kind)))
    return found if len(found) == trial.layers else ()


def _notes(config: Any, trial: Trial, settings: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield notes on the maps of this model."""
    layers = sum(settings.get(f"{stack}_layers", 0) or 0 for stack in ("encoder", "decoder"))
    if trial.layers < layers:
        others = "mix tokens in another way, which has no map"
        if getattr(config, "cross_attention_layers", None):
            others = "look at a picture, and none is given here"
        yield f"{trial.layers} of its {layers} layers attend; the others {others}."
        numbers = layer_numbers(config, trial)
        if numbers:
            yield (
                f"Maps are counted from L0; L0 to L{len(numbers) - 1} are the model's layers "
                f"{', '.join(map(str, numbers))}, counted from 0."
                if len(numbers) > 1
                else f"The map L0 is that of the model's layer {numbers[0]}, counted from 0."
            )
    if not trial.soft:
        yield "Some of its maps are made without a softmax, and their rows need not sum to 1."
    elif trial.sums > 0.01:
        yield (
            "The rows of its maps sum to less than 1: a part of each goes to a learned sink that "
            "is no token."
        )
