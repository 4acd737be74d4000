"""Activation patching by plain forward hooks: a reference that does not use the probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]


@contextmanager
def reading(module: nn.Module, change: Change) -> Iterator[None]:
    """Change the input of a module."""
    handle = module.register_forward_pre_hook(lambda _, given: (change(given[0]), *given[1:]))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def giving(module: nn.Module, change: Change) -> Iterator[None]:
    """Change the output of a module; of a tuple the first."""

    def hook(_: nn.Module, given: object, out: Any) -> object:
        return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def seen(around: Callable[..., Any], module: nn.Module, run: Callable[[], object]) -> Tensor:
    """Return the tensor that passes there in a run."""
    found: list[Tensor] = []
    with torch.inference_mode(), around(module, lambda x: found.append(x.detach().clone()) or x):
        run()
    return found[-1]


def replacing(theirs: Tensor, *place: Any) -> Change:
    """Return a change that puts ``theirs[place]`` into a tensor."""

    def change(x: Tensor) -> Tensor:
        x = x.clone()
        x[place] = theirs[place]
        return x

    return change


def columns(head: int, heads: int, width: int) -> slice:
    """The features of a head in what a projection reads."""
    each = width // heads
    return slice(head * each, (head + 1) * each)
