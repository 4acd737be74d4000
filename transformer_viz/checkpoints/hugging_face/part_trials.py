"""The parts of a model that open alone, tried out where their attention may be in windows."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from ..files.errors import CheckpointError
from .calls import make_calls
from .parts import parts_of, takes
from .trial_run import try_out

LARGEST = 10**9  # parameters of a part that is built once more to be tried


def parts_that_open(module: nn.Module) -> tuple[str, ...]:
    """Return the paths of the parts that open alone, without those refused for their windows."""
    return tuple(path for path in parts_of(module) if _opens(module.get_submodule(path)))


def _opens(part: Any) -> bool:
    """Return False if a part reads pictures and a small copy of it is refused by its trial."""
    config = copy.deepcopy(part.config)
    window, patch = getattr(config, "window_size", None), getattr(config, "patch_size", None)
    if takes(type(part), config) != "image" or not isinstance(window, int):
        return True
    if not isinstance(patch, int) or sum(p.numel() for p in part.parameters()) > LARGEST:
        return True
    side = 4 * window * patch  # of a picture with several windows
    config.image_size = side
    pixels = torch.zeros(1, getattr(config, "num_channels", 3), side, side)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            made = type(part)(config).eval()
        try_out(made, make_calls(made), pixels, None)
    except CheckpointError:
        return False
    except Exception:  # a copy of another size may not be built, in many ways
        return True
    return True


def part_of(module: Any, part: object) -> Any:
    """The part of a model that a path names; all of it where none does.

    Raises:
        CheckpointError: no such part; names those that open.
    """
    if part is None:
        return module
    if part not in parts_of(module):
        known = parts_that_open(module)
        raise CheckpointError(
            f"{type(module).__name__} has no part {part!r} that opens alone; "
            + (f"choose one of {', '.join(known)}." if known else "it has none, so leave part out.")
        )
    return module.get_submodule(part)
