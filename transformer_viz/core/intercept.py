"""One torch function mode for all that watches or changes torch calls without the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

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
