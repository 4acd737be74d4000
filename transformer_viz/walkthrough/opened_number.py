"""Selected number of a walkthrough, and helpers to write its sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ..checkpoints.common.model import Model
from ..core.stages import Number, Stage, Terms, Walkthrough
from ..core.trace_parts import read_only
from ..inference.capture_to_numpy import to_numpy
from ..model import Transformer
from .layer_run import parts_of, stack_of


@dataclass(frozen=True, eq=False)
class Opened:
    """A selected number: its stage, its index, and the model."""

    model: Model
    inside: Walkthrough
    stage: Stage
    number: Number

    @property
    def total(self) -> float:
        return self.inside.value(self.number)

    @property
    def at(self) -> int:
        """Last index."""
        return self.number.index[-1]

    def value(self, array: str) -> float:
        """Return the number of another array of this stage at the same index."""
        return float(self.stage[array][self.number.index])

    def of(self, name: str) -> float:
        return self.stage.numbers[name]

    @property
    def part(self) -> Any:
        """Module of the stage's block."""
        module = self.model.module
        assert isinstance(module, Transformer)
        layer = stack_of(module, self.inside.site).layers[self.inside.site.layer]
        return next(part.module for part in parts_of(layer) if part.name == self.stage.block)

    def sum(
        self,
        a: Any,
        b: Any,
        names: tuple[str, str],
        axis: str,
        bias: float | None = None,
        divisor: float = 1.0,
        then: str = "",
        labels: tuple[str, ...] = (),
    ) -> Terms:
        arrays = (read_only(np.array(x, dtype=np.float32)) for x in (a, b))
        first, second = np.broadcast_arrays(*arrays)
        return Terms(
            self.number, first, second, self.total, *names, axis, bias, divisor, then, labels
        )

    def alone(self, array: str, divisor: float = 1.0, then: str = "") -> Terms:
        """Return the sum of a single number of this stage, divided."""
        return self.sum(
            [self.value(array)], [1], (array, ""), "parts", None, divisor, then, (array,)
        )

    def added(self, *arrays: str) -> Terms:
        """Return the sum of several arrays' numbers at the same index."""
        values = [self.value(array) for array in arrays]
        return self.sum(values, 1, ("", ""), "parts", labels=arrays)

    def linear(
        self, a: np.ndarray, name: str, module: nn.Linear, row: int, axis: str, then: str = ""
    ) -> Terms:
        """Return the sum of one output of a linear layer."""
        bias = None if module.bias is None else module.bias[row].item()
        return self.sum(a, to_numpy(module.weight[row]), (name, "W"), axis, bias, then=then)
