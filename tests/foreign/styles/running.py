"""Ways of running a module: compiled, scripted, mapped, quantised, in parallel, in other types."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from .base import HEADS, TOKENS, WIDTH, Attention, Block, Stack, enter, sdpa, style, vectors

S10, SECTION_3 = {"row": "S10"}, {"row": "section 3"}
COMPILED = {"says": r"compile|_orig_mod|dynamo", "needs": "torch.compile", **SECTION_3}
SCRIPT = {"project": "=wo", "says": "TorchScript|script|trace", **SECTION_3}


def plainly(module: nn.Module, x: Tensor) -> Any:
    return module(x)


def original(module: Any, *inputs: Any) -> Any:
    """Call a compiled module as it was written."""
    return module._orig_mod(*inputs)


ORIGINAL = {"plain": original, "project": "_orig_mod.wo", **COMPILED}


def compiled_before() -> Any:
    module = torch.compile(Block(), backend="eager")
    module(*vectors())
    return module


@style(**COMPILED | {"plain": lambda m, x: m(x, False), "says": COMPILED["says"] + "|flex"})
class Flex(Block):
    """flex_attention"""

    def forward(self, x, flex=True):
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


def clamp(s: Tensor) -> Tensor:
    """A soft bound on scores (x-transformers)."""
    return torch.tanh(s / 5.0) * 5.0


@cache  # made when they are first needed
def compiled_clamp(how: str) -> Any:
    if how == "script":
        return torch.jit.script(clamp)
    return torch.jit.trace(clamp, (torch.zeros(2, HEADS, TOKENS, TOKENS),))


class Helped(Block):
    """A block whose scores pass through a traced or scripted helper."""

    plain, how = False, "trace"

    def scores(self, q, k):
        return (clamp if self.plain else compiled_clamp(self.how))(super().scores(q, k))


def in_python(module: nn.Module, x: Tensor) -> Any:
    """Call with the helper as written: traced code and dispatch modes do not always agree."""
    for part in module.modules():
        part.plain = True
    return module(x)


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def mapped(module: nn.Module, x: Tensor) -> Tensor:
    return torch.vmap(lambda one: module(one[None])[0])(x)


def by_call(module: nn.Module, x: Tensor) -> Tensor:
    words = {name: p.detach() * 1.1 for name, p in module.named_parameters()}
    return torch.func.functional_call(module, words, (x,))


def block_and_words() -> tuple[Tensor, dict[str, Tensor]]:
    """An input, and parameters that are no module's."""
    return vectors()[0], {name: p.detach() for name, p in Block().named_parameters()}


def weight_norm() -> nn.Module:
    block = Block()
    for part in (block.wq, block.wk, block.wv, block.wo):
        parametrizations.weight_norm(part)
    return block


def spectral_norm() -> nn.Module:
    block = Block()
    parametrizations.spectral_norm(block.wv)
    return block


def int8_dynamic() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(Block(), {nn.Linear}, dtype=torch.qint8)


@style(**SECTION_3)
class Int8Weights(Block):
    """weights of int8 and a scale, multiplied out in forward"""

    def __init__(self):
        super().__init__()
        scale = self.wq.weight.detach().abs().max() / 127
        self.register_buffer("scale", scale)
        self.register_buffer("stored", (self.wq.weight.detach() / scale).round().to(torch.int8))

    def qkv(self, x, y=None):
        q = F.linear(x, self.stored.float() * self.scale)
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
    **SECTION_3,
)
class NestedJagged(Block):
    """SDPA on jagged nested tensors"""

    def split(self, x):
        return x.unflatten(-1, [HEADS, 8]).transpose(1, 2)

    def forward(self, x):
        return self.wo(sdpa(*self.qkv(x)).transpose(1, 2).flatten(-2))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True)
    with torch.no_grad():
        layer.self_attn.in_proj_weight *= 2
    return nn.TransformerEncoder(layer, 1)


def slow(module: nn.Module, *inputs: Any) -> Any:
    """Call without the fast path, which no witness sees into."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return module(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def with_padding() -> tuple[Tensor, None, Tensor]:
    return torch.randn(2, TOKENS, WIDTH), None, torch.arange(TOKENS) >= torch.tensor([[9], [6]])


class Tagged(torch.Tensor):
    """A subclass of Tensor that does nothing of its own."""


HELPER = {"plain": in_python, **S10}
FAST = {"plain": slow, "project": "=layers.0.self_attn.out_proj"}
for name, about, build, truth, words in (
    ("compiled_eager", "torch.compile, backend eager, first called inside the with",
     lambda: torch.compile(Block(), backend="eager"), (), ORIGINAL),
    ("compiled_before", "torch.compile, called once before the with",
     compiled_before, (), ORIGINAL),
    ("compiled_inside", "torch.compile inside the with, backend aot_eager", Block, (),
     COMPILED | {"run": lambda m, x: torch.compile(m, backend="aot_eager")(x), "plain": plainly}),
    ("jit_script", "torch.jit.script of the whole module",
     lambda: torch.jit.script(Scriptable()), (), SCRIPT),
    ("jit_trace", "torch.jit.trace of the whole module",
     lambda: torch.jit.trace(Scriptable().eval(), vectors()), (), SCRIPT),
    ("exported_module", "a module out of torch.export", Exported, (), {"project": "=wo"}),
    ("helper_traced", "a traced helper on the scores (softclamp)", Helped, (), HELPER),
    ("helper_scripted", "a scripted helper on the scores", Helped.of(how="script"), (), HELPER),
    ("helper_traced_layers", "three layers with it", Stack.of(block=Helped, depth=3),
     tuple(Attention(layer=layer) for layer in range(3)),
     {"plain": in_python, "project": tuple(f"layers.{i}.wo" for i in range(3)), "row": "S8"}),
    ("vmap", "torch.vmap over the batch", Block,
     (Attention("bwhqk"),), {"run": mapped, "says": "vmap", **SECTION_3}),
    ("vmap_models", "torch.vmap over an axis of one", Block, (),
     {"run": lambda m, x: torch.vmap(m)(x[None])[0], "plain": plainly,
      "says": "vmap", **SECTION_3}),
    ("functional_call", "torch.func.functional_call with parameters computed inside the with",
     Block, (), {"run": by_call, **S10}),
    ("functional_call_outside", "torch.func.functional_call with parameters that were made before",
     Block, (), {"inputs": block_and_words, **S10,
                 "run": lambda m, x, words: torch.func.functional_call(m, words, (x,))}),
    ("jvp", "torch.func.jvp", Block, (),
     {"run": lambda m, x: torch.func.jvp(m, (x,), (x,))[0], "plain": plainly}),
    ("grad", "torch.func.grad", Block, (),
     {"run": lambda m, x: torch.func.grad(lambda y: m(y).square().mean())(x)}),
    ("data_parallel", "nn.DataParallel on a CPU",
     lambda: nn.DataParallel(Block()), (), {"project": "module.wo"}),
    ("weight_norm", "weight_norm on all projections, by parametrisation", weight_norm, (), {}),
    ("spectral_norm", "spectral_norm on the values, by parametrisation", spectral_norm, (), {}),
    ("int8_dynamic", "quantize_dynamic to int8", int8_dynamic, (),
     {"says": "quanti|int8|packed", "needs": "an engine for quantised layers", **SECTION_3}),
    ("encoder_fast_path", "nn.TransformerEncoder in evaluation: the fast path",
     encoder, (), FAST),
    ("encoder_padding", "nn.TransformerEncoder with padding: zeros there by the nested path",
     encoder, (), FAST | {"inputs": with_padding, "row": "S19", "says": "padd|fast path|nested"}),
    ("copied", "a deepcopy of the probed module runs in the with", Block, (),
     {"run": lambda m, x: copy.deepcopy(m)(x)}),
    ("inference_mode", "torch.inference_mode", Block, (), {"around": torch.inference_mode}),
    ("tensor_subclass", "the input is of a subclass of Tensor", Block, (),
     {"run": lambda m, x: m(x.as_subclass(Tagged)).as_subclass(torch.Tensor), "plain": plainly}),
    ("helper_autograd", "the scores pass through an autograd.Function that is the identity",
     Block.of(scores=lambda self, q, k: Identity.apply(Block.scores(self, q, k))), (), S10),
):  # fmt: skip
    enter(name, about, build, *truth, **words)

# Numbers of other types.

HALF = 2e-2  # relative; two neighbours in bfloat16 are up to 8e-3 apart, in float16 an eighth
SHOWN = 1e-4  # weights are shown in float32, whatever the model rounds to


def of_type(dtype: torch.dtype) -> dict[str, Any]:
    return {"inputs": lambda: (torch.randn(2, TOKENS, WIDTH).to(dtype),)}


class Fused(Block):
    """Sharp logits over SDPA."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.wq.weight *= 2

    def combine(self, q, k, v):
        return sdpa(q, k, v)


BFLOAT = {**of_type(torch.bfloat16), "tolerance": HALF}
DOUBLE = {"inputs": lambda: (torch.randn(2, TOKENS, WIDTH, dtype=torch.float64),),
          "tolerance": 1e-12, "row": "smaller"}  # fmt: skip
AUTOCAST = {"around": lambda: torch.autocast("cpu", torch.bfloat16), "tolerance": HALF}
SDPA = {"exact": SHOWN, "row": "S13"}
for name, about, build, words in (
    ("bfloat_eager", "bfloat16, eager", lambda: Block().bfloat16(), BFLOAT),
    ("bfloat_sdpa", "bfloat16 over SDPA", lambda: Fused().bfloat16(), BFLOAT | SDPA),
    ("half_sdpa", "float16 over SDPA", lambda: Fused().half(),
     {"inputs": lambda: (torch.randn(2, TOKENS, WIDTH).bfloat16().half(),),
      "tolerance": HALF / 8, **SDPA}),
    ("autocast_eager", "autocast to bfloat16, eager", Block, AUTOCAST),
    ("autocast_sdpa", "autocast to bfloat16 over SDPA", Fused, AUTOCAST | SDPA),
    ("float64_eager", "float64: edited in float64", lambda: Block().double(), DOUBLE),
    ("float64_sdpa", "float64 over SDPA", lambda: Fused().double(), DOUBLE),
):  # fmt: skip
    enter(name, about, build, **words)


@style(**BFLOAT)
class Upcast(Block):
    """bfloat16, softmax in float32 (Llama)"""

    def __init__(self):
        super().__init__()
        self.bfloat16()

    def soft(self, s):
        return self.tap("multiplied", F.softmax(s, dim=-1, dtype=torch.float32).to(s.dtype))
