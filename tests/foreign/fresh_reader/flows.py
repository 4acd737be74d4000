"""Odd ways for queries, keys and values to reach each other, and odd machinery of torch."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from . import Known, Projected, Stranger
from .parts import heads_left, law, linears, look, merge, mixed, scaled, split


class KeysFromBelow(Stranger):
    """Layer 1 asks with its own stream, matches keys of layer 0's input, reads raw embeddings."""

    def build(self):
        self.embed = nn.Linear(16, 16)
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(16, 16) for name in "qkvo"}) for _ in range(2)
        )

    def forward(self, x):
        below = self.embed(x)
        first, second = self.layers
        heads = look(split(first["q"](below)), split(first["k"](below)), split(first["v"](below)))
        h = below + first["o"](merge(heads))
        heads = look(split(second["q"](h)), split(second["k"](below)), split(second["v"](x)))
        return h + second["o"](merge(heads))

    def known(self, inputs, kind):
        (x,) = inputs
        below, maps = self.embed(x), []
        h = below
        for layer, read in zip(self.layers, (below, x), strict=True):
            maps.append(law(scaled(split(layer["q"](h)), split(layer["k"](below))), kind))
            h = h + layer["o"](merge(mixed(maps[-1], split(layer["v"](read)), kind)))
        return Known(h, tuple(maps))


class Axial(Stranger):
    """Images ``[batch, 16, 3, 5]``: along rows by einsum, along columns folded in the batch."""

    shape = (2, 16, 3, 5)

    def build(self):
        self.rows, self.columns = nn.Conv2d(16, 48, 1), nn.Linear(16, 48)
        self.o1, self.o2 = nn.Conv2d(16, 16, 1), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.rows(x).unflatten(1, (3, 4, 4)).unbind(1)
        scores = torch.einsum("bhdyi,bhdyj->bhyij", q, k) / 2
        mixed_rows = torch.einsum("bhyij,bhdyj->bhdyi", scores.softmax(-1), v)
        x = x + self.o1(mixed_rows.flatten(1, 2))
        b, c, y, width = x.shape
        tokens = x.permute(0, 3, 2, 1).reshape(b * width, y, c)
        out = self.o2(merge(look(*(split(t) for t in self.columns(tokens).chunk(3, -1)))))
        return x + out.reshape(b, width, y, c).permute(0, 3, 2, 1)

    def known(self, inputs, kind):
        (x,) = inputs
        maps = []
        qkv = self.rows(x).permute(0, 2, 3, 1).flatten(0, 1)
        q, k, v = (split(t) for t in qkv.chunk(3, -1))
        maps.append(law(scaled(q, k), kind))
        out = merge(mixed(maps[-1], v, kind)).unflatten(0, x.shape[:1] + x.shape[2:3])
        x = x + self.o1(out.permute(0, 3, 1, 2))
        qkv = self.columns(x.permute(0, 3, 2, 1).flatten(0, 1))
        q, k, v = (split(t) for t in qkv.chunk(3, -1))
        maps.append(law(scaled(q, k), kind))
        out = self.o2(merge(mixed(maps[-1], v, kind))).unflatten(0, (x.shape[0], -1))
        return Known(x + out.permute(0, 3, 2, 1), tuple(maps))


class Packed(Projected):
    """Sentences of 3, 5 and 4 tokens packed without padding: ``[12, 16]``, one after the other."""

    shape, batched = (12, 16), False

    def example(self):
        return *super().example(), (3, 5, 4)

    def forward(self, x, lengths):
        q, k, v = (f(x).unflatten(-1, (4, 4)).transpose(0, 1) for f in (self.q, self.k, self.v))
        parts = zip(*(t.split(lengths, dim=1) for t in (q, k, v)), strict=True)
        out = torch.cat([look(*part) for part in parts], dim=1)
        return self.o(out.transpose(0, 1).flatten(1))

    def known(self, inputs, kind):
        parts = [super(Packed, self).known((x[None],), kind) for x in inputs[0].split(inputs[1])]
        maps = tuple(part.maps[0] for part in parts)
        return Known(torch.cat([part.output[0] for part in parts]), maps)


class Shared(Projected):
    """LazyFormer: the map is made in the first layer and used by both."""

    def build(self):
        super().build()
        self.v2, self.o2 = linears(2)

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        x = x + self.o(merge(weights @ v))
        return x + self.o2(merge(weights @ split(self.v2(x))))

    def known(self, inputs, kind):
        (x,) = inputs
        q, k, v = self.qkv(x)
        weights = law(scaled(q, k), kind)
        x = x + self.o(merge(mixed(weights, v, kind)))
        x = x + self.o2(merge(mixed(weights, split(self.v2(x)), kind)))
        return Known(x, (weights,))


class Ring(Projected):
    """A decoder that goes token by token and keeps the last four keys in a ring buffer."""

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
            outs.append(merge(look(q, keys[:, :, :filled], values[:, :, :filled])))
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


class DoubleAttention(Stranger):
    """A2-Net: gather features over positions, then distribute them; a softmax for each."""

    shape = (2, 16, 3, 3)

    def build(self):
        self.a, self.b, self.v, self.o = (nn.Conv2d(16, n, 1) for n in (8, 6, 6, 16))
        self.o = nn.Conv2d(8, 16, 1)

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

    shape = (4, 16, 4)

    def build(self):
        self.qkv, self.o = nn.Conv1d(16, 48, 1), nn.Conv1d(16, 16, 1)

    def forward(self, x):
        q, k, v = self.qkv(x).view(-1, 3, 4, 4, x.shape[-1]).unbind(1)
        weights = torch.softmax(k.transpose(-1, -2) @ q / 2, dim=-2)
        return self.o((v @ weights).flatten(1, 2))

    def known(self, inputs, kind):
        q, k, v = (split(t) for t in self.qkv(*inputs).mT.chunk(3, -1))
        weights = law(scaled(q, k), kind)
        return Known(self.o(merge(mixed(weights, v, kind)).mT), (weights,))


class SetBlock(Stranger):
    """Set Transformer: heads before the batch in one axis, the queries added inside each head."""

    def build(self):
        self.points = nn.Parameter(torch.randn(1, 3, 16))
        self.q, self.k, self.v, self.o = linears(4)

    def forward(self, x):
        q = self.q(self.points.repeat(x.size(0), 1, 1))
        q_, k_, v_ = (torch.cat(t.split(4, 2), 0) for t in (q, self.k(x), self.v(x)))
        a = torch.softmax(q_.bmm(k_.transpose(1, 2)) / math.sqrt(16), 2)
        o = torch.cat((q_ + a.bmm(v_)).split(x.size(0), 0), 2)
        return o + torch.relu(self.o(o))

    def known(self, inputs, kind):
        (x,) = inputs
        q, k, v = (split(t) for t in (self.q(self.points), self.k(x), self.v(x)))
        weights = law(torch.einsum("bhqd,bhkd->bhqk", q.expand(len(x), -1, -1, -1), k) / 4, kind)
        o = merge(q + torch.einsum("bhqk,bhkd->bhqd", heads_left(weights, kind), v))
        return Known(o + torch.relu(self.o(o)), (weights,))


class Joint(Projected):
    """One softmax over the tokens and three memories; its two parts meet their own values."""

    def build(self):
        super().build()
        self.memory = nn.Parameter(torch.randn(2, 1, 4, 3, 4))

    def attend(self, q, k, v):
        mk, mv = self.memory.expand(-1, q.shape[0], -1, -1, -1)
        weights = torch.cat([q @ k.mT / 2, q @ mk.mT / 2], -1).softmax(-1)
        near, far = weights.split((q.shape[2], 3), dim=-1)
        return near @ v + far @ mv

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        mk, mv = self.memory.expand(-1, len(q), -1, -1, -1)
        weights = law(scaled(q, torch.cat([k, mk], 2)), kind)
        return self.finish(weights, torch.cat([v, mv], 2), kind)


class Copying(Projected):
    """Pointer-generator: the mean map is also returned as the probability to copy each token."""

    readings = (("head", "head before the projection"),)

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        return torch.cat([self.o(merge(weights @ v)), weights.mean(1)], -1)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        copied = weights if kind == "head before the projection" else heads_left(weights, kind)
        known = self.finish(weights, v, kind.partition(" ")[0])
        return Known(torch.cat([known.output, copied.mean(1)], -1), known.maps)


class Checkpointed(Projected):
    """The block is recomputed in the backward pass."""

    gradients = True

    def forward(self, x):
        return x + checkpoint(super().forward, x, use_reentrant=False)

    def known(self, inputs, kind):
        known = super().known(inputs, kind)
        return Known(inputs[0] + known.output, known.maps)


class Compiled(Projected):
    """The function that mixes is compiled, not the module."""

    def build(self):
        super().build()
        self.attend = torch.compile(
            lambda q, k, v: torch.softmax(q @ k.mT / 2, -1) @ v, backend="eager"
        )


class Universal(Projected):
    """Universal Transformer: the module calls itself three times with a step embedding."""

    def build(self):
        super().build()
        self.norm, self.steps = nn.LayerNorm(16), nn.Embedding(3, 16)

    def forward(self, x, step=0):
        if step == 3:
            return x
        heads = look(*self.qkv(self.norm(x + self.steps.weight[step])))
        return self(x + self.o(merge(heads)), step + 1)

    def known(self, inputs, kind):
        (x,), maps = inputs, []
        for step in range(3):
            q, k, v = self.qkv(self.norm(x + self.steps.weight[step]))
            maps.append(law(scaled(q, k), kind))
            x = x + self.o(merge(mixed(maps[-1], v, kind)))
        return Known(x, tuple(maps))
