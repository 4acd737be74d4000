"""PyTorch's own mask objects (`torch.nn.attention.bias`) made while a dispatch mode listens.

A subclass of Tensor cannot be made under a `TorchDispatchMode`: its memory would come from the mode
as a plain Tensor. Under the modes of a proof these objects are made outside of them.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

_listening: set[type] = set()


def allow_mask_objects(mode: type) -> None:
    """Let mask objects be made while a dispatch mode of this class is the innermost one."""
    _listening.add(mode)
    objects = sys.modules.get("torch.nn.attention.bias")  # importing it takes seconds
    if objects is not None:
        objects.CausalBias.__new__ = make_mask_object


def make_mask_object(cls: type[Tensor], *sizes: Any) -> Tensor:
    """Make a mask object as PyTorch does, outside the modes of a proof."""
    if type(_get_current_dispatch_mode()) not in _listening:
        return Tensor.__new__(cls, *sizes)
    with _disable_current_modes():
        return Tensor.__new__(cls, *sizes)
