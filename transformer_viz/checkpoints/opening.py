"""The door for every checkpoint: find it, read it safely, hand it to the layout that knows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..model import Transformer
from ..text import Tokenizer
from . import module as plain
from . import native
from .model import Model
from .reading import (
    SUFFIXES,
    CheckpointError,
    CheckpointMissing,
    Weights,
    read_config,
    read_weights,
)
from .shelf import CONFIG, PRETRAINED, WEIGHTS, available, shelved


class Layout(Protocol):
    """What a layout's file offers: its name, whether a checkpoint is its own, and the opening."""

    NAME: str

    def recognise(self, weights: Weights, config: dict[str, Any]) -> bool:
        """Whether the file's names, or its config, are this layout's."""

    def open(
        self,
        weights: Weights,
        config: dict[str, Any],
        tokenizer: Tokenizer | None,
        **overrides: Any,
    ) -> Model:
        """The Model, in evaluation mode, on the CPU."""


#: Every layout, asked in this order. A new one is a file beside this one and a word here.
layouts: tuple[Layout, ...] = (native,)


def load(
    thing: str | os.PathLike[str] | nn.Module,
    device: str | None = None,
    tokenizer: Tokenizer | None = None,
    **overrides: Any,
) -> Model:
    """Open a trained model.

    ``thing`` is a name in ``pretrained/`` (``en-de``; a snapshot of it as ``en-de-small/step-64``),
    a folder, a weights file, or a module in memory, which is put into evaluation mode and stays on
    its device unless one is given. ``device`` None is a GPU if one is present. ``tokenizer`` None
    takes the vocabulary beside the weights, or else ids typed as numbers. ``overrides`` are words
    of :class:`ModelConfig`; they win over the file, and ``Model.provenance`` says so.

    Raises:
        CheckpointMissing: nothing of that name (a FileNotFoundError too).
        CheckpointError: a checkpoint that is unsafe, damaged, incomplete, of an unknown layout, or
            that does not fit its config (a ValueError too).
    """
    if isinstance(thing, nn.Module):
        place = None if device is None else choose_device(device)
        if isinstance(thing, Transformer):
            return native.wrap(thing, tokenizer, device=place, **overrides)
        return plain.wrap(thing, tokenizer, device=place, **overrides)
    place = choose_device(device)
    path = find(thing)
    weights, config = read_weights(path), read_config(path.parent / CONFIG)
    for layout in layouts:
        if layout.recognise(weights, config):
            return layout.open(weights, config, tokenizer, **overrides).to(place)
    raise CheckpointError(
        f"The layout of {path.name} is not known; its first weight is {min(weights.tensors)}. "
        f"Known are {', '.join(layout.NAME for layout in layouts)}. Build the module with its own "
        "code and give it to load(module, tokenizer=...)."
    )


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


def find(thing: str | os.PathLike[str]) -> Path:
    """The weights file that a name, a folder or a file stands for.

    Raises:
        CheckpointMissing: no such name or path, or a folder without weights.
        CheckpointError: a folder with several weights files and none called weights.safetensors.
    """
    path = (shelved(thing) if isinstance(thing, str) else None) or Path(thing)
    if path.is_file():
        return path
    if not path.is_dir():
        raise CheckpointMissing(
            f"There is no model, folder or file {str(thing)!r}. In the box: "
            f"{', '.join(available()) or f'nothing yet ({PRETRAINED} is empty)'}."
        )
    if (path / WEIGHTS).is_file():
        return path / WEIGHTS
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise CheckpointMissing(
            f"The folder {path} holds no weights; expected {WEIGHTS} or a file ending in "
            f"{', '.join(SUFFIXES)}."
        )
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise CheckpointError(
            f"The folder {path} holds several weights files ({names}); name one of them."
        )
    return files[0]
