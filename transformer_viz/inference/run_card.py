"""Run card: details needed to reproduce a run and to judge its numbers."""

from __future__ import annotations

import hashlib
import platform
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..capture.torch_calls import dense
from ..checkpoints.common.model import Model
from ..core.guesses import guess_entry
from ..core.interventions import Intervention
from ..core.version import __version__
from .model_inputs import Read
from .proof.program import weights_mark

#: Mark of the weights, and their hash, by module.
HASHES: WeakKeyDictionary[nn.Module, tuple[Any, str]] = WeakKeyDictionary()


def model_card(model: Model) -> dict[str, Any]:
    """Return the details common to all runs: model (by its weights), precision and version."""
    return {
        "model": model.name,
        "model_hash": model.hash or hash_of(model),
        "dtype": model.dtype,
        "device": model.device,
        "version": __version__,
        **guess_entry(model.guessed),
    }


def hash_of(model: Model) -> str:
    """Return the SHA-256 of the weights of a model in memory.

    It is cached while PyTorch's version counters, the addresses of the weights and the numbers of
    `weights_mark` do not change. A write past PyTorch (through ``.data`` or NumPy) is missed if it
    changes none of those numbers in a large weight.
    """
    tensors = [*model.module.parameters(), *model.module.buffers()]
    places = tuple(x.data_ptr() for x in tensors if dense(x) and not x.is_meta)
    marks = (places, weights_mark(model.module))
    known = HASHES.get(model.module)
    if known is None or known[0] != marks:
        known = HASHES[model.module] = marks, _hash_of(model)
    return known[1]


def _hash_of(model: Model) -> str:
    made = hashlib.sha256()
    for name, value in model.module.state_dict().items():
        if isinstance(value, Tensor):
            made.update(name.encode())
            raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            made.update(raw.numpy().data)  # no copy of large weights
    return made.hexdigest()


def hash_of_ids(*parts: Any) -> str:
    """Return the SHA-256 of inputs and questions, given as lists of numbers and texts."""
    made = hashlib.sha256()
    for part in parts:
        made.update(repr(part).encode())
    return made.hexdigest()


def manifest_of(model: Model, intervention: Intervention, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the details needed to reproduce a run."""
    return {
        "model": model.name,
        "layout": model.layout,
        "hash": model.hash,
        "parameters": model.parameters,
        "dtype": model.dtype,
        "device": model.device,
        "kind": model.kind,
        "versions": {
            "transformer_viz": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "seed": 0,
        "keep": list(words),
        "intervention": intervention.to_json(),
        **guess_entry(model.guessed),
    }


def notes_of_input(model: Model, read: Read) -> dict[str, Any]:
    """Return details needed to read patches, classes and answers."""
    notes: dict[str, Any] = {}
    if read.beside is not None:
        notes["image"] = {"grid": list(read.beside.seen.grid), "prefix": read.beside.patches}
    if model.image is not None:
        notes["image"] = {"grid": list(model.image.grid), "prefix": len(model.image.prefix)}
    if model.gives == "classes":
        notes["labels"] = list(model.labels)
    told = {"task": model.task, "gives": "spans" if model.gives == "spans" else ""}
    return notes | {name: word for name, word in told.items() if word}
