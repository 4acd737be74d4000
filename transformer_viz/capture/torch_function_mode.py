"""Torch function modes: that of the probe, and a generic one that intercepts single calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from . import torch_calls
from .state import CaptureState
from .torch_calls import Args, Kwargs


class CaptureMode(TorchFunctionMode):
    """Mode that passes each torch call to its handler, or propagates the marks.

    Active inside ``with``, in one thread. A handler runs with the mode switched off. To have its
    inner calls handled, it enters a second mode on the same state.
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


#: Replacement of a torch call: gets function, arguments and keywords, returns the result.
Handler = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]


def call_unchanged(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a torch call unchanged.

    PyTorch's own modules run step by step, not fused, while any mode is active.
    """
    return func(*args, **kwargs)


class InterceptCalls(TorchFunctionMode):
    """Mode that passes each torch call of this thread inside ``with`` to a handler.

    The handler runs with the mode off; to see a call's inner calls, it enters the mode again.
    """

    def __init__(self, handle: Handler = call_unchanged):
        super().__init__()
        self.handle = handle

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.handle(func, args, kwargs or {})
