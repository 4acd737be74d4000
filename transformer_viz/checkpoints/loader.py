"""The door for every checkpoint: find it, read it safely, hand it to the layout that knows it."""

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
    """Describe what the module of a layout offers.

    ``WORDS`` are the words that a user may override; ``NAMES`` regular expressions of which every
    weight of this layout matches one, so that a file nobody knows can be told what it is nearest.
    """

    NAME: str
    WORDS: tuple[str, ...]
    NAMES: tuple[str, ...]

    def recognise(self, found: Candidate) -> bool:
        """Whether the config, or the names of the weights, are this layout's."""

    def open(
        self, found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]
    ) -> Model:
        """The Model, in evaluation mode, on the CPU."""


#: Every layout, asked in this order. A new one is a file beside this one and a word here.
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
AUTO = "auto"  # a device: as many as the model needs, where its layout can do that
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

    ``thing`` is a name in ``pretrained/`` (``en-de``, or its snapshot ``en-de-small/step-64``), a
    folder, a weights file, or a module in memory, which is put into evaluation mode and stays on
    its device unless one is given. Else ``owner/name`` is a model of the Hugging Face Hub, fetched
    with its client; ``revision`` is a branch, a tag or a commit, as ``owner/name@revision`` says
    too, and ``allow_pickle=True`` fetches pickled weights where it has no safetensors. ``device``
    None is a GPU if one is present, ``"auto"`` spreads a Hugging Face model over all there are.
    ``tokenizer`` is an object with encode and decode, a list or dictionary of words, or a
    vocabulary file; ``target_tokenizer`` is that of the target, where it has its own. None takes
    the vocabularies beside the weights, or else ids typed as numbers. ``dtype`` is what it computes
    in: ``"float32"`` (None too), ``"float16"``, ``"bfloat16"``, ``"float64"``, the torch dtype, or
    ``"auto"`` for that of the file. ``max_memory`` is the most that each device may hold (``{0:
    "10GB", "cpu": "30GB"}``), ``offload_folder`` where on disk the rest lies; both spread the model
    as ``device="auto"`` does, with the accelerate package. ``names`` maps the file's own names of
    weights to a layout's (or is a JSON file of such a table; ``names.json`` beside the weights is
    read too), see :mod:`.common.names`. ``overrides`` are words of the layout (:class:`ModelConfig`
    for our own); they win over the file, and ``Model.provenance`` says so. ``tgt_lang=`` is the
    target language of a Hugging Face translator whose tokenizer has several (``"deu_Latn"``).
    ``layout=`` names the layout instead of recognising it, ``allow_nonfinite=True`` opens weights
    that are NaN or infinite, and ``weights="ema"`` takes the running average of the weights where a
    file holds it too. A folder that peft saved holds an adapter, which is merged in memory into the
    model that its config names, or ``base=`` does.

    Raises:
        CheckpointMissing: nothing of that name (a FileNotFoundError too), here or on the Hub.
        CheckpointError: a checkpoint that is unsafe, damaged, incomplete, of an unknown layout, or
            that does not fit its config (a ValueError too).
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
    """Open a checkpoint whose layout is settled; the words are as of :func:`load`.

    Args:
        layout: as :func:`recognised` gave it.
        found: what stands on disk, with its weights where these were read already.
        words: overrides that are the layout's own, and ``dtype``.
        tokenizer: the user's.
        device: one device; None spreads the model.
        dtype: the type of number to compute in.
        spread: over which devices, where that was said.

    Raises:
        CheckpointError: as of :func:`load`.
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
    """The same, with position tables of mapped names in the shape that the layout stores."""
    if not found.renamed:
        return found
    other = replace(found)
    shapes = getattr(layout, "TABLE_SHAPES", {})
    other.__dict__["weights"] = shape_tables(found.weights, shapes)
    return other


def _of_mapped_names(model: Model, layout: Layout, found: Candidate) -> Model:
    """The same model, with all marked as guesses that only its layout's own code would settle."""
    certain = getattr(layout, "settled_words", lambda weights: ())(found.weights)
    model = replace(model, provenance=doubt_layout(model.provenance, certain))
    notes = (*model.notes, *rename_notes(found.weights, found.names))
    words = [word for word in model.guesses if word in layout.WORDS and word not in ("d_k", "d_v")]
    guesses = {word: model.config[word] for word in words}
    advice = override_advice(guesses, target_side(model.tokenizer).pieces) if guesses else None
    return replace(model, notes=(*notes, advice) if advice else notes)


def _refuse_in_memory(**given: Any) -> None:
    """A module in memory stays as it is: in its own type of number, where it lies.

    Raises:
        CheckpointError: names the word that came.
    """
    for word, value in given.items():
        if value is not None:
            do = "Convert or move it yourself (module.to(torch.bfloat16)) before load."
            do = "Leave names= out." if word == "names" else do
            raise CheckpointError(
                f"{word} is for checkpoints on disk; a module in memory is opened as it is. {do}"
            )


def _of_the_file(found: Candidate) -> dict[str, Any]:
    """Return what no layout adds: sizes, prefixes taken off, and weights that were left out."""
    read = found.__dict__.get("weights")  # a layout may have taken another way to the tensors
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
    """What stands on disk under a name, and the overrides that are its layout's own."""
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
    """The layout of a checkpoint, see :func:`recognised`."""
    return recognised(found, wanted)[0]


def recognised(found: Candidate, wanted: str | None = None) -> tuple[Layout, Candidate]:
    """The layout asked for, or the first that recognises a checkpoint, and what it is to open.

    Where none does, everyone is asked once more about the field in which a larger module kept the
    model (``gpt.``), without what stands beside it.

    Raises:
        CheckpointError: no layout of that name; or none knows the file, with the nearest one.
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
    """The device asked for, or a GPU if one is present, or the CPU.

    Raises:
        CheckpointError: a device that this machine or PyTorch does not have.
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
    """The weights file that a name, a folder or a file stands for.

    ``whole``: of a folder that holds an adapter too, the model's and not the adapter's.

    Raises:
        CheckpointMissing: no such name or path, or a folder without weights.
        CheckpointError: a folder with several weights files and none of a name that settles it.
    """
    path = (shelved(thing) if isinstance(thing, str) else None) or Path(thing)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):  # names too long, or with characters that no name may have
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
    """The weights files of a folder; one alone where its name settles that it is the one."""
    for name in PREFERRED:
        if (folder / name).is_file():
            return [folder / name]
    files = sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES))
    files = [file for file in files if file.is_file() and file.name not in BESIDE]
    return [file for file in files if not sounds(file.name)] or files
