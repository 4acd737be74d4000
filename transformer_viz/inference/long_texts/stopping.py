"""A run that says how far it is and may be stopped at any of its torch calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention, softmax
from torch.overrides import TorchFunctionMode

ATTENDS = (torch.softmax, torch.Tensor.softmax, softmax, scaled_dot_product_attention)


class Stoppable(TorchFunctionMode):
    """Inside, each torch call of this thread tells how many layers of how many have attended.

    Args:
        tell: hears it; whatever it raises ends the run.
        layers: how many attentions the run has.
    """

    def __init__(self, tell: Callable[[int, int], None], layers: int) -> None:
        super().__init__()
        self.tell = tell
        self.layers = layers
        self.done = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.tell(self.done, self.layers)
        self.done += func in ATTENDS
        return func(*args, **(kwargs or {}))
