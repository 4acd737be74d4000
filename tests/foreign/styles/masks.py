"""Masks: before and after the softmax, by every idiom; sinks; dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_viz.core.interventions import Causal, Intervention

from .. import oracle
from .base import HEADS, TOKENS, Attention, Block, Style, causal, options, sdpa, variants, ways


def lower() -> Tensor:
    return torch.ones(TOKENS, TOKENS).tril()


LEAST = torch.finfo(torch.float32).min


def padded() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, 32), torch.arange(TOKENS) >= torch.tensor([[9], [6]])


def lifts_the_mask(style: Style) -> str:
    """Say if “causal off” on a mask after the softmax is accepted and does nothing."""
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


variants("soft", {
    "mask_fill_infinity": ("masked_fill(-inf) above the diagonal",
                           lambda self, s: causal(s).softmax(-1)),
    "mask_where": ("torch.where(mask, scores, -1e9)",
                   lambda self, s: torch.where(lower().bool(), s, torch.tensor(-1e9)).softmax(-1)),
    "mask_added": ("a triangle of -inf is added",
                   lambda self, s: (s + torch.full((9, 9), -torch.inf).triu(1)).softmax(-1)),
    "mask_added_least": ("the least float32 is added (Hugging Face)",
                         lambda self, s: F.softmax(s + (1 - lower()) * LEAST, dim=-1)),
})  # fmt: skip


@ways("soft")
class Before:
    """Weights of scores that are masked first, or only in their rows."""

    def mask_fill_in_place(self, s):
        """masked_fill_(-1e9)"""
        s.masked_fill_(lower() == 0, -1e9)
        return s.softmax(-1)

    def mask_product(self, s):
        """GPT-2 of 2019: w * b - 1e10 * (1 - b)"""
        b = lower()
        return (s * b - 1e10 * (1 - b)).softmax(-1)

    def mask_assigned(self, s):
        """scores[..., mask] = -inf"""
        s[..., lower() == 0] = -torch.inf
        return s.softmax(-1)

    def top_keys(self, s):
        """only the five largest scores stay"""
        least = s.topk(5, dim=-1).values[..., -1:]
        return s.masked_fill(s < least, -torch.inf).softmax(-1)

    def local_band(self, s):
        """a band of two to each side"""
        steps = torch.arange(TOKENS)
        band = (steps[:, None] - steps).abs() <= 2
        return s.masked_fill(~band, -torch.inf).softmax(-1)

    def rows_emptied(self, s):
        """rows that the mask empties are set to zero by nan_to_num"""
        mask = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
        mask[4] = True
        w = s.masked_fill(mask, -torch.inf).softmax(-1)
        return self.tap("multiplied", w.nan_to_num(0.0))

    @options(Attention("bhqk", sinks=1), parts=lambda: {"sinks": nn.Parameter(torch.randn(HEADS))})
    def sink_column(self, s):
        """a learned sink beside the scores, dropped after the softmax (gpt-oss)"""
        sinks = self.sinks.view(1, -1, 1, 1).expand(*s.shape[:3], 1)
        return torch.cat([s, sinks], -1).softmax(-1)[..., :-1]

    def dropout_of_keys(self, s):
        """DropKey: scores lose keys at random, in evaluation too"""
        return (s + torch.bernoulli(torch.full_like(s, 0.1)) * -1e12).softmax(-1)

    def clamped_scores(self, s):
        """scores minus their largest, clamped"""
        s = s - s.amax(-1, keepdim=True).detach()
        return s.clamp(min=-50).softmax(-1)


@ways("soft")
class After:
    """Weights that are changed after the softmax."""

    @options(row="S15")
    def mask_after(self, s):
        """the mask multiplies the weights, nothing is renormalised"""
        return self.tap("multiplied", s.softmax(-1) * lower())

    @options(row="S15", check=lifts_the_mask)
    def mask_renormalised(self, s):
        """the mask multiplies the weights, which are divided by their sum"""
        w = s.softmax(-1) * lower()
        return self.tap("multiplied", w / w.sum(-1, keepdim=True))

    def weights_renormalised(self, s):
        """weights divided by their sum plus a little, no mask"""
        w = s.softmax(-1) + 1e-8
        return self.tap("multiplied", w / w.sum(dim=-1, keepdim=True))

    def weights_normalize_function(self, s):
        """F.normalize(weights, p=1)"""
        return self.tap("multiplied", F.normalize(s.softmax(-1) * lower(), p=1.0, dim=-1))

    @options(parts=lambda: {"drop": nn.Dropout(0.3)})
    def dropout_inside(self, s):
        """dropout on the weights, in evaluation"""
        return self.drop(s.softmax(dim=-1))


class Buffered(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.ones(1, 1, 32, 32).tril())


@ways("soft", Buffered)
class OfABuffer:
    def mask_buffer(self, s):
        """a registered buffer, cut to length (nanoGPT)"""
        bias = self.bias[:, :, :TOKENS, :TOKENS]
        return s.masked_fill(bias == 0, -torch.inf).softmax(-1)


@ways("forward")
class Padding:
    @options(inputs=padded)
    def mask_padding(self, x, padding):
        """padding keys of the second item, -1e4 is added"""
        q, k, v = self.qkv(x)
        w = (self.scores(q, k) + padding[:, None, None].float() * -1e4).softmax(-1)
        return x + self.wo(self.join(w @ v))

    @options(inputs=padded)
    def mask_padding_sdpa(self, x, padding):
        """padding keys as a bool mask of SDPA"""
        return x + self.wo(self.join(sdpa(*self.qkv(x), attn_mask=~padding[:, None, None])))


@ways("combine")
class Slices:
    @options(Attention("bhqk", parts=9, join="q"), row="S4")
    def mask_by_slicing(self, q, k, v):
        """each query sees a slice of the keys, in a Python loop"""
        rows = [
            self.weigh(q[:, :, i : i + 1], k[:, :, : i + 1]) @ v[:, :, : i + 1]
            for i in range(TOKENS)
        ]
        return torch.cat(rows, 2)

    @options(row="S5")
    def zero_key(self, q, k, v):
        """a key and a value of zeros are appended (add_zero_attn)"""
        k, v = (torch.cat([y, torch.zeros(2, HEADS, 1, 8)], 2) for y in (k, v))
        return self.weigh(q, k) @ v
