"""Tables of sines and cosines that a model stores: the angles behind their rows, read back.

A model that keeps its rotary waves in a buffer never computes them while it runs, so their angles
are found by behaviour: row 0 of such a table holds only zeros and ones, row 1 tells each column's
frequency, and every other row must agree with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..torch_calls import PLAIN

SINE, COSINE, POLAR = 0, 1, 2
CLOSE = 1e-2


def stored(kept: list[Tensor]) -> dict[int, Tensor]:
    """The wave tables among a model's tensors, by identity: complex, angle + i times the kind."""
    tables = {id(x): x for x in kept if x.dim() > 1 and type(x) in PLAIN}
    found = {number: first_guess(x) for number, x in tables.items()}
    sines = [kind_and_step for kind_and_step in found.values() if kind_and_step is not None]
    known = torch.cat([step[kind != COSINE].flatten() for kind, step in sines]) if sines else None
    waves: dict[int, Tensor | None] = {}
    for number, guess in found.items():
        if guess is not None and known is not None:
            x = tables[number]
            # encoder and decoder often have a table each, with the same numbers
            same = (n for n in waves if tables[n].shape == x.shape and tables[n].dtype == x.dtype)
            twin = next((n for n in same if torch.equal(tables[n], x)), None)
            waves[number] = confirmed(x, *guess, known) if twin is None else waves[twin]
    return {number: wave for number, wave in waves.items() if wave is not None}


def first_guess(x: Tensor) -> tuple[Tensor, Tensor] | None:
    """Kind and frequency of each column, ``[column]`` each, from the first two rows."""
    corner = abs(x[(0,) * x.dim()].item()) if x.numel() and not x.is_meta else 2.0
    if min(corner, abs(corner - 1)) > CLOSE:  # soon told of most weights
        return None
    rows = x.squeeze()
    if rows.dim() != 2 or rows.shape[0] < 3 or not (x.is_floating_point() or x.is_complex()):
        return None
    if x.is_complex():
        kind = torch.full(rows.shape[1:], POLAR, device=x.device)
        return (kind, rows[1].angle()) if bool((rows[0] - 1).abs().max() < CLOSE) else None
    first, second = rows[0].float(), rows[1].float().clamp(-1, 1)
    kind = (first > 0.5).long()
    step = torch.where(kind == COSINE, second.acos(), second.asin())
    plain = bool(((first - kind).abs() < 1e-6).all()) and bool((rows[1] != rows[0]).any())
    return (kind, step) if plain else None


def confirmed(x: Tensor, kind: Tensor, step: Tensor, sines: Tensor) -> Tensor | None:
    """The angles of a table, in its own shape, if all of its rows agree with them.

    A cosine hardly tells a small frequency, so a known one of a sine is taken where one is near.
    """
    if sines.numel():
        nearest = sines[(step[:, None] - sines).abs().argmin(1)]
        step = torch.where((kind == COSINE) & ((nearest - step).abs() < CLOSE), nearest, step)
    rows = x.squeeze()
    angle = torch.arange(rows.shape[0], device=x.device)[:, None] * step
    if bool((step == 0).all()) or not bool(((drawn(kind, angle) - rows).abs() < CLOSE).all()):
        return None
    return torch.complex(angle.float(), kind.expand(angle.shape).float()).reshape(x.shape)


def drawn(kind: Tensor, angle: Tensor) -> Tensor:
    """The values of waves at some angles."""
    if bool((kind == POLAR).any()):
        return torch.polar(torch.ones_like(angle), angle)
    return torch.where(kind == COSINE, angle.cos(), angle.sin())
