"""The axes of scores: heads first, merged, grouped, in windows, without a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, TOKENS, WIDTH, Attention, Block, style


@style()
class Plain(Block):
    """softmax(q @ k) @ v"""


@style()
class Sdpa(Block):
    """F.scaled_dot_product_attention"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x)))


@style()
class SdpaCausal(Block):
    """the same with is_causal"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x), is_causal=True))


@style(Attention("w(bh)qk"), row="S9")
class SdpaMerged(Block):
    """the kernel over [1, batch x heads, token, width]"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.reshape(1, -1, TOKENS, 8) for y in self.qkv(x))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.join(out.view(-1, HEADS, TOKENS, 8))


class Torch(nn.Module):
    """nn.MultiheadAttention"""

    weights = False

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        with torch.no_grad():
            self.attention.in_proj_weight *= 2

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(x, x, x, need_weights=self.weights)[0]


@style(grad=True, project="=attention.out_proj")
class TorchModule(Torch):
    """nn.MultiheadAttention, need_weights=False"""


@style(Attention("(bh)qk"), grad=True, project="=attention.out_proj")
class TorchModuleWeights(Torch):
    """nn.MultiheadAttention that gives its weights"""

    weights = True


@style()
class EinsumInto(Block):
    """einsum of q [b, t, h, d] and k [b, s, h, d] into bhqk, and back"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(1, 2) for y in self.qkv(x))
        w = torch.einsum("bqhd,bkhd->bhqk", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", w, v).flatten(2)


@style(Attention("hbqk"), row="S9")
class EinsumHeadsFirst(Block):
    """einsum with heads first"""

    def attend(self, x: Tensor) -> Tensor:
        w = torch.einsum("bhid,bhjd->hbij", *self.qkv(x)[:2]).div(8**0.5).softmax(-1)
        return self.join(torch.einsum("hbij,bhjd->bhid", w, self.qkv(x)[2]))


@style(Attention("(bh)qk"), row="S2")
class EinsumBatchHeads(Block):
    """einsum "b i d, b j d -> b i j" over (batch head)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.reshape(-1, TOKENS, 8) for y in self.qkv(x))
        w = torch.einsum("b i d, b j d -> b i j", q, k).mul(8**-0.5).softmax(-1)
        out = torch.einsum("b i j, b j d -> b i d", w, v)
        return self.join(out.view(-1, HEADS, TOKENS, 8))


@style(Attention("(hb)qk"), row="S2")
class EinsumHeadsBatch(Block):
    """the same with the heads before the batch in the merged axis"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(0, 1).reshape(-1, TOKENS, 8) for y in self.qkv(x))
        w = torch.einsum("bid,bjd->bij", q, k).mul(8**-0.5).softmax(-1)
        out = torch.einsum("bij,bjd->bid", w, v)
        return self.join(out.view(HEADS, -1, TOKENS, 8).transpose(0, 1))


@style(Attention("(bh)qk"))
class BmmBatchHeads(Block):
    """bmm over (batch head), as fairseq has it"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.reshape(-1, TOKENS, 8) for y in self.qkv(x))
        w = F.softmax(torch.bmm(q, k.transpose(1, 2)) / 8**0.5, dim=-1)
        return self.join(torch.bmm(w, v).view(-1, HEADS, TOKENS, 8))


@style(Attention("(hb)qk"), row="S9")
class BmmChunkCat(Block):
    """torch.cat(q.chunk(heads, -1), 0): head-major, as in ports of SASRec"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat(w(x).chunk(HEADS, -1), 0) for w in (self.wq, self.wk, self.wv))
        w = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 8**0.5, -1)
        return torch.cat(torch.bmm(w, v).chunk(HEADS, 0), -1)


@style(Attention("(hb)qk"), row="S9")
class BmmPermuteView(Block):
    """permute(2, 0, 1, 3).view(-1, t, d): the head-major merge of the annotated papers of 2018"""

    def attend(self, x: Tensor) -> Tensor:
        def merge(y: Tensor) -> Tensor:
            return y.view(-1, TOKENS, HEADS, 8).permute(2, 0, 1, 3).contiguous().view(-1, TOKENS, 8)

        q, k, v = merge(self.wq(x)), merge(self.wk(x)), merge(self.wv(x))
        w = (torch.bmm(q, k.transpose(1, 2)) / 8**0.5).softmax(2)
        out = torch.bmm(w, v).view(HEADS, -1, TOKENS, 8)
        return out.permute(1, 2, 0, 3).contiguous().view(-1, TOKENS, WIDTH)


@style(row="S6")
class EinsumEllipsis(Block):
    """flax: "...qhd,...khd->...hqk" """

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(1, 2) for y in self.qkv(x))
        w = torch.einsum("...qhd,...khd->...hqk", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("...hqk,...khd->...qhd", w, v).flatten(2)


@style(Attention("bqhk"))
class EinsumQueriesFirst(Block):
    """scores [batch, query, head, key]"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(1, 2) for y in self.qkv(x))
        w = torch.einsum("bqhd,bkhd->bqhk", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("bqhk,bkhd->bqhd", w, v).flatten(2)


@style(Attention("bqkh"))
class EinsumHeadsLast(Block):
    """scores [batch, query, key, head], softmax over dimension 2"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(1, 2) for y in self.qkv(x))
        w = torch.einsum("bqhd,bkhd->bqkh", q, k).div(8**0.5).softmax(2)
        return torch.einsum("bqkh,bkhd->bqhd", w, v).flatten(2)


@style(Attention("qkbh"))
class EinsumTimeFirst(Block):
    """labml: [query, key, batch, head], softmax over dimension 1"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.permute(2, 0, 1, 3) for y in self.qkv(x))
        w = torch.einsum("ibhd,jbhd->ijbh", q, k).div(8**0.5).softmax(1)
        return torch.einsum("ijbh,jbhd->ibhd", w, v).flatten(2).transpose(0, 1)


@style(Attention("bhkq"))
class TransposedScores(Block):
    """k @ q^T, softmax over the last but one"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        w = (k @ q.mT / 8**0.5).softmax(-2)
        return self.join(w.mT @ v)


@style(Attention("bhkq"))
class EinsumKeysFirst(Block):
    """einsum into [batch, head, key, query], softmax over the keys"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        w = torch.einsum("bhqd,bhkd->bhkq", q, k).div(8**0.5).softmax(dim=2)
        return self.join(torch.einsum("bhkq,bhkd->bhqd", w, v))


@style()
class EinsumSublist(Block):
    """einsum with lists of numbers for letters"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        w = torch.einsum(q, [0, 1, 2, 4], k, [0, 1, 3, 4], [0, 1, 2, 3]).div(8**0.5).softmax(-1)
        return self.join(torch.einsum(w, [0, 1, 2, 3], v, [0, 1, 3, 4], [0, 1, 2, 4]))


def silence_parameter(module: nn.Module, head: int) -> None:
    """Zero one head of an output projection ``[head, width of a head, width]``."""
    module.out.data[head] = 0  # type: ignore[union-attr,operator]


@style(row="S6", project=silence_parameter)
class EinsumOutput(Block):
    """one einsum of weights, values and the output projection"""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Parameter(torch.randn(HEADS, 8, WIDTH) / 6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        w = self.scores(q, k).softmax(-1)
        return x + torch.einsum("bhqk,bhkd,hdo->bqo", w, v, self.out)


@style(row="S6")
class BroadcastValues(Block):
    """weights x values by broadcasting: (w[..., None] * v[..., None, :, :]).sum(-2)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        w = self.scores(q, k).softmax(-1)
        return self.join((w[..., None] * v[:, :, None]).sum(-2))


@style()
class BroadcastScores(Block):
    """q x k by broadcasting and a sum over the width"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q[:, :, :, None] * k[:, :, None]).sum(-1) / 8**0.5


@style(row="S6")
class MatmulOut(Block):
    """torch.matmul(weights, v, out=buffer)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        out = torch.empty_like(v)
        torch.matmul(self.scores(q, k).softmax(-1), v, out=out)
        return self.join(out)


@style(Attention("(bh)qk"))
class Baddbmm(Block):
    """baddbmm with alpha, as diffusers has it"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (y.reshape(-1, TOKENS, 8) for y in self.qkv(x))
        empty = torch.empty(len(q), TOKENS, TOKENS)
        w = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=8**-0.5).softmax(-1)
        return self.join(torch.bmm(w, v).view(-1, HEADS, TOKENS, 8))


@style(Attention("bwhqk"), row="S11")
class Windows(Block):
    """windows in an axis of their own: [batch, window, head, 3, 3]"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (
            w(x).view(-1, 3, 3, HEADS, 8).transpose(2, 3) for w in (self.wq, self.wk, self.wv)
        )
        w = (q @ k.mT / 8**0.5).softmax(-1)
        return (w @ v).transpose(2, 3).reshape(x.shape)


@style()
class WindowsInBatch(Block):
    """windows in the batch, as Swin has it"""

    def attend(self, x: Tensor) -> Tensor:
        return super().attend(x.reshape(-1, 3, WIDTH)).view(x.shape)


@style(Attention("hbwqk"), row="S9")
class RowsHeadsFirst(Block):
    """axial attention with heads first: [head, batch, row, query, key], as the MSA Transformer"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).view(-1, 3, 3, HEADS, 8) for w in (self.wq, self.wk, self.wv))
        w = torch.einsum("brihd,brjhd->hbrij", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("hbrij,brjhd->brihd", w, v).reshape(x.shape)


def one_item() -> tuple[Tensor]:
    return (torch.randn(TOKENS, WIDTH),)


@style(Attention("qk", heads=1), inputs=one_item, project=None, head=0, row="section 3")
class UnbatchedOneHead(Block):
    """a tutorial's first attention: [token, token], no batch, no heads"""

    def attend(self, x: Tensor) -> Tensor:
        return self.weigh(self.wq(x), self.wk(x)) @ self.wv(x)


@style(Attention("hqk"), inputs=one_item)
class UnbatchedHeads(Block):
    """no batch: [head, query, key]"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).view(TOKENS, HEADS, 8).transpose(0, 1) for w in (self.wq, self.wk, self.wv))
        return (self.weigh(q, k) @ v).transpose(0, 1).reshape(TOKENS, WIDTH)


@style(Attention("hqk"), inputs=one_item, row="section 3")
class UnbatchedEinsum(Block):
    """no batch, einsum "qhd,khd->hqk" """

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).view(TOKENS, HEADS, 8) for w in (self.wq, self.wk, self.wv))
        w = torch.einsum("qhd,khd->hqk", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("hqk,khd->qhd", w, v).flatten(1)


@style(Attention("bqk", heads=1), project=None, head=0)
class OneHead(Block):
    """one head, never split: [batch, query, key]"""

    def attend(self, x: Tensor) -> Tensor:
        return self.weigh(self.wq(x), self.wk(x)) @ self.wv(x)


@style(inputs=lambda: (torch.randn(TOKENS, 2, WIDTH),))
class TimeFirst(Block):
    """input [token, batch, width]"""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wo(self.attend(x.transpose(0, 1))).transpose(0, 1)


@style(inputs=lambda: (torch.randn(2, WIDTH, TOKENS),), project="wo")
class ChannelsFirst(nn.Module):
    """projections by Conv1d on [batch, channel, token]"""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv1d(WIDTH, 3 * WIDTH, 1)
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).mul(2).view(len(x), 3, HEADS, 8, -1).unbind(1)
        w = torch.einsum("bhcq,bhck->bhqk", q, k).div(8**0.5).softmax(-1)
        out = torch.einsum("bhqk,bhck->bhcq", w, v).reshape(x.shape)
        return x + self.wo(out.mT).mT
