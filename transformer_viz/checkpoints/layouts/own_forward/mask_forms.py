"""Forms of a mask in foreign modules: axes, and the values that mean "visible"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: Axes of a mask, computed from visibility ``[batch, query, key]``. Forms without queries use the
#: last query, which sees every token that any query may see.
AXES: dict[str, Callable[[Tensor], Tensor]] = {
    "batch, key": lambda v: v[:, -1],
    "batch, 1, key": lambda v: v[:, -1:],
    "batch, 1, 1, key": lambda v: v[:, None, -1:],
    "batch, query, key": lambda v: v,
    "batch, 1, query, key": lambda v: v[:, None],
    "query, key": lambda v: v[0],
    "query, key, batch": lambda v: v.permute(1, 2, 0),
    "key, batch": lambda v: v[:, -1].T,
}
FULL = tuple(axes for axes in AXES if "query" in axes)
KEYS = tuple(axes for axes in AXES if "query" not in axes)
#: Values of a mask, computed from visibility and the module's type of number.
VALUES: dict[str, Callable[[Tensor, torch.dtype], Tensor]] = {
    "visible": lambda v, _: v,
    "hidden": lambda v, _: ~v,
    "ones": lambda v, _: v.long(),
    "additive": lambda v, dtype: torch.zeros(v.shape, dtype=dtype, device=v.device).masked_fill(
        ~v, -torch.inf
    ),
    "float ones": lambda v, dtype: v.to(dtype),
}
MEANINGS = {
    "visible": "true where a token is visible",
    "hidden": "true where a token is hidden",
    "ones": "1 where a token is visible",
    "additive": "-inf where a token is hidden, else 0",
    "float ones": "1.0 where a token is visible",
}


@dataclass(frozen=True)
class Form:
    """Axes and values of a mask; keys of `AXES` and `VALUES`."""

    axes: str
    values: str

    def build(self, visible: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the mask of visibility ``[batch, query, key]``."""
        return VALUES[self.values](AXES[self.axes](visible), dtype)

    def __str__(self) -> str:
        return f"[{self.axes}], {MEANINGS[self.values]}"
