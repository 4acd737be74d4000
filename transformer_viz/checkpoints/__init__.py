"""A checkpoint on disk, or a module in memory, made into a Model.

The names are fetched when first used: asking what is in the box needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Calls, Model
    from .opening import load
    from .reading import CheckpointError
    from .shelf import available

__all__ = ["Calls", "CheckpointError", "Model", "available", "load"]

_ROOMS = {
    "Calls": ".model",
    "CheckpointError": ".reading",
    "Model": ".model",
    "available": ".shelf",
    "load": ".opening",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"transformer_viz.checkpoints has no {name!r}.")
    value = getattr(import_module(_ROOMS[name], __name__), name)
    globals()[name] = value
    return value
