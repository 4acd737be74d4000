"""Several attentions in one module: towers, branches, shared layers, and their names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer_viz.core.interventions import Intervention, Temperature

from .. import oracle
from ..witness import Law, Witness
from . import base
from .base import TOKENS, WIDTH, Attention, Block, Module, Other, Style, enter, options, style, ways

FIRST, SECOND = Attention(), Attention(layer=1)
#: The layers of a second encoder: counted on behind those of the first.
BEHIND = (Attention(layer=2), Attention(layer=3))
ANY, OUTSIDE, SPARED = Attention(site=False), Other("outside"), Other("spared")


def one_place(style: Style, edit: Temperature, *roles: Attention | Other) -> str:
    """Say how far an edit of one place is from the law at these roles alone, if it is."""
    module, inputs = oracle.fresh(style)
    with torch.no_grad():
        with Witness(roles, Law("temperature")):
            wanted = module(*inputs)
        with oracle.probe(module, Intervention((edit,))):
            got = module(*inputs)
    off = oracle.far([got], [wanted])
    return f"temperature of one place is off by {off:.0e}" if off > style.tolerance else ""


def second_only(style: Style) -> str:
    return one_place(style, Temperature(value=2.0, layer=1), SPARED, SECOND)


def path_only(style: Style) -> str:
    return one_place(style, Temperature(value=2.0, path="right*"), SPARED, SPARED, *BEHIND)


def pair() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), torch.randn(2, TOKENS, WIDTH)


def uneven() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), torch.randn(2, 5, WIDTH)


class Towers(Module):
    """Two blocks in one list, each on its own input."""

    def parts(self):
        return {"towers": nn.ModuleList(Block() for _ in range(2))}

    def forward(self, x, y):
        return tuple(tower(z) for tower, z in zip(self.towers, (x, y), strict=True))


class Both(Module):
    """A student and a teacher, for one call of both."""

    def parts(self):
        return {"student": Block(), "teacher": Block()}

    def forward(self, x):
        return [self.student(x), self.teacher(x)]


def part(path: str) -> dict[str, object]:
    """The options of a style of which one part is probed."""
    probed = lambda module: module.get_submodule(path)  # noqa: E731
    return {"probed": probed, "project": f"{path}.wo", "row": "S3"}


LAYERS = {"project": ("layers.0.wo", "layers.1.wo")}
TOWERS = {"project": ("towers.0.wo", "towers.1.wo"), "row": "S8"}
THREE = (FIRST, SECOND, Attention(layer=2))
for name, about, build, truth, words in (
    ("three_layers", "three layers: the usual one", base.Stack.of(depth=3), THREE,
     {"project": tuple(f"layers.{i}.wo" for i in range(3))}),
    ("sequential", "nn.Sequential of blocks", lambda: nn.Sequential(Block(), Block()),
     (FIRST, SECOND), {"project": ("0.wo", "1.wo")}),
    ("two_layers_edit_one", "an edit of the second of two layers", base.Stack,
     (FIRST, SECOND), LAYERS | {"check": second_only}),
    ("part_of_model", "one layer is probed while the whole model runs", base.Stack,
     (FIRST, OUTSIDE), part("layers.0")),
    ("towers", "two towers in a ModuleList, on two inputs", Towers,
     (ANY, ANY), TOWERS | {"inputs": pair}),
    ("towers_uneven", "the same on inputs of unlike lengths", Towers,
     (ANY, ANY), TOWERS | {"inputs": uneven}),
    ("towers_same_input", "two branches in a ModuleList on one input", Towers,
     (ANY, ANY), TOWERS | {"inputs": lambda: (torch.randn(2, TOKENS, WIDTH),) * 2}),
    ("same_tensor_twice", "the same tensor goes through the same module twice in one with", Block,
     (FIRST, FIRST), {"run": lambda m, x: [m(x), m(x)], "row": "S4"}),
    ("two_tensors", "two tensors go through the same module in one with", Block,
     (FIRST, FIRST), {"run": lambda m, x: [m(x), m(x * 0.5)], "row": "S4"}),
    ("two_lengths", "a long and a short tensor in one with", Block,
     (FIRST, FIRST), {"run": lambda m, x: [m(x), m(x[:, :6])], "row": "S4"}),
    ("two_lengths_rising", "a short and a long tensor in one with: no cache", Block,
     (FIRST, FIRST), {"run": lambda m, x: [m(x[:, :6]), m(x)], "row": "S4"}),
    ("teacher_beside", "the student is probed, a teacher runs in the same with", Both,
     (FIRST, OUTSIDE), part("student")),
    ("teacher_probed", "the same, the second one is probed", Both,
     (OUTSIDE, FIRST), part("teacher")),
    ("attention_outside", "an attention without any module runs in the same with", Both,
     (FIRST, OUTSIDE),
     part("student") | {"run": lambda m, x: [m.student(x), (x @ x.mT).softmax(-1) @ x]}),
):  # fmt: skip
    enter(name, about, build, *truth, **words)


@ways("forward")
class Twice:
    @options(ANY, ANY, inputs=pair, row="S4")
    def siamese(self, x, y):
        """one encoder on two inputs"""
        return Block.forward(self, x) * Block.forward(self, y)


@ways("forward", Module)
class Several:
    @options(ANY, ANY, ANY, project="layer.wo", parts=lambda: {"layer": Block()})
    def shared_layer(self, x):
        """one layer three times (ALBERT)"""
        return self.layer(self.layer(self.layer(x)))

    @options(
        *(ANY, ANY),
        project=("left.wo", "right.wo"),
        parts=lambda: {"left": Block(), "right": Block()},
    )
    def branches(self, x):
        """two branches by name, summed"""
        return self.left(x) + self.right(x)

    @options(ANY, ANY, project="encoder.wo", row="S4", parts=lambda: {"encoder": Block()})
    def siamese_flipped(self, x):
        """one encoder on an input and on the same turned round: enc(a), enc(a.flip(1))"""
        return torch.cat([self.encoder(x), self.encoder(x.flip(1))], -1)

    @options(
        *(FIRST, SECOND, *BEHIND),
        inputs=pair,
        project=tuple(f"{side}.layers.{i}.wo" for side in ("left", "right") for i in range(2)),
        row="S12",
        check=path_only,
        parts=lambda: {"left": base.Stack(), "right": base.Stack()},
    )
    def two_encoders(self, x, y):
        """two encoders of two layers on two inputs"""
        return self.left(x).mean(1) * self.right(y).mean(1)


@style(
    *(FIRST, Attention(kind="cross"), SECOND, Attention(kind="cross", layer=1)),
    inputs=uneven,
    project=tuple(f"layers.{i}.{n}.wo" for i in range(2) for n in ("own", "other")),
)
class Decoder(Module):
    """two decoder layers: self, then cross"""

    def parts(self):
        layers = [nn.ModuleDict({"own": Block(), "other": Block()}) for _ in range(2)]
        return {"layers": nn.ModuleList(layers)}

    def forward(self, x, y):
        for layer in self.layers:
            own, other = layer["own"], layer["other"]
            x = own(x)
            x = x + other.wo(other.attend(x, y))
        return x


@style(FIRST, Attention(layer=1, number=2), project=("layers.0.wo", "layers.2.wo"), row="S12")
class Hybrid(Module):
    """layers 0 and 2 attend, 1 and 3 are recurrent: real numbers of layers"""

    def parts(self):
        rnn = [nn.GRU(WIDTH, WIDTH, batch_first=True) for _ in range(2)]
        return {"layers": nn.ModuleList([Block(), rnn[0], Block(), rnn[1]])}

    def forward(self, x):
        for layer in self.layers:
            out = layer(x)
            x = out[0] if isinstance(out, tuple) else out
        return x
