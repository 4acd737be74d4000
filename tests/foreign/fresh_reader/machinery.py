"""The same attention, driven by odd machinery of torch."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.foreign.fresh_reader import Known, law, merge, mixed, scaled
from tests.foreign.fresh_reader.softmaxes import Projected


class Checkpointed(Projected):
    """The block is recomputed in the backward pass."""

    gradients = True

    def block(self, x):
        q, k, v = self.qkv(x)
        return self.o(merge(torch.softmax(q @ k.mT / 2, -1) @ v))

    def forward(self, x):
        return x + checkpoint(self.block, x, use_reentrant=False)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        known = self.finish(law(scaled(q, k), kind), v, kind)
        return Known(inputs[0] + known.output, known.maps)


class Vmapped(Projected):
    """Written for one sentence ``[token, 16]`` and mapped over the batch."""

    def one(self, x):
        q, k, v = (f(x).view(-1, 4, 4).transpose(0, 1) for f in (self.q, self.k, self.v))
        return self.o((torch.softmax(q @ k.mT / 2, -1) @ v).transpose(0, 1).flatten(1))

    def forward(self, x):
        return torch.vmap(self.one)(x)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Compiled(Projected):
    """The function that mixes is compiled, not the module."""

    def build(self):
        super().build()
        self.mix = torch.compile(
            lambda q, k, v: torch.softmax(q @ k.mT / 2, -1) @ v, backend="eager"
        )

    def forward(self, x):
        return self.o(merge(self.mix(*self.qkv(x))))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Universal(Projected):
    """Universal Transformer: the module calls itself three times with a step embedding."""

    note = "self, steps 0 to 2 of one layer"

    def build(self):
        super().build()
        self.norm, self.steps = nn.LayerNorm(16), nn.Embedding(3, 16)

    def forward(self, x, step=0):
        if step == 3:
            return x
        q, k, v = self.qkv(self.norm(x + self.steps.weight[step]))
        return self(x + self.o(merge(torch.softmax(q @ k.mT / 2, -1) @ v)), step + 1)

    def known(self, inputs, kind):
        (x,), maps = inputs, []
        for step in range(3):
            q, k, v = self.qkv(self.norm(x + self.steps.weight[step]))
            maps.append(law(scaled(q, k), kind))
            x = x + self.o(merge(mixed(maps[-1], v, kind)))
        return Known(x, tuple(maps))


MODULES = (Checkpointed, Vmapped, Compiled, Universal)
