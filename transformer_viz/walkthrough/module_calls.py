"""Recorder of module inputs and outputs in one forward pass, without changing the modules.

A single global hook exists only inside ``with``. It finds its list in a ContextVar, so two threads
that run one module do not record each other's calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook


class Calls:
    """Recorded calls of some modules, in the order in which they ended."""

    def __init__(self, modules: Iterable[nn.Module]):
        self.watched = {id(module) for module in modules}
        self.made: list[tuple[nn.Module, tuple[Any, ...], Any]] = []

    def of(self, module: nn.Module) -> tuple[tuple[Any, ...], Any]:
        """Return the arguments and the result of a module's first call.

        Raises:
            LookupError: The module was not called. The message names its class.
        """
        for called, given, gave in self.made:
            if called is module:
                return given, gave
        raise LookupError(f"This run never called its {type(module).__name__}.")

    def given(self, module: nn.Module, place: int = 0) -> Tensor:
        """Return a positional argument of a module's first call."""
        tensor: Tensor = self.of(module)[0][place]
        return tensor

    def gave(self, module: nn.Module) -> Tensor:
        """Return the result of a module's first call."""
        tensor: Tensor = self.of(module)[1]
        return tensor

    def between(self, module: nn.Module, first: nn.Module, last: nn.Module) -> list[Any]:
        """Return the calls (arguments, result) of a module between those of two others."""
        order = [called for called, _, _ in self.made]
        inside = self.made[order.index(first) : order.index(last)]
        return [(given, gave) for called, given, gave in inside if called is module]


_present: ContextVar[Calls | None] = ContextVar("calls", default=None)


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[Calls]:
    """Record the calls of these modules inside ``with``, in this thread."""
    calls = Calls(modules)

    def note(module: nn.Module, given: tuple[Any, ...], gave: Any) -> None:
        if _present.get() is calls and id(module) in calls.watched:
            calls.made.append((module, given, gave))

    before = _present.set(calls)
    hook = register_module_forward_hook(note)
    try:
        yield calls
    finally:
        hook.remove()
        _present.reset(before)
