"""Odd ways for queries, keys and values to reach each other."""

from __future__ import annotations

import math

import torch
from torch import nn

from tests.foreign.fresh_reader import Known, Stranger, heads_left, law, merge, mixed, scaled, split
from tests.foreign.fresh_reader.softmaxes import Projected


class HeadsAndChunks(Projected):
    """A loop over heads, and in it one over chunks of two queries."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        heads = []
        for head in range(4):
            parts = []
            for chunk in q[:, head].split(2, dim=1):
                scores = chunk @ k[:, head].transpose(1, 2) / 2
                parts.append(scores.softmax(-1) @ v[:, head])
            heads.append(torch.cat(parts, dim=1))
        return self.o(torch.cat(heads, dim=-1))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class KeysFromBelow(Stranger):
    """Layer 1 asks with its own stream, matches keys of layer 0's input, reads raw embeddings."""

    note = "self layer 0, self layer 1 over older states"

    def build(self):
        self.embed = nn.Linear(16, 16)
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(16, 16) for name in "qkvo"}) for _ in range(2)
        )

    def forward(self, x):
        below = self.embed(x)
        first, second = self.layers
        w = torch.softmax(split(first["q"](below), 4) @ split(first["k"](below), 4).mT / 2, -1)
        h = below + first["o"](merge(w @ split(first["v"](below), 4)))
        w = torch.softmax(split(second["q"](h), 4) @ split(second["k"](below), 4).mT / 2, -1)
        return h + second["o"](merge(w @ split(second["v"](x), 4)))

    def known(self, inputs, kind):
        (x,) = inputs
        below, maps = self.embed(x), []
        h = below
        for layer, read in zip(self.layers, (below, x), strict=True):
            maps.append(law(scaled(split(layer["q"](h), 4), split(layer["k"](below), 4)), kind))
            h = h + layer["o"](merge(mixed(maps[-1], split(layer["v"](read), 4), kind)))
        return Known(h, tuple(maps))


class UnequalHeads(Stranger):
    """Three heads of widths 4, 8 and 12, each a small module."""

    def build(self):
        self.heads = nn.ModuleList(nn.Linear(16, 3 * width) for width in (4, 8, 12))
        self.o = nn.Linear(24, 16)

    def forward(self, x):
        outs = []
        for head in self.heads:
            q, k, v = head(x).chunk(3, dim=-1)
            outs.append(torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v)
        return self.o(torch.cat(outs, -1))

    def known(self, inputs, kind):
        outs, maps = [], []
        for number, head in enumerate(self.heads):
            q, k, v = (t[:, None] for t in head(*inputs).chunk(3, -1))
            maps.append(law(scaled(q, k), kind))
            outs.append(mixed(maps[-1], v, kind if number == 0 or kind != "head" else "")[:, 0])
        return Known(self.o(torch.cat(outs, -1)), (torch.cat(maps, 1),))


class Axial(Stranger):
    """Images ``[batch, 16, 3, 5]``: along rows by einsum, along columns folded in the batch."""

    note = "self along rows, self along columns; other axis in the batch"

    def build(self):
        self.rows, self.columns = nn.Conv2d(16, 48, 1), nn.Linear(16, 48)
        self.o1, self.o2 = nn.Conv2d(16, 16, 1), nn.Linear(16, 16)

    def example(self):
        return (torch.randn(2, 16, 3, 5, generator=torch.Generator().manual_seed(7)),)

    def forward(self, x):
        q, k, v = self.rows(x).unflatten(1, (3, 4, 4)).unbind(1)
        scores = torch.einsum("bhdyi,bhdyj->bhyij", q, k) / 2
        mixed_rows = torch.einsum("bhyij,bhdyj->bhdyi", scores.softmax(-1), v)
        x = x + self.o1(mixed_rows.flatten(1, 2))
        b, c, y, width = x.shape
        tokens = x.permute(0, 3, 2, 1).reshape(b * width, y, c)
        q, k, v = (split(t, 4) for t in self.columns(tokens).chunk(3, -1))
        out = self.o2(merge(torch.softmax(q @ k.mT / 2, -1) @ v))
        return x + out.reshape(b, width, y, c).permute(0, 3, 2, 1)

    def known(self, inputs, kind):
        (x,) = inputs
        maps = []
        qkv = self.rows(x).permute(0, 2, 3, 1).flatten(0, 1)
        q, k, v = (split(t, 4) for t in qkv.chunk(3, -1))
        maps.append(law(scaled(q, k), kind))
        out = merge(mixed(maps[-1], v, kind)).unflatten(0, x.shape[:1] + x.shape[2:3])
        x = x + self.o1(out.permute(0, 3, 1, 2))
        q, k, v = (
            split(t, 4) for t in self.columns(x.permute(0, 3, 2, 1).flatten(0, 1)).chunk(3, -1)
        )
        maps.append(law(scaled(q, k), kind))
        out = self.o2(merge(mixed(maps[-1], v, kind))).unflatten(0, (x.shape[0], -1))
        return Known(x + out.permute(0, 3, 2, 1), tuple(maps))


class Packed(Projected):
    """Sentences of 3, 5 and 4 tokens packed without padding: ``[12, 16]``, one after the other."""

    note, batched = "self, three sentences of one layer", False

    def example(self):
        return torch.randn(12, 16, generator=torch.Generator().manual_seed(7)), (3, 5, 4)

    def forward(self, x, lengths):
        q, k, v = (f(x).unflatten(-1, (4, 4)).transpose(0, 1) for f in (self.q, self.k, self.v))
        parts = zip(*(t.split(lengths, dim=1) for t in (q, k, v)), strict=True)
        out = torch.cat([torch.softmax(a @ b.mT / 2, -1) @ c for a, b, c in parts], dim=1)
        return self.o(out.transpose(0, 1).flatten(1))

    def known(self, inputs, kind):
        outs, maps = [], []
        for part in inputs[0].split(inputs[1]):
            q, k, v = self.qkv(part[None])
            maps.append(law(scaled(q, k), kind))
            outs.append(self.o(merge(mixed(maps[-1], v, kind)))[0])
        return Known(torch.cat(outs), tuple(maps))


class RealFormer(Stranger):
    """Layer 1 adds the raw scores of layer 0 to its own."""

    note = "self layers 0 and 1"

    def build(self):
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.o = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x):
        before = None
        for qkv, o in zip(self.qkv, self.o, strict=True):
            q, k, v = (split(t, 4) for t in qkv(x).chunk(3, -1))
            scores = torch.matmul(q, k.transpose(-1, -2)) / 2
            if before is not None:
                scores = scores + before
            before = scores
            x = x + o(merge(scores.softmax(dim=-1) @ v))
        return x

    def known(self, inputs, kind):
        (x,) = inputs
        total, maps = 0, []
        for layer in range(2):
            q, k, v = (split(t, 4) for t in self.qkv[layer](x).chunk(3, -1))
            total = total + scaled(q, k)
            maps.append(law(total, kind))
            x = x + self.o[layer](merge(mixed(maps[-1], v, kind)))
        return Known(x, tuple(maps))


class Shared(Projected):
    """LazyFormer: the map is made in the first layer and used by both."""

    note = "self, one map for layers 0 and 1"

    def build(self):
        super().build()
        self.v2, self.o2 = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        x = x + self.o(merge(weights @ v))
        return x + self.o2(merge(weights @ split(self.v2(x), 4)))

    def known(self, inputs, kind):
        (x,) = inputs
        q, k, v = self.qkv(x)
        weights = law(scaled(q, k), kind)
        x = x + self.o(merge(mixed(weights, v, kind)))
        x = x + self.o2(merge(mixed(weights, split(self.v2(x), 4), kind)))
        return Known(x, (weights,))


class Gated(Projected):
    """ConViT: a gate for each head mixes attention by content with attention by place."""

    note = "self; what is mixed with values is the gated sum of two softmaxes"

    def build(self):
        super().build()
        self.gate, self.places = nn.Parameter(torch.randn(4)), nn.Linear(2, 4)

    def two(self, x):
        far = (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).float()
        return self.places(torch.stack([far, far.square() / 4], -1)).permute(2, 0, 1)[None]

    def forward(self, x):
        q, k, v = self.qkv(x)
        content = (q @ k.mT / 2).softmax(dim=-1)
        place = self.two(x).expand(x.shape[0], -1, -1, -1).softmax(dim=-1)
        gate = torch.sigmoid(self.gate).view(1, -1, 1, 1)
        weights = (1.0 - gate) * content + gate * place
        return self.o(merge(weights @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        gate = torch.sigmoid(self.gate)[:, None, None]
        content, place = law(scaled(q, k), kind), law(self.two(*inputs), kind)
        return self.finish(content + gate * (place - content), v, kind)


class Ring(Projected):
    """A decoder that goes token by token and keeps the last four keys in a ring buffer."""

    note = "self, one map a step; columns are slots of the ring"
    readings = (("hidden", "hidden token"),)

    def forward(self, x):
        b, n, _ = x.shape
        keys, values = x.new_zeros(b, 4, 4, 4), x.new_zeros(b, 4, 4, 4)
        outs = []
        for step in range(n):
            q, k, v = self.qkv(x[:, step : step + 1])
            slot, filled = step % 4, min(step + 1, 4)
            keys[:, :, slot] = k.squeeze(2)
            values[:, :, slot] = v.squeeze(2)
            scores = q @ keys[:, :, :filled].mT / 2
            outs.append(merge(scores.softmax(-1) @ values[:, :, :filled]))
        return self.o(torch.cat(outs, 1))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        outs, maps = [], []
        for t in range(q.shape[2]):
            slots = [max(s for s in range(t + 1) if s % 4 == slot) for slot in range(min(t + 1, 4))]
            scores = scaled(q[:, :, t : t + 1], k[:, :, slots])
            if kind == "hidden token" and 1 in slots:
                scores[..., slots.index(1)] = -torch.inf
            maps.append(law(scores, kind))
            outs.append(merge(mixed(maps[-1], v[:, :, slots], kind)))
        return Known(self.o(torch.cat(outs, 1)), tuple(maps))


class FoldedMultiQuery(Stranger):
    """GPTBigCode: one key head; the query heads are folded into the rows, heads innermost."""

    def build(self):
        self.q, self.kv, self.o = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 16)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, 4, 4).reshape(b, n * 4, 4)
        k, v = self.kv(x).split((4, 4), dim=-1)
        weights = torch.bmm(q, k.transpose(1, 2)).mul(0.5).softmax(dim=-1)
        return self.o(torch.bmm(weights, v).view(b, n, 16))

    def known(self, inputs, kind):
        (x,) = inputs
        k, v = (t[:, None].expand(-1, 4, -1, -1) for t in self.kv(x).chunk(2, -1))
        weights = law(scaled(split(self.q(x), 4), k), kind)
        return Known(self.o(merge(mixed(weights, v, kind))), (weights,))


class DoubleAttention(Stranger):
    """A2-Net: gather features over positions, then distribute them; a softmax for each."""

    note = "cross: 6 gatherers over positions; cross: positions over 6 gatherers"

    def build(self):
        self.a, self.b, self.v, self.o = (nn.Conv2d(16, n, 1) for n in (8, 6, 6, 16))
        self.o = nn.Conv2d(8, 16, 1)

    def example(self):
        return (torch.randn(2, 16, 3, 3, generator=torch.Generator().manual_seed(7)),)

    def forward(self, x):
        features = self.a(x).flatten(2)
        gather = self.b(x).flatten(2).softmax(dim=-1)
        distribute = self.v(x).flatten(2).softmax(dim=1)
        z = torch.bmm(torch.bmm(features, gather.transpose(1, 2)), distribute)
        return self.o(z.unflatten(2, x.shape[2:]))

    def known(self, inputs, kind):
        (x,) = inputs
        values = self.a(x).flatten(2).mT[:, None]
        gather = law(self.b(x).flatten(2)[:, None], kind)
        distribute = law(self.v(x).flatten(2).mT[:, None], kind)
        out = mixed(distribute, mixed(gather, values, kind), kind)
        return Known(self.o(out[:, 0].mT.unflatten(2, x.shape[2:])), (gather, distribute))


class ColumnVectors(Stranger):
    """Features first: ``[batch 4, 16, token 4]``, four heads of width 4, softmax over dim -2."""

    def build(self):
        self.qkv, self.o = nn.Conv1d(16, 48, 1), nn.Conv1d(16, 16, 1)

    def example(self):
        return (torch.randn(4, 16, 4, generator=torch.Generator().manual_seed(7)),)

    def forward(self, x):
        q, k, v = self.qkv(x).view(-1, 3, 4, 4, x.shape[-1]).unbind(1)
        weights = torch.softmax(k.transpose(-1, -2) @ q / 2, dim=-2)
        return self.o((v @ weights).flatten(1, 2))

    def known(self, inputs, kind):
        q, k, v = (split(t, 4) for t in self.qkv(*inputs).mT.chunk(3, -1))
        weights = law(scaled(q, k), kind)
        return Known(self.o(merge(mixed(weights, v, kind)).mT), (weights,))


class SetBlock(Stranger):
    """Set Transformer: heads before the batch in one axis, the queries added inside each head."""

    note = "cross: 3 inducing points over 6 elements"

    def build(self):
        self.points = nn.Parameter(torch.randn(1, 3, 16))
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        q = self.q(self.points.repeat(x.size(0), 1, 1))
        q_, k_, v_ = (torch.cat(t.split(4, 2), 0) for t in (q, self.k(x), self.v(x)))
        a = torch.softmax(q_.bmm(k_.transpose(1, 2)) / math.sqrt(16), 2)
        o = torch.cat((q_ + a.bmm(v_)).split(x.size(0), 0), 2)
        return o + torch.relu(self.o(o))

    def known(self, inputs, kind):
        (x,) = inputs
        q, k, v = (split(t, 4) for t in (self.q(self.points), self.k(x), self.v(x)))
        weights = law(torch.einsum("bhqd,bhkd->bhqk", q.expand(len(x), -1, -1, -1), k) / 4, kind)
        o = merge(q + torch.einsum("bhqk,bhkd->bhqd", heads_left(weights, kind), v))
        return Known(o + torch.relu(self.o(o)), (weights,))


MODULES = (
    HeadsAndChunks,
    KeysFromBelow,
    UnequalHeads,
    Axial,
    Packed,
    RealFormer,
    Shared,
    Gated,
    Ring,
    FoldedMultiQuery,
    DoubleAttention,
    ColumnVectors,
    SetBlock,
)
