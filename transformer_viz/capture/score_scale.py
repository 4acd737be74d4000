"""Factor of the product of query and key before the softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from . import torch_calls
from .roles import Scores
from .torch_calls import Args, Kwargs


def multiplied(role: Scores, x: Tensor, func: Any, args: Args, kwargs: Kwargs) -> Scores:
    """Return scores after a call on ``x``: factor and bias are kept while one number suffices."""
    if func in torch_calls.SPARE or role.factor is None:
        return role
    if func in torch_calls.TANH:
        return replace(role, inner=role.factor, factor=1.0 if role.inner is None else None)
    number = other(x, args, kwargs)
    if number is None or func not in torch_calls.MULTIPLY | torch_calls.DIVIDE:
        return replace(role, factor=None)
    if func in torch_calls.DIVIDE:
        if not args or args[0] is not x:  # a number divided by scores
            return replace(role, factor=None)
        number = 1 / number
    bias = None if role.bias is None else role.bias * number  # Falcon adds ALiBi before it scales
    return replace(role, factor=role.factor * number, bias=bias)


def other(x: Tensor, args: Args, kwargs: Kwargs) -> Any:
    """Return the other operand of a product or quotient, if it is (or holds) one number."""
    found = [value for value in (*args, *kwargs.values()) if value is not x]
    if len(found) != 1:  # x times itself, or a rounding mode
        return None
    (value,) = found
    if isinstance(value, Tensor):
        return value.detach().double() if value.numel() == 1 else None
    return value if isinstance(value, int | float) else None


def scale_of(role: Scores) -> tuple[float | None, float | None]:
    """Return the total factor of q·k, and the bound of a tanh in between, if there is one."""
    if role.factor is None:
        return None, None
    if role.inner is None:
        return float(role.factor), None
    return float(role.factor * role.inner), float(role.factor)
