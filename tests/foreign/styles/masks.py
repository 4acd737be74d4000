"""Masks: before and after the softmax, by every idiom; sinks; dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_viz.core.interventions import Causal, Intervention

from .. import oracle
from .base import HEADS, TOKENS, Attention, Block, Style, causal, style


def lower() -> Tensor:
    return torch.ones(TOKENS, TOKENS).tril()


@style()
class MaskFillInfinity(Block):
    """masked_fill(-inf) above the diagonal"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return causal(self.scores(q, k)).softmax(-1)


@style()
class MaskFillInPlace(Block):
    """masked_fill_(-1e9)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        scores.masked_fill_(lower() == 0, -1e9)
        return scores.softmax(-1)


@style()
class MaskWhere(Block):
    """torch.where(mask, scores, -1e9)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        return torch.where(lower().bool(), scores, torch.tensor(-1e9)).softmax(-1)


@style()
class MaskAdded(Block):
    """a triangle of -inf is added"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return (self.scores(q, k) + torch.full((TOKENS, TOKENS), -torch.inf).triu(1)).softmax(-1)


@style()
class MaskAddedLeast(Block):
    """the least float32 is added (Hugging Face)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        least = torch.finfo(torch.float32).min
        return F.softmax(self.scores(q, k) + (1 - lower()) * least, dim=-1)


@style()
class MaskProduct(Block):
    """GPT-2 of 2019: w * b - 1e10 * (1 - b)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        b = lower()
        return (self.scores(q, k) * b - 1e10 * (1 - b)).softmax(-1)


@style()
class MaskAssigned(Block):
    """scores[..., mask] = -inf"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        scores[..., lower() == 0] = -torch.inf
        return scores.softmax(-1)


@style()
class MaskBuffer(Block):
    """a registered buffer, cut to length (nanoGPT)"""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.ones(1, 1, 32, 32).tril())

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        bias = self.get_buffer("bias")[:, :, :TOKENS, :TOKENS]
        return self.scores(q, k).masked_fill(bias == 0, -torch.inf).softmax(-1)


def padded() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, 32), torch.arange(TOKENS) >= torch.tensor([[9], [6]])


@style(inputs=padded)
class MaskPadding(Block):
    """padding keys of the second item, -1e4 is added"""

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:  # type: ignore[override]
        q, k, v = self.qkv(x)
        w = (self.scores(q, k) + padding[:, None, None].float() * -1e4).softmax(-1)
        return x + self.wo(self.join(w @ v))


@style(inputs=padded)
class MaskPaddingSdpa(Block):
    """padding keys as a bool mask of SDPA"""

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:  # type: ignore[override]
        mask = ~padding[:, None, None]
        return x + self.wo(self.join(F.scaled_dot_product_attention(*self.qkv(x), attn_mask=mask)))


@style(Attention("bhqk", parts=9, join="q"), row="S4")
class MaskBySlicing(Block):
    """each query sees a slice of the keys, in a Python loop"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        rows = [
            self.weigh(q[:, :, i : i + 1], k[:, :, : i + 1]) @ v[:, :, : i + 1]
            for i in range(TOKENS)
        ]
        return self.join(torch.cat(rows, 2))


@style(row="S15")
class MaskAfter(Block):
    """the mask multiplies the weights, nothing is renormalised"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.tap("multiplied", self.scores(q, k).softmax(-1) * lower())


def lifts_the_mask(style: Style) -> str:
    """Whether “causal off” on a mask after the softmax acts, or is refused in own words."""
    module, inputs = oracle.fresh(style)
    edits = Intervention((Causal(on=False),))
    with torch.no_grad():
        clean = module(*inputs)
        try:
            with oracle.probe(module, edits):
                lifted = module(*inputs)
        except Exception as error:
            return "" if oracle.in_own_words(error) else repr(error)
    return "causal off is accepted and does nothing" if torch.equal(clean, lifted) else ""


@style(row="S15", check=lifts_the_mask)
class MaskRenormalised(Block):
    """the mask multiplies the weights, which are divided by their sum"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        w = self.scores(q, k).softmax(-1) * lower()
        return self.tap("multiplied", w / w.sum(-1, keepdim=True))


@style()
class WeightsRenormalised(Block):
    """weights divided by their sum plus a little, no mask"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        w = self.scores(q, k).softmax(-1) + 1e-8
        return self.tap("multiplied", w / w.sum(dim=-1, keepdim=True))


@style()
class WeightsNormalizeFunction(Block):
    """F.normalize(weights, p=1)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        w = self.scores(q, k).softmax(-1) * lower()
        return self.tap("multiplied", F.normalize(w, p=1.0, dim=-1))


@style()
class TopKeys(Block):
    """only the three largest scores stay"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        least = scores.topk(5, dim=-1).values[..., -1:]
        return scores.masked_fill(scores < least, -torch.inf).softmax(-1)


@style()
class LocalBand(Block):
    """a band of two to each side"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        steps = torch.arange(TOKENS)
        band = (steps[:, None] - steps).abs() <= 2
        return self.scores(q, k).masked_fill(~band, -torch.inf).softmax(-1)


@style()
class RowsEmptied(Block):
    """rows that the mask empties are set to zero by nan_to_num"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        mask = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
        mask[4] = True
        w = scores.masked_fill(mask, -torch.inf).softmax(-1)
        return self.tap("multiplied", w.nan_to_num(0.0))


@style(Attention("bhqk", sinks=1))
class SinkColumn(Block):
    """a learned sink beside the scores, dropped after the softmax (gpt-oss)"""

    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(HEADS))

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        sinks = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]


@style(row="S5")
class ZeroKey(Block):
    """a key and a value of zeros are appended (add_zero_attn)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(w(x)) for w in (self.wq, self.wk, self.wv))
        k, v = (torch.cat([y, torch.zeros(2, HEADS, 1, 8)], 2) for y in (k, v))
        return self.join(self.weigh(q, k) @ v)


@style()
class DropoutInside(Block):
    """dropout on the weights, in evaluation"""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.drop(self.scores(q, k).softmax(dim=-1))


@style()
class DropoutOfKeys(Block):
    """DropKey: scores lose keys at random, in evaluation too"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        return (scores + torch.bernoulli(torch.full_like(scores, 0.1)) * -1e12).softmax(-1)


@style()
class ClampedScores(Block):
    """scores minus their largest, clamped"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.scores(q, k)
        scores = scores - scores.amax(-1, keepdim=True).detach()
        return scores.clamp(min=-50).softmax(-1)
