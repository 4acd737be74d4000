"""Ways of running a module: compiled, scripted, mapped, nested, quantised, in parallel."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from .base import HEADS, TOKENS, WIDTH, Attention, Block, style, vectors

COMPILED = r"compile|_orig_mod|dynamo"


def original(module: Any, *inputs: Any) -> Any:
    """A compiled module as it was written."""
    return module._orig_mod(*inputs)


@style(
    run=lambda m, x: m(x),
    plain=original,
    project="_orig_mod.wo",
    says=COMPILED,
    needs="torch.compile",
    row="section 3",
)
def compiled_eager() -> Any:
    """torch.compile, backend eager, first called inside the with"""
    return torch.compile(Block(), backend="eager")


def warmed(module: Any, x: Tensor) -> Any:
    return module(x)


@style(
    plain=original, project="_orig_mod.wo", says=COMPILED, needs="torch.compile", row="section 3"
)
def compiled_before() -> Any:
    """torch.compile, called once before the with"""
    module = torch.compile(Block(), backend="eager")
    module(*vectors())
    return module


@style(
    run=lambda m, x: torch.compile(m, backend="aot_eager")(x),
    plain=lambda m, x: m(x),
    says=COMPILED,
    needs="torch.compile",
    row="section 3",
)
class CompiledInside(Block):
    """torch.compile inside the with, backend aot_eager"""


@style(
    plain=lambda m, x: m(x, False), says=COMPILED + "|flex", needs="torch.compile", row="section 3"
)
class Flex(Block):
    """flex_attention"""

    def forward(self, x: Tensor, flex: bool = True) -> Tensor:  # type: ignore[override]
        if not flex:
            return super().forward(x)
        from torch.nn.attention.flex_attention import flex_attention

        return x + self.wo(self.join(flex_attention(*self.qkv(x))))


class Scriptable(nn.Module):
    """A block that TorchScript can read."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        with torch.no_grad():
            self.wq.weight.mul_(3)
            self.wk.weight.mul_(3)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, 4, 8).transpose(1, 2)
        k = self.wk(x).view(b, t, 4, 8).transpose(1, 2)
        v = self.wv(x).view(b, t, 4, 8).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, dim=-1)
        return x + self.wo((w @ v).transpose(1, 2).reshape(b, t, 32))


SCRIPT = "TorchScript|script|trace"


@style(project="=wo", says=SCRIPT, row="section 3")
def jit_script() -> Any:
    """torch.jit.script of the whole module"""
    return torch.jit.script(Scriptable())


@style(project="=wo", says=SCRIPT, row="section 3")
def jit_trace() -> Any:
    """torch.jit.trace of the whole module"""
    return torch.jit.trace(Scriptable().eval(), vectors())


def clamp(s: Tensor) -> Tensor:
    """A soft bound on scores (x-transformers)."""
    return torch.tanh(s / 5.0) * 5.0


@cache
def traced_clamp() -> Callable[[Tensor], Tensor]:
    """The same, compiled by tracing; made when it is first needed."""
    return torch.jit.trace(clamp, (torch.zeros(2, HEADS, TOKENS, TOKENS),))


@cache
def scripted_clamp() -> Callable[[Tensor], Tensor]:
    """The same, compiled by scripting."""
    return torch.jit.script(clamp)


class Helped(Block):
    """A block whose scores pass through a traced helper."""

    plain = False
    compiled = staticmethod(traced_clamp)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (clamp if self.plain else self.compiled())(super().scores(q, k))


def in_python(module: nn.Module, x: Tensor) -> Any:
    """With the helper as it was written: traced code and dispatch modes do not always agree."""
    for part in module.modules():
        part.plain = True  # type: ignore[assignment]
    return module(x)


@style(plain=in_python, row="S10")
class HelperTraced(Helped):
    """a traced helper on the scores (softclamp)"""


@style(plain=in_python, row="S10")
class HelperScripted(Helped):
    """a scripted helper on the scores"""

    compiled = staticmethod(scripted_clamp)


@style(
    *(Attention(layer=layer) for layer in range(3)),
    plain=in_python,
    project=tuple(f"layers.{i}.wo" for i in range(3)),
    row="S8",
)
class HelperTracedLayers(nn.Module):
    """three layers with it"""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Helped() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@style(row="S10")
class HelperAutograd(Block):
    """the scores pass through an autograd.Function that is the identity"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return Identity.apply(super().scores(q, k))


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def mapped(module: nn.Module, x: Tensor) -> Tensor:
    return torch.vmap(lambda one: module(one[None])[0])(x)


@style(Attention("bwhqk"), run=mapped, says="vmap", row="section 3")
class Vmap(Block):
    """torch.vmap over the batch"""


@style(
    Attention(),
    run=lambda m, x: torch.vmap(m)(x[None])[0],
    plain=lambda m, x: m(x),
    says="vmap",
    row="section 3",
)
class VmapModels(Block):
    """torch.vmap over an axis of one"""


def by_call(module: nn.Module, x: Tensor) -> Tensor:
    words = {name: p.detach() * 1.1 for name, p in module.named_parameters()}
    return torch.func.functional_call(module, words, (x,))


@style(run=by_call, row="S10")
class FunctionalCall(Block):
    """torch.func.functional_call with parameters computed inside the with"""


def block_and_words() -> tuple[Tensor, dict[str, Tensor]]:
    """An input, and parameters that are no module's."""
    return vectors()[0], {name: p.detach() for name, p in Block().named_parameters()}


@style(
    inputs=block_and_words,
    run=lambda m, x, words: torch.func.functional_call(m, words, (x,)),
    row="S10",
)
class FunctionalCallOutside(Block):
    """torch.func.functional_call with parameters that were made before"""


@style(run=lambda m, x: torch.func.jvp(m, (x,), (x,))[0], plain=lambda m, x: m(x))
class Jvp(Block):
    """torch.func.jvp"""


@style(run=lambda m, x: torch.func.grad(lambda y: m(y).square().mean())(x))
class Grad(Block):
    """torch.func.grad"""


@style(project="module.wo")
def data_parallel() -> nn.Module:
    """nn.DataParallel on a CPU"""
    return nn.DataParallel(Block())


@style()
def weight_norm() -> nn.Module:
    """weight_norm on all projections, by parametrisation"""
    block = Block()
    for part in (block.wq, block.wk, block.wv, block.wo):
        parametrizations.weight_norm(part)
    return block


@style()
def spectral_norm() -> nn.Module:
    """spectral_norm on the values, by parametrisation"""
    block = Block()
    parametrizations.spectral_norm(block.wv)
    return block


@style(says="quanti|int8|packed", needs="an engine for quantised layers", row="section 3")
def int8_dynamic() -> nn.Module:
    """quantize_dynamic to int8"""
    return torch.ao.quantization.quantize_dynamic(Block(), {nn.Linear}, dtype=torch.qint8)


@style(row="section 3")
class Int8Weights(Block):
    """weights of int8 and a scale, multiplied out in forward"""

    def __init__(self) -> None:
        super().__init__()
        scale = self.wq.weight.detach().abs().max() / 127
        self.register_buffer("scale", scale)
        self.register_buffer("stored", (self.wq.weight.detach() / scale).round().to(torch.int8))

    def qkv(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q = F.linear(x, self.get_buffer("stored").float() * self.get_buffer("scale"))
        return self.split(q), self.split(self.wk(x)), self.split(self.wv(x))


def ragged() -> tuple[Tensor]:
    items = [torch.randn(9, WIDTH), torch.randn(5, WIDTH)]
    return (torch.nested.nested_tensor(items, layout=torch.jagged),)


@style(
    *(Attention(site=False), Attention(site=False)),
    inputs=ragged,
    plain=lambda m, x: [m(item[None]) for item in x.unbind()],
    laws=(),
    rounds=True,
    says="nested|jagged",
    row="section 3",
)
class NestedJagged(Block):
    """SDPA on jagged nested tensors"""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, [HEADS, 8]).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(*self.qkv(x))
        return self.wo(out.transpose(1, 2).flatten(-2))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True)
    with torch.no_grad():
        layer.self_attn.in_proj_weight *= 2
    return nn.TransformerEncoder(layer, 1)


def slow(module: nn.Module, *inputs: Any) -> Any:
    """Without the fast path, which no witness sees into."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return module(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def with_padding() -> tuple[Tensor, None, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), None, torch.arange(TOKENS) >= torch.tensor([[9], [6]])


@style(plain=slow, project="=layers.0.self_attn.out_proj", inputs=vectors)
def encoder_fast_path() -> nn.Module:
    """nn.TransformerEncoder in evaluation: the fast path"""
    return encoder()


@style(
    plain=slow,
    project="=layers.0.self_attn.out_proj",
    inputs=with_padding,
    row="S19",
    says="padd|fast path|nested",
)
def encoder_padding() -> nn.Module:
    """nn.TransformerEncoder with a padding mask: zeros at padded places by the nested path"""
    return encoder()


@style(run=lambda m, x: copy.deepcopy(m)(x))
class Copied(Block):
    """a deepcopy of the probed module runs in the with"""


@style(around=torch.inference_mode)
class InferenceMode(Block):
    """torch.inference_mode"""


class Tagged(torch.Tensor):
    """A subclass of Tensor that does nothing of its own."""


@style(run=lambda m, x: m(x.as_subclass(Tagged)).as_subclass(torch.Tensor), plain=lambda m, x: m(x))
class TensorSubclass(Block):
    """the input is of a subclass of Tensor"""


@style(run=lambda m, x: m(x), project="=wo")
def exported_module() -> Any:
    """a module out of torch.export"""
    return Exported()


class Exported(nn.Module):
    """Holds a module out of torch.export, and shows its projection."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.export.export(Scriptable().eval(), vectors()).module()
        self.wo: Any = self.inner.get_submodule("wo")

    def train(self, mode: bool = True) -> Exported:
        return self  # exported modules refuse it

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)
