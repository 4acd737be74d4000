"""Rows whose keys the model hides all: shown and edited as the model's own softmax has them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from transformer_viz.core.interventions import BlockKeys, Causal, Edit, Intervention, Temperature

T, H, WIDTH = 7, 2, 8
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)
LEFT, ROW, RIGHT = (torch.zeros(T, T, dtype=torch.bool) for _ in range(3))
LEFT[:, :2], ROW[3], RIGHT[:, 5:] = True, True, True
EDITS: list[Edit | None] = [
    None,
    Temperature(value=2.0),
    Temperature(value=0.25),
    BlockKeys(keys=(4, 6)),
    Causal(on=False),
]


class Masked(nn.Module):
    """One attention whose mask hides by a low number; ``edit`` is done by hand."""

    def __init__(self, style: str, low: float, other: Tensor):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.o = nn.Linear(H * WIDTH, 3 * H * WIDTH), nn.Linear(H * WIDTH, H * WIDTH)
        self.style, self.low, self.other = style, low, other

    def forward(self, x: Tensor, edit: Edit | None = None, by_hand: bool = False) -> Any:
        q, k, v = (
            y.unflatten(-1, (H, WIDTH)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1)
        )
        hidden = self.other if isinstance(edit, Causal) else self.other | LATER
        mask = torch.zeros(T, T, dtype=x.dtype).masked_fill(hidden, self.low)
        if self.style == "fused" and not by_hand:
            y = F.scaled_dot_product_attention(q * 2, k, v, mask)
            return self.o(y.transpose(1, 2).flatten(2))
        wide = torch.float32 if self.style == "fused" else x.dtype  # as the kernel reckons
        z = 2 * (q.to(wide) @ k.mT.to(wide)) * WIDTH**-0.5
        z = z.masked_fill(hidden, self.low) if self.style == "written" else z + mask
        if isinstance(edit, BlockKeys):
            unseen = (z > -1e3).any(-1, keepdim=True)
            z = z.index_fill(-1, torch.tensor(edit.keys), -torch.inf)
            unseen = unseen & ~(z > -1e3).any(-1, keepdim=True)
        if isinstance(edit, Temperature):
            z = z.double() / edit.value
        w = z.softmax(-1, dtype=torch.float64).nan_to_num()
        if isinstance(edit, BlockKeys):  # a row that the edit leaves with nothing
            w = w.masked_fill(unseen, 0.0)
        w = w.to(x.dtype)
        out = self.o((w @ v).transpose(1, 2).flatten(2))
        return (w, out) if by_hand else out


CLOSE = {torch.float32: 1e-5, torch.bfloat16: 0.02, torch.float16: 2e-3}


@pytest.mark.slow
def test_rows_that_hide_all_keys_obey_each_edit_as_the_softmax_does():
    others = (("left", LEFT), ("row", ROW), ("right", RIGHT))
    for dtype, close in CLOSE.items():
        lows = (torch.finfo(dtype).min, -1e4, -1e9 if dtype != torch.float16 else -6e4, -torch.inf)
        x = torch.randn(1, T, H * WIDTH, generator=torch.Generator().manual_seed(0)).to(dtype)
        styles = ("added", "written", "fused")
        for style, low, (name, other) in itertools.product(styles, lows, others):
            module = Masked(style, low, other).to(dtype).eval()
            for edit in EDITS:
                case = dtype, style, low, name, edit
                with torch.no_grad():
                    weights, out = module(x, edit, by_hand=True)
                    edits = Intervention(() if edit is None else (edit,))
                    with tv.probe(module, edits) as run:
                        got = module(x)
                assert len(run.attentions) == 1 and not run.unrecognised, case
                apart = (run.attentions[0].weights - weights).abs().max()
                assert float(apart) <= close, (*case, float(apart))
                assert float((got - out).abs().max()) <= 10 * close, case


def test_a_token_that_only_hidden_rows_could_see_is_said_to_be_unknown():
    other = torch.zeros(T, T, dtype=torch.bool)
    other[-1] = True
    for style in ("added", "fused"):
        module = Masked(style, torch.finfo(torch.float32).min, other).eval()
        with torch.no_grad(), tv.probe(module, Intervention((Causal(on=False),))) as run:
            module(torch.randn(1, T, H * WIDTH))
        assert ["cannot be told apart" in one for one in run.unrecognised] == [True], style
