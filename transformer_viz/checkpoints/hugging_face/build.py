"""A model of the transformers library, from a folder or in memory, made a Model of ours."""

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
from ...preprocessing.tokenizers import Tokenizer
from ..common.model import Model
from ..common.number_type import name_of, rounding_note
from ..files.errors import CheckpointError
from .calls import TARGET, make_calls
from .config import require_shown
from .config_words import NAMES, described
from .eyes import eyes_of
from .feature_extractor import hearing_of
from .image_processor import prefix, reader_of, registers_of
from .library import library
from .parts import parts_of, sees, senses_of, takes, words_config
from .side_files import (
    as_vocabularies,
    generation,
    largest_vocabulary,
    makes_pairs,
    tokenizer_of,
    vocabulary_size,
)
from .special_tokens import IDS, opening, special_ids
from .trial_run import ADVICE, Trial, runs_apart, try_out

NAME = "hugging_face"
TAGGERS = "ForTokenClassification"  # how the library ends the names of such classes
SPELLERS = "ForCTC"  # and of those that give a letter for each frame of a sound
ATTENDING = re.compile(r"^(full_|sliding_|chunked_)?attention|^hybrid")  # kinds of layers
LENGTH = 6  # tokens of the trial run


def wrap(
    module: Any,
    tokenizer: Any = None,
    name: str = "",
    *,
    device: str | None = None,
    **overrides: Any,
) -> Model:
    """A Model around a model of the library in memory, put into evaluation mode.

    ``tokenizer`` may be one of the library's own, or `Vocabularies`. ``overrides`` may say
    ``pad_id``, ``bos_id``, ``eos_id`` and ``max_tokens``; the rest is built already.

    Raises:
        CheckpointError: other overrides; a model without attention that could be shown.
    """
    for word in overrides:
        if word not in IDS:
            raise CheckpointError(
                f"A model in memory is built already; {word} cannot be overridden, only "
                f"{', '.join(IDS)}. Build it with another config."
            )
    require_shown(module.config.model_type)
    module.eval()
    if device is not None:
        module.to(device)
    with library():
        takes(type(module), module.config, parts_of(module))
        file = module.config.to_diff_dict()
        model = build_model(module, tokenizer, file, {}, overrides, None)
    return dataclasses.replace(model, name=name or type(module).__name__)


def build_model(
    module: nn.Module,
    tokenizer: Any,
    file: Mapping[str, Any],
    said: Mapping[str, Any],
    overrides: Mapping[str, Any],
    folder: Path | None,
) -> Model:
    """The Model around a module of the library, after a trial run of it.

    Args:
        module: the library's model; its config has every word.
        tokenizer: the library's, ours, or `Vocabularies`; None for ids typed as numbers.
        file: what ``config.json`` itself said.
        said: overrides in the config's names.
        overrides: what the user said, in any names.
        folder: where its other files stand; None for a model in memory.

    Raises:
        CheckpointError: it does not run, or has no attention that could be shown.
    """
    whole: Any = module.config
    config = words_config(whole)
    file = file if config is whole else file.get("text_config") or {}
    origin = "module" if folder is None else "file"
    beside = {} if folder is None else generation(folder)
    tokenizer, own = as_vocabularies(tokenizer)
    decodes = TARGET in inspect.signature(module.forward).parameters and config.is_encoder_decoder
    ids, named = special_ids(
        config,
        beside,
        own or tokenizer,
        overrides,
        decodes=decodes,
        origin=origin,
        size=largest_vocabulary(config),
    )
    reads = takes(type(module), whole)
    image, audio, seen, told = _readers(reads, folder, config)
    if audio and decodes:
        said_first = opening(beside, vocabulary_size(config) or 0)
        ids, named = ids | said_first, named | dict.fromkeys(said_first, "sidecar")
    source, target = _sample(module, image or audio, ids, decodes)
    trial = try_out(module, make_calls(module), source, target)
    kind = _kind(trial, decodes)
    gives = _gives(module, trial, decodes)
    calls = make_calls(module, causal=kind == "decoder-only", pad_id=ids.get("pad_id"))
    if target is None or not runs_apart(calls, source, target):
        calls = dataclasses.replace(calls, encode=None, decode=None)
    words, origins = described(config.to_dict(), file, said, kind, gives, origin)
    if audio:
        words.pop("source_vocab", None)
    face, said_of_words = tokenizer_of(tokenizer, ids, module, decodes, reads)
    eyes, blind = eyes_of(module, folder, face) if reads == "text" and sees(whole) else (None, "")
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
        labels=_labels(module, face, trial) if gives in ("classes", "tags") else (),
        layer_numbers=layer_numbers(config, trial) if kind != "encoder-decoder" else (),
        pairs=kind == "encoder-only" and own is not None and makes_pairs(own),
        notes=(
            *(_unseen(whole, eyes is not None) if reads == "text" else ()),
            *_heard(module, audio),
            *_notes(config, trial, words, kind),
            *said_of_words,
            *rounding_note(name_of(first.dtype)),
        ),
        provenance=origins | named | told,
    )


def _readers(
    reads: str, folder: Path | None, config: Any
) -> tuple[ImageReader | None, AudioReader | None, dict[str, Any], dict[str, str]]:
    """How pictures are read, or sounds, the words that say so, and where these came from."""
    if reads == "image":
        image, seen, told = reader_of(folder, config)
        return image, None, seen, told
    if reads == "audio":
        audio, seen, told = hearing_of(folder, config)
        return None, audio, seen, told
    return None, None, {}, {}


def input_device(module: nn.Module) -> torch.device:
    """Where a module wants its input: beside its first weight.

    A weight that accelerate keeps elsewhere until it is used is on no device; the hook that
    fetches it says where it will be.
    """
    device = next(module.parameters()).device
    if device.type == "meta":
        hook: Any = getattr(module, "_hf_hook", None)
        device = torch.device(getattr(hook, "execution_device", None) or "cpu")
    return device


def _kind(trial: Trial, decodes: bool) -> str:
    """Which stacks a model has; a lone one is a decoder if its trial hid later words."""
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
) -> tuple[Tensor, Tensor | None]:
    """A small plain input: an empty picture, a few notes, or a few ordinary tokens, and a target
    for them."""
    device = input_device(module)
    if isinstance(reader, ImageReader):
        return torch.zeros(1, reader.channels, reader.height, reader.width, device=device), None
    size = vocabulary_size(words_config(module.config)) or 256
    ordinary = [i for i in range(size // 2, size) if i not in ids.values()]
    source = torch.tensor([((ordinary or [0]) * LENGTH)[:LENGTH]], device=device)
    start = [ids.get("bos_id", 0)]
    target = torch.tensor([[*start, *source[0, :2].tolist()]], device=device) if decodes else None
    if reader is not None:
        source = torch.as_tensor(reader.features(reader.example()), device=device)[None]
    return source, target


def _gives(module: nn.Module, trial: Trial, decodes: bool) -> str:
    """What the output is, by its shape."""
    config = words_config(module.config)
    if trial.shape == (1, len(config.id2label or ())) and not decodes:
        return "classes"
    if len(trial.shape) != 3:
        raise CheckpointError(
            f"{type(module).__name__} gives neither words nor classes nor states, but numbers "
            f"{list(trial.shape)}, for which there is no picture here. {ADVICE}"
        )
    if type(module).__name__.endswith(TAGGERS) and trial.shape[2] == len(config.id2label or ()):
        return "tags"
    if _spells(module):
        return "tags"
    sizes = [getattr(config, n, None) for n in ("tgt_vocab_size", "decoder_vocab_size")]
    words = module.get_output_embeddings() is not None  # type: ignore[operator]
    return "words" if words and trial.shape[2] in (*sizes, vocabulary_size(config)) else "vectors"


def _longest(module: nn.Module) -> int | None:
    """How many tokens the position table holds; None where positions have no end.

    RoBERTa's tables begin after the row of the padding token; BART's and OPT's have two more rows
    than their config says.
    """
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
    """The reader with the names of the tokens that stand before the patches."""
    rows, columns = image.grid
    count = trial.rows - rows * columns
    if not 0 <= count <= registers_of(config) + 2:
        raise CheckpointError(
            f"A {config.model_type} model attends to {trial.rows} tokens, and a picture has "
            f"{rows} x {columns} patches; which token is which patch is not known here. {ADVICE}"
        )
    return dataclasses.replace(image, prefix=prefix(count, registers_of(config)))


def _checked(audio: AudioReader, trial: Trial, name: str) -> AudioReader:
    """The reader, if the frames of a trial run are those that it names.

    Raises:
        CheckpointError: the model makes another number of frames of it.
    """
    frames = audio.frames(len(audio.example()))
    if trial.rows != frames:
        raise CheckpointError(
            f"{name} attends to {trial.rows} frames of a sound of which its config makes {frames}; "
            f"which frame is which time is not known here. {ADVICE}"
        )
    return audio


def _labels(module: Any, face: Tokenizer, trial: Trial) -> tuple[str, ...]:
    """The names of the classes, where there is one for each; for CTC they are letters."""
    named = words_config(module.config).id2label or {}
    if _spells(module):
        named = dict(enumerate(face.pieces))
    return tuple(str(named.get(i, i)) for i in range(trial.shape[-1]))


def _spells(module: Any) -> bool:
    """Whether a class gives a letter for each frame."""
    return type(module).__name__.endswith(SPELLERS)


def _heard(module: nn.Module, audio: AudioReader | None) -> Iterator[str]:
    """What a reader of a sound's maps must know."""
    if audio is not None and audio.fixed:
        yield (
            f"It always hears {audio.fixed * audio.hop / audio.rate:g} s: a shorter sound is "
            "filled up with silence. Those frames take part in every softmax, so they are shown; "
            "they are marked as special, like padding."
        )
    if audio is not None and _spells(module):
        blank = getattr(module.config, "pad_token_id", None)
        yield (
            f"It gives a letter for each frame (CTC). Token {blank} is the blank: repeated letters "
            "are one, and blanks between them are left out."
        )


def _unseen(config: Any, seeing: bool) -> Iterator[str]:
    """What of a model of several parts is not run."""
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
    """The model's own number of each layer that attends, from 0; empty where it is not told.

    The paths of the modules tell it; where one module serves several layers, the config's list of
    what each layer is.
    """
    found = trial.numbers
    if len(found) < trial.layers or any(b <= a for a, b in pairwise(found)):
        kinds = getattr(config, "layers_block_type", None) or getattr(config, "layer_types", None)
        found = tuple(n for n, kind in enumerate(kinds or ()) if ATTENDING.search(str(kind)))
    return found if len(found) == trial.layers else ()


def _notes(config: Any, trial: Trial, settings: Mapping[str, Any], kind: str) -> Iterator[str]:
    """What a reader of this model's pictures must know."""
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
    ends = getattr(config, "eos_token_id", None)
    if kind != "encoder-only" and isinstance(ends, list) and len(ends) > 1:
        yield f"It may end with any of the tokens {ends}; here a text ends with the first."
