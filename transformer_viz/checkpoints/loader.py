"""Loading of checkpoints: find the files, read them safely, open them with the matching layout."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..model import Transformer
from ..preprocessing.tokenizers import Tokenizer, target_side
from .common import native
from .common.bundled import CONFIG, EXAMPLE, PREFERRED, PRETRAINED, WEIGHTS, available, shelved
from .common.candidate import Candidate
from .common.memory import require_memory, widened_note
from .common.model import Model
from .common.names import read_names, rename_notes, shape_tables
from .common.number_type import number_type
from .common.provenance import doubt_layout, override_advice
from .files.adapters import base_of, is_adapter, weights_of
from .files.reading import SUFFIXES, CheckpointError, CheckpointMissing, file_size, read_config
from .files.run_folders import name_places, weights_below
from .files.unwrapping import AVERAGED, LEFT
from .given_vocabularies import given_vocabularies
from .hub.door import local
from .hub.ids import hint
from .hub.snapshots import id_of
from .hugging_face import layout as hugging_face
from .layouts import (
    annotated,
    fairseq,
    gpt2,
    jadore_2018,
    jadore_2019,
    jadore_2020,
    labml,
    mingpt,
    nanogpt,
    opennmt,
    timm,
    torch_core,
    torch_tutorial,
)
from .layouts import module as plain
from .layouts.own_models import reference, torch_language_model
from .unknown_layout import unknown_layout
from .vocabularies.beside import sounds


class Layout(Protocol):
    """Interface of a layout module.

    ``WORDS`` are the options that a user may override. ``NAMES`` are regular expressions; each
    weight of the layout matches one, which also finds the nearest layout of an unknown file.
    """

    NAME: str
    WORDS: tuple[str, ...]
    NAMES: tuple[str, ...]

    def recognise(self, found: Candidate) -> bool:
        """Return True if the config, or the names of the weights, are this layout's."""

    def open(
        self, found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]
    ) -> Model:
        """Return the Model, in evaluation mode, on the CPU."""


#: All layouts, tried in this order. A new one is a module beside these and an entry here.
layouts: tuple[Layout, ...] = (
    hugging_face,
    reference,
    native,
    jadore_2020,
    jadore_2019,
    jadore_2018,
    annotated,
    labml,
    nanogpt,
    mingpt,
    gpt2,
    fairseq,
    opennmt,
    timm,
    torch_tutorial,
    torch_language_model,
    torch_core,
)
BESIDE = ("vocab.pt", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", EXAMPLE)
AUTO = "auto"  # a device: as many as the model needs, if its layout supports it
OURS = ("layout", "allow_nonfinite", "weights", "base", "names")  # overrides of `load` itself


def load(
    thing: str | os.PathLike[str] | nn.Module,
    device: str | None = None,
    tokenizer: Any = None,
    *,
    target_tokenizer: Any = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    dtype: str | torch.dtype | None = None,
    max_memory: Mapping[int | str, int | str] | None = None,
    offload_folder: str | os.PathLike[str] | None = None,
    names: Mapping[str, str | None] | str | os.PathLike[str] | None = None,
    **overrides: Any,
) -> Model:
    """Open a trained model.

    Args:
        thing: Name in ``pretrained/`` (``en-de``, or a snapshot ``en-de-small/step-64``), folder,
            weights file, Hugging Face Hub id ``owner/name`` or ``owner/name@revision``, or module
            in memory (put into evaluation mode).
        device: None is a GPU if present (a module stays on its device); ``"auto"`` spreads a
            Hugging Face model over all devices.
        tokenizer: Object with encode and decode, list or dictionary of words, or vocabulary file.
            None takes the vocabularies beside the weights, or else ids typed as numbers.
        target_tokenizer: That of the target, if different.
        revision: Branch, tag or commit on the Hub.
        allow_pickle: Fetch pickled weights if the Hub has no safetensors.
        dtype: ``"float32"`` (default), ``"float16"``, ``"bfloat16"``, ``"float64"``, a torch dtype,
            or ``"auto"`` for that of the file.
        max_memory: Limit of each device (``{0: "10GB", "cpu": "30GB"}``); spreads the model.
        offload_folder: Folder for the rest of a model that is spread, with the accelerate package.
        names: Mapping of the file's names of weights to a layout's, or a JSON file of it
            (``names.json`` beside the weights is read too), see :mod:`.common.names`.
        overrides: Options of the layout (:class:`ModelConfig` for ours), which win over the file.
            Also ``layout=``, ``tgt_lang=`` (``"deu_Latn"``), ``allow_nonfinite=True``,
            ``weights="ema"`` (running average), and ``base=`` for the model of a peft adapter.

    Raises:
        CheckpointMissing: Nothing has this name, here or on the Hub (a FileNotFoundError too).
        CheckpointError: The checkpoint is unsafe, damaged, incomplete, of an unknown layout, or
            does not fit its config (a ValueError too).
    """
    spread = {"max_memory": max_memory, "offload_folder": offload_folder}
    spread = {word: value for word, value in spread.items() if value is not None}
    overrides |= {} if names is None else {"names": names}
    if isinstance(thing, nn.Module):
        _refuse_in_memory(names=names, dtype=dtype, revision=revision, **spread)
        place = None if device is None else choose_device(device)
        vocabularies = given_vocabularies(tokenizer, target_tokenizer)
        if isinstance(thing, Transformer):
            return native.wrap(thing, vocabularies, device=place, **overrides)
        return plain.wrap(thing, vocabularies, device=place, **overrides)
    if spread and device not in (None, AUTO):
        raise CheckpointError(
            f"With {' and '.join(spread)} a model is spread over devices, and device={device!r} "
            'names one; leave device out, or give "auto".'
        )
    place = None if spread or device == AUTO else choose_device(device)
    thing, overrides = local(thing, overrides, revision=revision, allow_pickle=allow_pickle)
    found, words = discover(thing, overrides)
    require_memory(found.path, dtype, spread=place is None)
    vocabularies = given_vocabularies(tokenizer, target_tokenizer, found.folder)
    layout, found = recognised(found, overrides.get("layout"))
    return open_as(layout, found, words, vocabularies, device=place, dtype=dtype, spread=spread)


def open_as(
    layout: Layout,
    found: Candidate,
    words: dict[str, Any],
    tokenizer: Tokenizer | None = None,
    *,
    device: str | None,
    dtype: str | torch.dtype | None = None,
    spread: Mapping[str, Any] | None = None,
) -> Model:
    """Open a checkpoint with a known layout.

    Args:
        layout: Layout from :func:`recognised`.
        found: Checkpoint on disk, with its weights if they were read already.
        words: Overrides of the layout, and ``dtype``.
        tokenizer: Tokenizer of the user.
        device: Single device; None spreads the model.
        dtype: Type of number of the computation.
        spread: Limits of devices, if given.

    Raises:
        CheckpointError: As in :func:`load`.
    """
    place, spread = device, dict(spread or {})
    words = dict(words)
    dtype = words.pop("dtype", None) if dtype is None else dtype
    if layout is hugging_face:
        if found.names is not None and found.names.origin == "override":
            raise CheckpointError(
                f"names= maps the weights of a file of one's own, and {found.folder.name} is a "
                "folder of a Hugging Face model, whose config says them. Leave names= out."
            )
        words |= spread | {"dtype": dtype} | ({"device": AUTO} if place is None else {})
        model = layout.open(found, tokenizer, words)
    elif found.adapter is not None:
        raise CheckpointError(
            f"The adapter {found.adapter.parent.name} is peft's, and so is for Hugging Face "
            f"models; {found.path.name} is {layout.NAME}. Give the folder of its model as base."
        )
    elif "part" in words:
        raise CheckpointError(
            f"Only a Hugging Face folder has parts, such as the towers of CLIP, and this is "
            f"{layout.NAME}; leave part={words['part']!r} out."
        )
    elif place is None:
        raise CheckpointError(
            f"Only a Hugging Face folder can be spread over devices, and this is {layout.NAME}; "
            "name one device, such as cpu."
        )
    else:
        model = layout.open(_with_own_tables(found, layout), tokenizer, words)
        model = model if dtype is None else model.cast(number_type(dtype, model.file_dtype))
    if layout is not hugging_face and found.renamed:
        model = _of_mapped_names(model, layout, found)
    words_of_file = _of_the_file(found)
    notes = (*model.notes, *found.remarks, *words_of_file.pop("left_out"))
    notes += widened_note(model, found.path, dtype)
    model = replace(model, **words_of_file, notes=notes)
    if found.allow_nonfinite:
        note = f"{found.path.name} was opened although it may hold NaN or infinite weights."
        model = replace(model, notes=(*model.notes, note))
    return model if place is None else model.to(place)


def _with_own_tables(found: Candidate, layout: Layout) -> Candidate:
    """Return the candidate with position tables of mapped names in the layout's shape."""
    if not found.renamed:
        return found
    other = replace(found)
    shapes = getattr(layout, "TABLE_SHAPES", {})
    other.__dict__["weights"] = shape_tables(found.weights, shapes)
    return other


def _of_mapped_names(model: Model, layout: Layout, found: Candidate) -> Model:
    """Return the model with all options as guesses that only its layout's own code would settle."""
    certain = getattr(layout, "settled_words", lambda weights: ())(found.weights)
    model = replace(model, provenance=doubt_layout(model.provenance, certain))
    notes = (*model.notes, *rename_notes(found.weights, found.names))
    words = [word for word in model.guesses if word in layout.WORDS and word not in ("d_k", "d_v")]
    guesses = {word: model.config[word] for word in words}
    advice = override_advice(guesses, target_side(model.tokenizer).pieces) if guesses else None
    return replace(model, notes=(*notes, advice) if advice else notes)


def _refuse_in_memory(**given: Any) -> None:
    """Refuse options that would change a module in memory, such as its dtype or device.

    Raises:
        CheckpointError: Names the option.
    """
    for word, value in given.items():
        if value is not None:
            do = "Convert or move it yourself (module.to(torch.bfloat16)) before load."
            do = "Leave names= out." if word == "names" else do
            raise CheckpointError(
                f"{word} is for checkpoints on disk; a module in memory is opened as it is. {do}"
            )


def _of_the_file(found: Candidate) -> dict[str, Any]:
    """Return fields that no layout sets: file size, removed prefixes, left-out weights."""
    read = found.__dict__.get("weights")  # a layout may have read the tensors in another way
    name = id_of((found.adapter or found.path).parent)  # layouts name the folder, here a commit
    changes = () if read is None else read.unwrapped
    gone = [change for change in changes if LEFT in change or AVERAGED in change]
    return {
        "file_size": sum(map(file_size, filter(None, (found.path, found.adapter)))),
        "unwrapped": tuple(change for change in changes if change not in gone),
        "left_out": tuple(f"{change[0].upper()}{change[1:]}." for change in gone),
        **({"name": name} if name else {}),
    }


def discover(
    thing: str | os.PathLike[str], overrides: Mapping[str, Any]
) -> tuple[Candidate, dict[str, Any]]:
    """Return the checkpoint on disk under a name, and the overrides of its layout."""
    path = find(thing)
    allow = overrides.get("allow_nonfinite", False)
    if not isinstance(allow, bool):
        raise CheckpointError(f"allow_nonfinite is true or false; got {allow!r}.")
    which = overrides.get("weights", "trained")
    if which not in ("trained", "ema"):
        raise CheckpointError(f"weights are 'trained' or 'ema' (their average); got {which!r}.")
    words = {word: overrides[word] for word in overrides if word not in OURS}
    adapter, base = None, overrides.get("base")
    if is_adapter(path):
        adapter, path = path, find(base_of(path, base), whole=True)
    elif base:
        raise CheckpointError(
            f"base={str(base)!r} names the model of an adapter, and {path.name} is none; leave it "
            "out."
        )
    config = read_config(path.parent / CONFIG)
    names = read_names(overrides.get("names"), path.parent)
    return Candidate(path, config, allow, which == "ema", adapter, names), words


def layout_of(found: Candidate, wanted: str | None = None) -> Layout:
    """Return the layout of a checkpoint, see :func:`recognised`."""
    return recognised(found, wanted)[0]


def recognised(found: Candidate, wanted: str | None = None) -> tuple[Layout, Candidate]:
    """Return the requested layout, or the first that recognises a checkpoint, and its candidate.

    If none does, all are tried again on the field in which a larger module kept the model
    (``gpt.``), without the other fields.

    Raises:
        CheckpointError: The layout does not exist, or none recognises the file; names the nearest.
    """
    names = [layout.NAME for layout in layouts]
    if wanted is not None:
        if wanted not in names:
            raise CheckpointError(f"There is no layout {wanted!r}; known are {', '.join(names)}.")
        asked = layouts[names.index(wanted)]
        fields = () if asked in (hugging_face, native) else found.in_a_field()
        known = asked.recognise(found)
        return asked, found if known else next(filter(asked.recognise, fields), found)
    for what in (found, *found.in_a_field()):
        for layout in layouts:
            if layout.recognise(what):
                return layout, what
    raise unknown_layout(found, layouts)


def choose_device(device: str | None) -> str:
    """Return the requested device, or a GPU if one is present, or the CPU.

    Raises:
        CheckpointError: This machine or PyTorch has no such device.
    """
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise CheckpointError(
            f"There is no device {device!r} here; use cpu"
            f"{', cuda' if torch.cuda.is_available() else ''}, or leave it out."
        ) from error
    return device


def find(thing: str | os.PathLike[str], whole: bool = False) -> Path:
    """Return the weights file of a name, a folder or a file.

    ``whole`` prefers the model's weights if a folder holds an adapter too.

    Raises:
        CheckpointMissing: There is no such name or path, or the folder has no weights.
        CheckpointError: The folder has several weights files and no preferred one.
    """
    path = (shelved(thing) if isinstance(thing, str) else None) or Path(thing)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):  # names too long, or with invalid characters
        is_file = is_folder = False
    if is_file:
        return path
    if not is_folder:
        raise CheckpointMissing(
            f"There is no model, folder or file {str(thing)!r}. In the box: "
            f"{', '.join(available()) or f'nothing yet ({PRETRAINED} is empty)'}.{hint(str(thing))}"
        )
    adapter = weights_of(path)
    if adapter is not None and not whole:
        return adapter
    files = [file for file in _weights_in(path) if file != adapter]
    if not files:
        if below := weights_below(path, _weights_in):
            raise CheckpointMissing(name_places(path, below))
        raise CheckpointMissing(
            f"The folder {path} holds no weights; expected {WEIGHTS} or a file ending in "
            f"{', '.join(SUFFIXES)}."
        )
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise CheckpointError(
            f"The folder {path.name} holds several weights files ({names}); give one of them alone."
        )
    return files[0]


def _weights_in(folder: Path) -> list[Path]:
    """Return the weights files of a folder; only one if it has a preferred name."""
    for name in PREFERRED:
        if (folder / name).is_file():
            return [folder / name]
    files = sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))
    files = [file for file in files if file.is_file() and file.name not in BESIDE]
    return [file for file in files if not sounds(file.name)] or files
