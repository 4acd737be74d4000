"""PyTorch's own mask objects (`torch.nn.attention.bias`) made while a dispatch mode listens.

A subclass of Tensor cannot be made under a `TorchDispatchMode`: its memory would come from the mode
as a plain Tensor. Under the modes of a proof these objects are made outside of them.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.attention.bias import CausalBias
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

_listening: set[type] = set()


def allow_mask_objects(mode: type) -> None:
    """Let mask objects be made while a dispatch mode of this class is the innermost one."""
    if not _listening:
        CausalBias.__new__ = make_mask_object  # type: ignore[assignment]
    _listening.add(mode)


def make_mask_object(cls: type[CausalBias], *sizes: Any) -> CausalBias:
    """Make a mask object as PyTorch does, outside the modes of a proof."""
    if type(_get_current_dispatch_mode()) not in _listening:
        return Tensor.__new__(cls, *sizes)
    with _disable_current_modes():
        return Tensor.__new__(cls, *sizes)
