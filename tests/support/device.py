"""Where the models of the tests compute: the processor, or what ``pytest --device`` names.

``card`` is a pretended one, for machines without (see `tests.support.card`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

#: The name of a device of PyTorch, set by the option before any test is read.
name = "cpu"


def placed(thing: Any) -> Any:
    """The same there: a module or a tensor, or a list, tuple or dictionary that holds some."""
    if name == "cpu":
        return thing
    if isinstance(thing, nn.Module | Tensor):
        return thing.to(name)
    if isinstance(thing, Mapping):
        return {key: placed(value) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(placed(value) for value in thing)
    return thing


def making() -> AbstractContextManager[Any]:
    """Where a model makes tensors itself without naming a device, they are made there."""
    return nullcontext() if name == "cpu" else torch.device(name)


def fits() -> bool:
    """Whether this machine has the device."""
    if name == "card":
        from tests.support import card  # noqa: F401 - from now on there is one
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        return False
    return True
