"""Position encodings: a table added to the embeddings, or a rotation of q and k."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import ModelConfig


def sinusoidal_table(positions: int, width: int, halves: bool = False) -> Tensor:
    """Return sines and cosines of growing wavelength, ``[position, dimension]`` float32.

    ``sin(pos / 10000^(2i/width))`` in even and the cosine in odd columns (Vaswani et al. 2017,
    section 3.5). With ``halves`` all sines are left of all cosines.
    """
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    if halves:
        return torch.cat((angle.sin(), angle.cos()), dim=1)[:, :width].float()
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1)[:, :width].float()


def places(x: Tensor, before: Tensor) -> Tensor:
    """Return the position of each token in its text, int64 ``[batch, token]``.

    ``x`` is ``[batch, token, d_model]``. The ``before`` ``[batch]`` columns before each text get
    the first position.
    """
    return (torch.arange(x.shape[1], device=x.device) - before[:, None]).clamp(min=0)


class SinusoidalPositions(nn.Module):
    """Adds the fixed table of sines and cosines to ``[batch, token, d_model]``."""

    table: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        halves = config.positions == "sinusoidal_halves"
        table = sinusoidal_table(config.max_positions, config.d_model, halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        return x + (self.table[: x.shape[1]] if before is None else self.table[places(x, before)])


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position to ``[batch, token, d_model]``."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.table = nn.Embedding(config.max_positions, config.d_model)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        counted = torch.arange(x.shape[1], device=x.device)
        return x + self.table(counted if before is None else places(x, before))


class Rotary(nn.Module):
    """Rotates each pair of dimensions of q and k by an angle that grows with the position.

    Su et al., "RoFormer" (2021), section 3.2.2; dimension i is paired with i + d/2. Input and
    output are ``[batch, head, token, d_k]``. ``first`` is the position of the first token, minus
    the columns ``before`` the text of each row.
    """

    frequency: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        exponent = torch.arange(0, config.d_k, 2, dtype=torch.float32) / config.d_k
        self.register_buffer("frequency", 10000.0**-exponent, persistent=False)

    def forward(self, x: Tensor, first: int = 0, before: Tensor | None = None) -> Tensor:
        last = first + x.shape[2]
        position = torch.arange(first, last, device=x.device, dtype=self.frequency.dtype)
        if before is not None:
            position = position - before[:, None, None]  # [B, 1, token]
        angle = position[..., None] * self.frequency  # [token, d/2]
        cos, sin = angle.cos(), angle.sin()
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def make_positions(config: ModelConfig) -> nn.Module | None:
    """Return the module that adds ``config.positions`` to embeddings; None for rotary and none."""
    if config.positions in ("sinusoidal", "sinusoidal_halves"):
        return SinusoidalPositions(config)
    return LearnedPositions(config) if config.positions == "learned" else None
