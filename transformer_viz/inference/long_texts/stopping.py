"""Progress of a run, which can be stopped at any of its torch calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention, softmax

from ...capture.torch_function_mode import InterceptCalls

ATTENDS = (torch.softmax, torch.Tensor.softmax, softmax, scaled_dot_product_attention)


def report_attentions(on_progress: Callable[[int, int], None], layers: int) -> InterceptCalls:
    """Return a context in which each torch call reports how many of ``layers`` have attended.

    An exception from ``on_progress`` ends the run.
    """
    done = 0

    def handle(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        nonlocal done
        on_progress(done, layers)
        done += func in ATTENDS
        return func(*args, **kwargs)

    return InterceptCalls(handle)
