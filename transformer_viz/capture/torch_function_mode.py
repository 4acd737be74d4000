"""The torch function modes: the probe's, and one for all that watches or changes single calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from . import torch_calls
from .state import CaptureState
from .torch_calls import Args, Kwargs


class CaptureMode(TorchFunctionMode):
    """Hands each torch call to the handler of its function, or lets the marks travel through it.

    Active inside ``with``, in one thread. A handler runs with the mode switched off; one that wants
    its inner calls seen enters a second mode on the same state.
    """

    def __init__(self, state: CaptureState):
        super().__init__()
        self.state = state

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self.state.running is not None and not self.state.running.holds(sys._getframe(1)):
            self.state.running.ended(self.state)
        handler = self.state.handlers.get(func)
        if handler is not None:
            out = handler(self.state, func, args, kwargs)
        elif getattr(func, "__name__", "") == "__get__" and func not in torch_calls.TURNS:
            return func(*args, **kwargs)  # a property: its value carries no mark
        else:
            out = self.state.call(func, args, kwargs)
        self.state.lineage.name_axes(out, func, args, kwargs)
        if self.state.running is not None:
            self.state.running.take(out)
        return out


#: Runs in place of a torch call: gets its function, arguments and keywords, returns its result.
Handler = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]


def call_unchanged(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a torch call as it is.

    PyTorch's own modules run step by step, not fused, while any mode is active.
    """
    return func(*args, **kwargs)


class InterceptCalls(TorchFunctionMode):
    """Hand each torch call of this thread inside ``with`` to a handler.

    The handler runs with the mode off; to see what a call does inside, it enters the mode again.
    """

    def __init__(self, handle: Handler = call_unchanged):
        super().__init__()
        self.handle = handle

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.handle(func, args, kwargs or {})
