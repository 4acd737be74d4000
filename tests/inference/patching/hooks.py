"""Activation patching by plain forward hooks: the witness, which knows nothing of the probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]


@contextmanager
def reading(module: nn.Module, change: Change) -> Iterator[None]:
    """What a linear map reads, changed."""
    handle = module.register_forward_pre_hook(lambda _, given: (change(given[0]), *given[1:]))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def giving(module: nn.Module, change: Change) -> Iterator[None]:
    """What a module gives, changed; of a tuple the first."""

    def hook(_: nn.Module, __: object, out: object) -> object:
        if isinstance(out, tuple):
            return (change(out[0]), *out[1:])
        assert isinstance(out, Tensor)
        return change(out)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def seen(
    around: Callable[[nn.Module, Change], object], module: nn.Module, run: Callable[[], Tensor]
) -> Tensor:
    """What passes there in a run."""
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x.detach().clone())
        return x

    with torch.inference_mode(), around(module, note):  # type: ignore[attr-defined]
        run()
    return found[-1]


def columns(head: int, heads: int, width: int) -> slice:
    """The features of a head in what a projection reads."""
    each = width // heads
    return slice(head * each, (head + 1) * each)
