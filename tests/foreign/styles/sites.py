"""Several attentions in one module: towers, branches, shared layers, and their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor, nn

from transformer_viz.core.interventions import Edit, Intervention, Temperature

from .. import oracle
from ..witness import Law, Witness
from .base import TOKENS, WIDTH, Attention, Block, Other, Style, style

FIRST, SECOND = Attention(), Attention(layer=1)


class Stack(nn.Module):
    """Blocks one after the other."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@style(FIRST, SECOND, Attention(layer=2), project=tuple(f"layers.{i}.wo" for i in range(3)))
def three_layers() -> nn.Module:
    """three layers: the usual one"""
    return Stack(3)


@style(FIRST, SECOND, project=("0.wo", "1.wo"))
def sequential() -> nn.Module:
    """nn.Sequential of blocks"""
    return nn.Sequential(Block(), Block())


@style(*(Attention(site=False) for _ in range(3)), project="layer.wo")
class SharedLayer(nn.Module):
    """one layer three times (ALBERT)"""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(self.layer(x)))


def second_only(style: Style) -> str:
    """Whether an edit of layer 1 acts on the second layer alone."""
    module, inputs = oracle.fresh(style)
    with torch.no_grad():
        with Witness((Other("spared"), SECOND), Law("temperature")):
            wanted = module(*inputs)
        with oracle.probe(module, Intervention((Temperature(value=2.0, layer=1),))):
            got = module(*inputs)
    off = oracle.far([got], [wanted])
    return f"temperature of layer 1 off by {off:.0e}" if off > style.tolerance else ""


@style(FIRST, SECOND, project=("layers.0.wo", "layers.1.wo"), check=second_only)
def two_layers_edit_one() -> nn.Module:
    """an edit of the second of two layers"""
    return Stack()


def pair() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), torch.randn(2, TOKENS, WIDTH)


def uneven() -> tuple[Tensor, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), torch.randn(2, 5, WIDTH)


class Towers(nn.Module):
    """Two blocks in one list, each on its own input."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return tuple(tower(z) for tower, z in zip(self.towers, (x, y), strict=True))


TOWERS = ("towers.0.wo", "towers.1.wo")
ANY = Attention(site=False)


@style(ANY, ANY, inputs=pair, project=TOWERS, row="S8")
def towers() -> nn.Module:
    """two towers in a ModuleList, on two inputs"""
    return Towers()


@style(ANY, ANY, inputs=uneven, project=TOWERS, row="S8")
def towers_uneven() -> nn.Module:
    """the same on inputs of unlike lengths"""
    return Towers()


@style(ANY, ANY, inputs=lambda: (torch.randn(2, TOKENS, WIDTH),) * 2, project=TOWERS, row="S8")
def towers_same_input() -> nn.Module:
    """two branches in a ModuleList on one input"""
    return Towers()


@style(ANY, ANY, project=("left.wo", "right.wo"))
class Branches(nn.Module):
    """two branches by name, summed"""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(x)


@style(ANY, ANY, inputs=pair, project="wo", row="S4")
class Siamese(Block):
    """one encoder on two inputs"""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * super().forward(y)


@style(ANY, ANY, project="encoder.wo", row="S4")
class SiameseFlipped(nn.Module):
    """one encoder on an input and on the same turned round: enc(a), enc(a.flip(1))"""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Block()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.encoder(x), self.encoder(x.flip(1))], -1)


def twice(module: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    return [module(x), module(x)]


@style(Attention(), Attention(), run=twice, row="S4")
class SameTensorTwice(Block):
    """the same tensor goes through the same module twice in one with"""


@style(Attention(), Attention(), run=lambda m, x: [m(x), m(x * 0.5)], row="S4")
class TwoTensors(Block):
    """two tensors go through the same module in one with"""


@style(Attention(), Attention(), run=lambda m, x: [m(x), m(x[:, :6])], row="S4")
class TwoLengths(Block):
    """a long and a short tensor in one with"""


@style(Attention(), Attention(), run=lambda m, x: [m(x[:, :6]), m(x)], row="S4")
class TwoLengthsRising(Block):
    """a short and a long tensor in one with: no cache"""


#: The layers of a second encoder: counted on behind those of the first.
BEHIND = (Attention(layer=2), Attention(layer=3))


def paths_can_be_named(style: Style) -> str:
    """Whether an edit can name one of two encoders by its path, and acts there alone."""
    if "path" not in {field.name for field in fields(Edit)}:
        return "no edit can name one of the two encoders: there is no selector for a path"
    module, inputs = oracle.fresh(style)
    edit = Temperature(value=2.0, path="right*")  # type: ignore[call-arg]
    spared = Other("spared")
    with torch.no_grad():
        with Witness((spared, spared, *BEHIND), Law("temperature")):
            wanted = module(*inputs)
        with oracle.probe(module, Intervention((edit,))):
            got = module(*inputs)
    off = oracle.far([got], [wanted])
    return f"temperature of path right* off by {off:.0e}" if off > style.tolerance else ""


@style(
    *(FIRST, SECOND, *BEHIND),
    inputs=pair,
    project=tuple(f"{side}.layers.{i}.wo" for side in ("left", "right") for i in range(2)),
    row="S12",
    check=paths_can_be_named,
)
class TwoEncoders(nn.Module):
    """two encoders of two layers on two inputs"""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Stack(), Stack()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.left(x).mean(1) * self.right(y).mean(1)


@style(
    *(FIRST, Attention(kind="cross"), SECOND, Attention(kind="cross", layer=1)),
    inputs=uneven,
    project=tuple(f"layers.{i}.{n}.wo" for i in range(2) for n in ("own", "other")),
)
class Decoder(nn.Module):
    """two decoder layers: self, then cross"""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"own": Block(), "other": Block()}) for _ in range(2)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for layer in self.layers:
            own, other = layer["own"], layer["other"]
            x = own(x)
            q, k, v = other.qkv(x, y)
            x = x + other.wo(other.join(other.weigh(q, k) @ v))
        return x


@style(
    *(FIRST, Attention(layer=1, number=2)),
    project=("layers.0.wo", "layers.2.wo"),
    row="S12",
)
class Hybrid(nn.Module):
    """layers 0 and 2 attend, 1 and 3 are recurrent: real numbers of layers"""

    def __init__(self) -> None:
        super().__init__()
        rnn = [nn.GRU(WIDTH, WIDTH, batch_first=True) for _ in range(2)]
        self.layers = nn.ModuleList([Block(), rnn[0], Block(), rnn[1]])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            out = layer(x)
            x = out[0] if isinstance(out, tuple) else out
        return x


def first_layer(module: nn.Module) -> nn.Module:
    return module.get_submodule("layers.0")


@style(FIRST, Other("outside"), probed=first_layer, project="layers.0.wo", row="S3")
def part_of_model() -> nn.Module:
    """one layer is probed while the whole model runs"""
    return Stack()


class Pair(nn.Module):
    """A student and a teacher, for one call of both."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = Block(), Block()

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.student(x), self.teacher(x)]


@style(
    *(FIRST, Other("outside")),
    probed=lambda module: module.get_submodule("student"),
    project="student.wo",
    row="S3",
)
def teacher_beside() -> nn.Module:
    """the student is probed, a teacher runs in the same with"""
    return Pair()


@style(
    *(Other("outside"), FIRST),
    probed=lambda module: module.get_submodule("teacher"),
    project="teacher.wo",
    row="S3",
)
def teacher_probed() -> nn.Module:
    """the same, the second one is probed"""
    return Pair()


@style(
    *(FIRST, Other("outside")),
    probed=lambda module: module.get_submodule("student"),
    run=lambda module, x: [module.get_submodule("student")(x), (x @ x.mT).softmax(-1) @ x],
    project="student.wo",
    row="S3",
)
def attention_outside() -> nn.Module:
    """an attention without any module runs in the same with"""
    return Pair()
