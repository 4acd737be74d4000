"""What one must know beside a number to repeat and to judge it: the run card."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.common.model import Model
from ..core.guesses import guess_entry
from ..core.version import __version__


def model_card(model: Model) -> dict[str, Any]:
    """Of every run: which model (by its weights), in which numbers, by which version."""
    return {
        "model": model.name,
        "model_hash": model.hash or hash_of(model),
        "dtype": model.dtype,
        "device": model.device,
        "version": __version__,
        **guess_entry(model.guessed),
    }


def hash_of(model: Model) -> str:
    """SHA-256 of the weights of a model in memory."""
    made = hashlib.sha256()
    for name, value in model.module.state_dict().items():
        if isinstance(value, Tensor):
            made.update(name.encode())
            raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            made.update(raw.numpy().tobytes())
    return made.hexdigest()


def hash_of_ids(*parts: Any) -> str:
    """SHA-256 of what was read and asked, lists of numbers and words."""
    made = hashlib.sha256()
    for part in parts:
        made.update(repr(part).encode())
    return made.hexdigest()
