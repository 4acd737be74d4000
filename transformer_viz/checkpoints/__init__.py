"""Opening of checkpoints on disk, or of modules in memory, as a `Model`.

Names are imported on first use, so listing the bundled models needs no torch. May import
preprocessing, capture, model and core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy

if TYPE_CHECKING:
    from .common.bundled import available
    from .common.model import Calls, Model
    from .files.errors import CheckpointError
    from .loader import load
    from .proposing import propose_names

__all__ = ["Calls", "CheckpointError", "Model", "available", "load", "propose_names"]

__getattr__ = lazy(
    __name__,
    {
        "Calls": ".common.model",
        "CheckpointError": ".files.errors",
        "Model": ".common.model",
        "available": ".common.bundled",
        "load": ".loader",
        "propose_names": ".proposing",
    },
)
