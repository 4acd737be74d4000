"""The manifest of a trace: what one needs to repeat its run and to read its input."""

from __future__ import annotations

import platform
from typing import Any

import torch

from ..checkpoints.common.model import Model
from ..core.guesses import guess_entry
from ..core.interventions import Intervention
from ..core.version import __version__
from .model_inputs import Read


def manifest_of(model: Model, intervention: Intervention, words: tuple[str, ...]) -> dict[str, Any]:
    """Return what one needs to repeat a run."""
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
    """Return what a reader of patches, classes and answers needs beside the numbers."""
    notes: dict[str, Any] = {}
    if read.beside is not None:
        notes["image"] = {"grid": list(read.beside.seen.grid), "prefix": read.beside.patches}
    if model.image is not None:
        notes["image"] = {"grid": list(model.image.grid), "prefix": len(model.image.prefix)}
    if model.gives == "classes":
        notes["labels"] = list(model.labels)
    told = {"task": model.task, "gives": "spans" if model.gives == "spans" else ""}
    return notes | {name: word for name, word in told.items() if word}
