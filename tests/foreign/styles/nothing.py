"""Softmaxes that are no attention over tokens, and attention without any map."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .base import STYLES, TOKENS, WIDTH, Attention, Block, Module, Other, enter, ids, options, ways

LAWS = {"laws": ("temperature", "head_off")}
FEW = {"row": "S17", "inputs": lambda: (torch.randn(2, 8, WIDTH),)}
FEATURES = (Other("features"), Other("tokens"))


def experts() -> dict[str, nn.Module]:
    route = nn.Linear(WIDTH, 4)
    return {"route": route, "experts": nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))}


def table() -> dict[str, nn.Module]:
    return {"table": nn.Embedding(50, WIDTH)}


@ways("forward", Module)
class NoAttention:
    @options(Other("router"), **LAWS, parts=experts)
    def router(self, x):
        """a mixture of experts: softmax over experts times what they give"""
        w = self.route(x).softmax(-1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        return x + (w[..., None] * out).sum(-2)

    @options(Other("router"), **LAWS, parts=experts)
    def router_matmul(self, x):
        """the same, weights @ experts"""
        w = self.route(x).softmax(-1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        return x + (w[..., None, :] @ out)[..., 0, :]

    @options(
        *(Other("routing"), Other("routing")),
        **LAWS,
        parts=lambda: {"votes": nn.Linear(WIDTH, 3 * 8)},
    )
    def capsule_routing(self, x):
        """two rounds of capsule routing"""
        votes = self.votes(x).view(*x.shape[:2], 3, 8)
        belief = torch.zeros(votes.shape[:3])
        for _ in range(2):
            w = belief.softmax(-1)
            out = torch.tanh((w[..., None] * votes).sum(1))
            belief = belief + (votes * out[:, None]).sum(-1)
        return out

    @options(
        **LAWS,
        none=True,
        parts=lambda: {"tokens": nn.Linear(TOKENS, TOKENS), "width": nn.Linear(WIDTH, WIDTH)},
    )
    def mixer(self, x):
        """an MLP-Mixer: no softmax at all"""
        x = x + self.tokens(x.mT).mT
        return x + self.width(F.gelu(x))


@ways("forward")
class Beside:
    """Softmaxes beside an attention, or in its place."""

    @options(Attention(), Other("router"), parts=experts)
    def attention_and_router(self, x):
        """an attention, then a mixture of the two best experts"""
        x = Block.forward(self, x)
        best = self.route(x).softmax(-1).topk(2, -1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        chosen = out.gather(-2, best.indices[..., None].expand(-1, -1, -1, WIDTH))
        return x + (best.values[..., None] * chosen).sum(-2)

    @options(Other("channels"), **LAWS)
    def channel_gate(self, x):
        """squeeze and excitation with a softmax over channels"""
        return x * self.wq(x.mean(1)).softmax(-1)[:, None]

    @options(Other("branches"), **LAWS)
    def branch_gate(self, x):
        """selective kernels: a softmax over two branches"""
        both = torch.stack([self.wq(x), self.wk(x)], 1)
        w = torch.stack([self.wv(x.mean(1)), self.wo(x.mean(1))], 1).softmax(1)
        return (both * w[:, :, None]).sum(1)

    @options(Attention(), Other("output"), parts=lambda: {"out": nn.Linear(WIDTH, 7)})
    def output_softmax(self, x):
        """an attention, then a softmax over classes"""
        return self.out(Block.forward(self, x).mean(1)).mul(3).softmax(-1)

    @options(Attention(), Other("loss"), inputs=ids, parts=table)
    def loss_inside(self, given):
        """an attention, then cross_entropy in forward"""
        x = Block.forward(self, self.table(given))
        logits = x @ self.table.weight.T
        return F.cross_entropy(logits.flatten(0, 1), given.flatten()), x

    @options(Attention(), Other("soft"), inputs=ids, parts=table)
    def soft_embedding(self, given):
        """an attention, then softmax(logits) @ table: soft words"""
        x = Block.forward(self, self.table(given))
        return x, (x @ self.table.weight.T).softmax(-1) @ self.table.weight

    @options(
        Other("codes"), **LAWS, parts=lambda: {"codes": nn.Parameter(torch.randn(TOKENS, WIDTH))}
    )
    def soft_codebook(self, x):
        """softmax(-distance to codes) @ codes"""
        return x + (-torch.cdist(x, self.codes)).softmax(-1) @ self.codes

    @options(Other("pointer"), **LAWS)
    def pointer(self, x):
        """a pointer network's last softmax: probabilities of tokens, no values"""
        return (self.wq(x[:, -1:]) @ self.wk(x).mT)[:, 0].softmax(-1)


@ways("combine")
class OtherAxes:
    """Softmaxes over other axes, also with as many tokens as a head is wide."""

    @options(Other("channels"), **LAWS, row="S17")
    def channel_attention(self, *qkv):
        """channels over channels (XCiT): [batch, head, channel, channel]"""
        q, k, v = (F.normalize(y.mT, dim=-1) for y in qkv)
        return ((q @ k.mT * 4).softmax(-1) @ v).mT

    @options(*FEATURES, **LAWS)
    def efficient_attention(self, q, k, v):
        """softmax of q over features and of k over tokens, q (k^T v)"""
        return q.softmax(-1) @ (k.softmax(-2).mT @ v)

    @options(**LAWS, none=True)
    def linear_attention(self, q, k, v):
        """linear attention: elu(q) + 1 times (elu(k) + 1) v"""
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])


for name, about, truth in (
    ("channel", "channels over channels with as many tokens as channels", (Other("channels"),)),
    ("efficient", "softmaxes over features and tokens, as many tokens as features", FEATURES),
):
    enter(f"{name}_square", about, STYLES[f"{name}_attention"].build, *truth, **LAWS, **FEW)
