"""Logits in the return value of any module, arranged as ``[batch, token, ...]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

NAMED = ("logits", "prediction_logits", "last_hidden_state")


def first_tensor(output: Any) -> Tensor:
    """Return the logits of a module's output, or else its first tensor that is no single number.

    ``start_logits`` and ``end_logits`` are stacked to ``[batch, 2, token]``.

    Raises:
        ValueError: There is none; names the type of the output.
    """
    if isinstance(output, Tensor):
        return output
    for name in NAMED:
        if isinstance(part := _named_part(output, name), Tensor):
            return part
    ends = [_named_part(output, f"{end}_logits") for end in ("start", "end")]
    if all(isinstance(end, Tensor) for end in ends):
        return torch.stack(ends, 1)  # [batch, 2, token]
    if isinstance(output, Mapping):
        parts = list(output.values())
    else:
        parts = list(output if isinstance(output, list | tuple) else vars_of(output).values())
    tensors = [part for part in parts if isinstance(part, Tensor)]
    for part in (*(tensor for tensor in tensors if tensor.dim()), *tensors):
        return part  # a loss is a single number
    raise ValueError(
        f"The module gave a {type(output).__name__} without a tensor in it; wrap it in a module "
        "whose forward returns one."
    )


def vars_of(output: Any) -> Mapping[str, Any]:
    """Return the fields of an object."""
    return getattr(output, "__dict__", {})


def _named_part(output: Any, name: str) -> Any:
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def arrangement_of(shape: tuple[int, ...], batch: int, rows: int) -> str:
    """Return the arrangement of an output, by its shape for this many texts and tokens.

    Returns:
        ``rows`` ``[batch, token, ...]``, ``tokens first``, ``classes second``
        ``[batch, class, token]``, ``spans`` ``[batch, 2, token]``, ``flat``
        ``[batch * token, ...]``, ``last`` ``[batch, 1, ...]``, ``one`` ``[batch]``, ``classes``
        ``[batch, class]``, ``numbers`` ``[batch, token]``, or an empty string.
    """
    if len(shape) == 3 and shape[:2] == (batch, rows):
        return "rows"
    if len(shape) == 3 and shape[:2] == (rows, batch):
        return "tokens first"
    if len(shape) == 3 and shape[0] == batch and shape[2] == rows:
        return "spans" if shape[1] == 2 else "classes second"
    if len(shape) == 3 and shape[:2] == (batch, 1):
        return "last"
    if shape == (batch, rows):
        return "numbers"
    if len(shape) == 2 and shape[0] == batch:
        return "classes"
    if len(shape) == 2 and shape[0] == batch * rows:
        return "flat"
    return "one" if shape in ((batch,), ()) else ""


def arrange(output: Tensor, arrangement: str, batch: int) -> Tensor:
    """Return an output as ``[batch, token, ...]`` or ``[batch, class]``."""
    if arrangement == "tokens first":
        return output.transpose(0, 1)
    if arrangement == "classes second":
        return output.transpose(1, 2)
    if arrangement == "flat":
        return output.unflatten(0, (batch, -1))
    if arrangement == "last" and output.dim() == 2:
        return output[:, None]
    return output.reshape(-1, 1) if output.dim() < 2 else output
