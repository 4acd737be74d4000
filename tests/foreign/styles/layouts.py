"""The axes of scores: heads first, merged, grouped, in windows, without a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import base
from .base import HEADS, TOKENS, WIDTH, Attention, Block, Module, enter, options, sdpa, style, ways

MERGED, HEAD_MAJOR = Attention("(bh)qk"), Attention("(hb)qk")

for name, about, methods in (
    ("plain", "softmax(q @ k) @ v", {}),
    ("sdpa", "F.scaled_dot_product_attention", {"combine": lambda self, *qkv: sdpa(*qkv)}),
    ("sdpa_causal", "the same with is_causal",
     {"combine": lambda self, *qkv: sdpa(*qkv, is_causal=True)}),
    ("broadcast_scores", "q x k by broadcasting and a sum over the width",
     {"scores": lambda self, q, k: (q[:, :, :, None] * k[:, :, None]).sum(-1) / 8**0.5}),
    ("windows_in_batch", "windows in the batch, as Swin has it",
     {"attend": lambda self, x: Block.attend(self, x.reshape(-1, 3, WIDTH)).view(x.shape)}),
):  # fmt: skip
    enter(name, about, Block.of(**methods))


def silence_parameter(module: nn.Module, head: int) -> None:
    """Zero one head of an output projection ``[head, width of a head, width]``."""
    module.out.data[head] = 0


@ways("combine")
class Products:
    """Scores and sums of values, of ``[batch, head, token, width]``."""

    @options(Attention("w(bh)qk"), row="S9")
    def sdpa_merged(self, *qkv):
        """the kernel over [1, batch x heads, token, width]"""
        out = sdpa(*(y.reshape(1, -1, TOKENS, 8) for y in qkv))
        return out.view(-1, HEADS, TOKENS, 8)

    def einsum_sublist(self, q, k, v):
        """einsum with lists of numbers for letters"""
        w = torch.einsum(q, [0, 1, 2, 4], k, [0, 1, 3, 4], [0, 1, 2, 3]).div(8**0.5).softmax(-1)
        return torch.einsum(w, [0, 1, 2, 3], v, [0, 1, 3, 4], [0, 1, 2, 4])

    @options(Attention("bhkq"))
    def transposed_scores(self, q, k, v):
        """k @ q^T, softmax over the last but one"""
        return (k @ q.mT / 8**0.5).softmax(-2).mT @ v

    @options(row="S6")
    def broadcast_values(self, q, k, v):
        """weights x values by broadcasting: (w[..., None] * v[..., None, :, :]).sum(-2)"""
        return (self.weigh(q, k)[..., None] * v[:, :, None]).sum(-2)

    @options(row="S6")
    def matmul_out(self, q, k, v):
        """torch.matmul(weights, v, out=buffer)"""
        out = torch.empty_like(v)
        torch.matmul(self.weigh(q, k), v, out=out)
        return out


@ways("forward")
class Whole:
    @options(
        row="S6",
        project=silence_parameter,
        parts=lambda: {"out": nn.Parameter(torch.randn(HEADS, 8, WIDTH) / 6)},
    )
    def einsum_output(self, x):
        """one einsum of weights, values and the output projection"""
        q, k, v = self.qkv(x)
        return x + torch.einsum("bhqk,bhkd,hdo->bqo", self.weigh(q, k), v, self.out)

    @options(inputs=lambda: (torch.randn(TOKENS, 2, WIDTH),))
    def time_first(self, x):
        """input [token, batch, width]"""
        return x + self.wo(self.attend(x.transpose(0, 1))).transpose(0, 1)


class Library(Module):
    """nn.MultiheadAttention"""

    weights = False

    def parts(self):
        return {"attention": base.library()}

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=self.weights)[0]


OUT = {"grad": True, "project": "=attention.out_proj"}
enter("torch_module", "nn.MultiheadAttention, need_weights=False", Library, **OUT)
enter("torch_module_weights", "the same, with weights", Library.of(weights=True), MERGED, **OUT)


class Einsum(Block):
    """Two einsums: scores of q and k, and weights times values; ``dim`` is the axis of keys."""

    into, dim, back = "", -1, ""

    def combine(self, q, k, v):
        w = torch.einsum(self.into, q, k).div(8**0.5).softmax(self.dim)
        return torch.einsum(self.back, w, v)


#: Splitting and joining heads: `[batch, token, head, width]`; time first; rows of three tokens; and
#: without a batch.
TOKENS_FIRST = {
    "split": lambda self, x: x.view(*x.shape[:2], HEADS, -1),
    "join": lambda self, x: x.flatten(2),
}
LABML = {
    "split": lambda self, x: x.view(*x.shape[:2], HEADS, -1).transpose(0, 1),
    "join": lambda self, x: x.flatten(2).transpose(0, 1),
}
IN_ROWS = {
    "split": lambda self, x: x.view(-1, 3, 3, HEADS, 8),
    "join": lambda self, x: x.reshape(-1, TOKENS, WIDTH),
}
NO_BATCH = {
    "split": lambda self, x: x.view(TOKENS, HEADS, 8),
    "join": lambda self, x: x.flatten(1),
}


def one_item() -> tuple[Tensor]:
    return (torch.randn(TOKENS, WIDTH),)


ONE = {"inputs": one_item}
for name, about, heads, axes, into, dim, back, words in (
    ("einsum_into", "q [b, t, h, d] and k [b, s, h, d] into bhqk, and back",
     TOKENS_FIRST, "bhqk", "bqhd,bkhd->bhqk", -1, "bhqk,bkhd->bqhd", {}),
    ("einsum_heads_first", "einsum with heads first",
     {}, "hbqk", "bhid,bhjd->hbij", -1, "hbij,bhjd->bhid", {"row": "S9"}),
    ("einsum_ellipsis", "flax: ...qhd,...khd->...hqk",
     TOKENS_FIRST, "bhqk", "...qhd,...khd->...hqk", -1, "...hqk,...khd->...qhd", {"row": "S6"}),
    ("einsum_queries_first", "scores [batch, query, head, key]",
     TOKENS_FIRST, "bqhk", "bqhd,bkhd->bqhk", -1, "bqhk,bkhd->bqhd", {}),
    ("einsum_heads_last", "scores [batch, query, key, head], softmax over dimension 2",
     TOKENS_FIRST, "bqkh", "bqhd,bkhd->bqkh", 2, "bqkh,bkhd->bqhd", {}),
    ("einsum_keys_first", "einsum into [batch, head, key, query], softmax over the keys",
     {}, "bhkq", "bhqd,bhkd->bhkq", 2, "bhkq,bhkd->bhqd", {}),
    ("einsum_time_first", "labml: [query, key, batch, head], softmax over dimension 1",
     LABML, "qkbh", "ibhd,jbhd->ijbh", 1, "ijbh,jbhd->ibhd", {}),
    ("rows_heads_first", "axial, heads first: [head, batch, row, query, key] (MSA Transformer)",
     IN_ROWS, "hbwqk", "brihd,brjhd->hbrij", -1, "hbrij,brjhd->brihd", {"row": "S9"}),
    ("unbatched_einsum", "no batch, einsum qhd,khd->hqk",
     NO_BATCH, "hqk", "qhd,khd->hqk", -1, "hqk,khd->qhd", {"row": "section 3", **ONE}),
):  # fmt: skip
    build = Einsum.of(into=into, dim=dim, back=back, **heads)
    enter(name, about, build, Attention(axes), **words)


class Merged(Block):
    """Scores of (batch head): ``weights`` of q and k, ``product`` with the values."""

    def combine(self, *qkv):
        q, k, v = (y.reshape(-1, TOKENS, 8) for y in qkv)
        return self.product(self.weights(q, k), v).view(-1, HEADS, TOKENS, 8)

    def product(self, w, v):
        return torch.bmm(w, v)

    def weights(self, q, k):
        return F.softmax(torch.bmm(q, k.transpose(1, 2)) / 8**0.5, dim=-1)


enter("bmm_batch_heads", "bmm over (batch head), as fairseq has it", Merged, MERGED)


@ways("weights", Merged)
class MergedWeights:
    @options(MERGED)
    def baddbmm(self, q, k):
        """baddbmm with alpha, as diffusers has it"""
        empty = torch.empty(len(q), TOKENS, TOKENS)
        return torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=8**-0.5).softmax(-1)


@style(MERGED, row="S2")
class EinsumBatchHeads(Merged):
    """einsum "b i d, b j d -> b i j" over (batch head)"""

    def weights(self, q, k):
        return torch.einsum("b i d, b j d -> b i j", q, k).mul(8**-0.5).softmax(-1)

    def product(self, w, v):
        return torch.einsum("b i j, b j d -> b i d", w, v)


@style(HEAD_MAJOR, row="S2")
class EinsumHeadsBatch(EinsumBatchHeads):
    """the same with the heads before the batch in the merged axis"""

    def combine(self, *qkv):
        q, k, v = (y.transpose(0, 1).reshape(-1, TOKENS, 8) for y in qkv)
        out = self.product(self.weights(q, k), v)
        return out.view(HEADS, -1, TOKENS, 8).transpose(0, 1)


@style(HEAD_MAJOR, row="S9")
class BmmChunkCat(Merged):
    """torch.cat(q.chunk(heads, -1), 0): head-major, as in ports of SASRec"""

    def attend(self, x):
        q, k, v = (torch.cat(w(x).chunk(HEADS, -1), 0) for w in (self.wq, self.wk, self.wv))
        return torch.cat(torch.bmm(self.weights(q, k), v).chunk(HEADS, 0), -1)


@style(HEAD_MAJOR, row="S9")
class BmmPermuteView(Merged):
    """permute(2, 0, 1, 3).view(-1, t, d): the head-major merge of the annotated papers of 2018"""

    def split(self, y):
        return y.view(-1, TOKENS, HEADS, 8).permute(2, 0, 1, 3).contiguous().view(-1, TOKENS, 8)

    def combine(self, q, k, v):
        return torch.bmm(self.weights(q, k), v)

    def join(self, out):
        out = out.view(HEADS, -1, TOKENS, 8).permute(1, 2, 0, 3)
        return out.contiguous().view(-1, TOKENS, WIDTH)


def unchanged(self, x):
    return x


WINDOWS = {
    "split": lambda self, x: x.view(-1, 3, 3, HEADS, 8).transpose(2, 3),
    "join": lambda self, x: x.transpose(2, 3).reshape(-1, TOKENS, WIDTH),
}
HEADS_FIRST = {
    "split": lambda self, x: x.view(TOKENS, HEADS, 8).transpose(0, 1),
    "join": lambda self, x: x.transpose(0, 1).reshape(TOKENS, WIDTH),
}
UNSPLIT, ONE_HEAD = {"split": unchanged, "join": unchanged}, {"project": None, "head": 0}
for name, about, heads, truth, words in (
    ("windows", "windows in an axis of their own: [batch, window, head, 3, 3]",
     WINDOWS, Attention("bwhqk"), {"row": "S11"}),
    ("unbatched_one_head", "a tutorial's first attention: [token, token], no batch, no heads",
     UNSPLIT, Attention("qk", heads=1), {"row": "section 3", **ONE, **ONE_HEAD}),
    ("one_head", "one head, never split: [batch, query, key]",
     UNSPLIT, Attention("bqk", heads=1), ONE_HEAD),
    ("unbatched_heads", "no batch: [head, query, key]", HEADS_FIRST, Attention("hqk"), ONE),
):  # fmt: skip
    enter(name, about, Block.of(**heads), truth, **words)


@style(inputs=lambda: (torch.randn(2, WIDTH, TOKENS),))
class ChannelsFirst(Module):
    """projections by Conv1d on [batch, channel, token]"""

    def parts(self):
        return {"qkv": nn.Conv1d(WIDTH, 3 * WIDTH, 1), "wo": nn.Linear(WIDTH, WIDTH)}

    def forward(self, x):
        q, k, v = self.qkv(x).mul(2).view(len(x), 3, HEADS, 8, -1).unbind(1)
        w = torch.einsum("bhcq,bhck->bhqk", q, k).div(8**0.5).softmax(-1)
        out = torch.einsum("bhqk,bhck->bhcq", w, v).reshape(x.shape)
        return x + self.wo(out.mT).mT
