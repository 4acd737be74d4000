"""The function mode behind the probe: sees a thread's torch calls, finds their handlers."""

from __future__ import annotations

import sys
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
