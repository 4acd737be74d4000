"""Half precision, float64, autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import TOKENS, WIDTH, Block, style

HALF = 2e-2  # relative; two neighbours in bfloat16 are up to 8e-3 apart, in float16 an eighth
SHOWN = 1e-4  # weights are shown in float32, whatever the model rounds to


def bf16() -> tuple[Tensor]:
    return (torch.randn(2, TOKENS, WIDTH).bfloat16(),)


class Fused(Block):
    """Sharp logits over SDPA."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.wq.weight *= 2

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x)))


@style(inputs=bf16, tolerance=HALF)
def bfloat_eager() -> nn.Module:
    """bfloat16, eager"""
    return Block().bfloat16()


@style(inputs=bf16, tolerance=HALF, exact=SHOWN, row="S13")
def bfloat_sdpa() -> nn.Module:
    """bfloat16 over SDPA"""
    return Fused().bfloat16()


@style(inputs=lambda: (bf16()[0].half(),), tolerance=HALF / 8, exact=SHOWN, row="S13")
def half_sdpa() -> nn.Module:
    """float16 over SDPA"""
    return Fused().half()


def autocast() -> AbstractContextManager[None]:
    return torch.autocast("cpu", torch.bfloat16)


@style(around=autocast, tolerance=HALF)
def autocast_eager() -> nn.Module:
    """autocast to bfloat16, eager"""
    return Block()


@style(around=autocast, tolerance=HALF, exact=SHOWN, row="S13")
def autocast_sdpa() -> nn.Module:
    """autocast to bfloat16 over SDPA"""
    return Fused()


def doubles() -> tuple[Tensor]:
    return (torch.randn(2, TOKENS, WIDTH, dtype=torch.float64),)


@style(inputs=doubles, tolerance=1e-12, row="smaller")
def float64_eager() -> nn.Module:
    """float64: edited in float64"""
    return Block().double()


@style(inputs=doubles, tolerance=1e-12, row="smaller")
def float64_sdpa() -> nn.Module:
    """float64 over SDPA"""
    return Fused().double()


@style(inputs=bf16, tolerance=HALF)
class Upcast(Block):
    """bfloat16, softmax in float32 (Llama)"""

    def __init__(self) -> None:
        super().__init__()
        self.bfloat16()

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        w = F.softmax(self.scores(q, k), dim=-1, dtype=torch.float32)
        return self.tap("multiplied", w.to(q.dtype))
