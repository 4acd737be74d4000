"""Files of PyTorch's own Transformer stacks, and what its code computes from them."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.layouts import torch_core

from .drawn import Attended, drawn, opened, row
from .rows import Row
from .witness import State, attend, hidden_future, layer_norm, linear

D, E, H, F, LAYERS = 15, 25, 5, 17, 2


@dataclass(frozen=True)
class Variant:
    """One kind of core: its stacks by prefix, and what its file does not say."""

    name: str
    encoder: str | None = "encoder."
    decoder: str | None = "decoder."
    memory: int = D  # the width of what the decoder looks at
    bias: bool = True
    final: bool = True
    words: dict[str, Any] = field(default_factory=dict)

    @property
    def pre(self) -> bool:
        return self.words.get("norm") == "pre"


PRE = {"norm": "pre", "activation": "gelu"}
VARIANTS = (
    Variant("nn.Transformer; norm after, relu"),
    Variant("nn.Transformer; norm before, gelu", words=PRE),
    Variant("nn.Transformer; no biases", bias=False),
    Variant("nn.Transformer; no biases, norm before", bias=False, words=PRE),
    Variant("nn.Transformer; another eps", words={"norm_eps": 0.03}),
    Variant("TransformerEncoder; no last norm", encoder="", decoder=None, final=False),
    Variant("TransformerEncoder; norm before", encoder="", decoder=None, words=PRE),
    Variant("TransformerDecoder alone", encoder=None, decoder=""),
    Variant("decoder with keys and values of another width", memory=E),
)


def shapes_of(part: nn.Module, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a module's weights."""
    return {prefix + name: tuple(weight.shape) for name, weight in part.state_dict().items()}


def stack(memory: int, cross: bool, bias: bool, final: bool) -> nn.Module:
    """Return PyTorch's stack of encoder layers, or of decoder layers that look at ``memory``."""
    width = D if cross else memory
    norm = nn.LayerNorm(width, bias=bias) if final else None
    if not cross:
        layer = nn.TransformerEncoderLayer(width, H, F, bias=bias)
        return nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
    layer = nn.TransformerDecoderLayer(width, H, F, bias=bias)
    sides = {"kdim": memory, "vdim": memory}
    layer.multihead_attn = nn.MultiheadAttention(width, H, bias=bias, **sides)
    return nn.TransformerDecoder(layer, LAYERS, norm)


def state(v: Variant) -> dict[str, Tensor]:
    """A state dict as ``torch.save(core.state_dict())`` writes it."""
    shapes: dict[str, tuple[int, ...]] = {}
    for prefix, cross in ((v.encoder, False), (v.decoder, True)):
        if prefix is not None:
            shapes |= shapes_of(stack(v.memory, cross, v.bias, v.final), prefix)
    return drawn(shapes, "norm")


class Literal:
    """PyTorch's stacks written out: what each layer does, with a list of the maps it saw."""

    def __init__(self, w: State, heads: int, pre: bool = False, gelu: bool = False, eps=1e-5):
        self.w, self.heads, self.pre, self.gelu, self.eps = w, heads, pre, gelu, eps
        self.maps: list[Tensor] = []

    def norm(self, x: Tensor, name: str, eps: float | None = None) -> Tensor:
        gain = self.w[f"{name}.weight"]
        bias = self.w.get(f"{name}.bias", torch.zeros_like(gain))
        return layer_norm(x, gain, bias, self.eps if eps is None else eps)

    def attention(self, at: str, x: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        width, w = x.shape[-1], self.w
        if f"{at}.in_proj_weight" in w:
            query, key, value = w[f"{at}.in_proj_weight"].double().split(width)
        else:
            query, key, value = (w[f"{at}.{name}_proj_weight"].double() for name in "qkv")
        biases = w.get(f"{at}.in_proj_bias", torch.zeros(3 * width)).double().split(width)
        parts = [
            given @ matrix.T + bias
            for given, matrix, bias in zip(
                (x, memory, memory), (query, key, value), biases, strict=True
            )
        ]
        mixed, weights = attend(*parts, self.heads, hidden, -math.inf)
        self.maps.append(weights.nan_to_num(0.0))  # a row that may see nothing gathers nothing
        return linear(mixed.nan_to_num(0.0), w, f"{at}.out_proj")

    def feed(self, at: str, x: Tensor) -> Tensor:
        y = linear(x, self.w, f"{at}linear1")
        y = y * (1 + torch.erf(y / math.sqrt(2))) / 2 if self.gelu else y.clamp(min=0)
        return linear(y, self.w, f"{at}linear2")

    def stack(
        self,
        prefix: str,
        x: Tensor,
        hidden: Tensor,
        memory: Tensor | None = None,
        hidden_memory: Tensor | None = None,
        last_eps: float | None = None,
    ) -> Tensor:
        for n in range(LAYERS):
            at = f"{prefix}layers.{n}."

            def own(y: Tensor, at: str = at) -> Tensor:
                return self.attention(f"{at}self_attn", y, y, hidden)

            def cross(y: Tensor, at: str = at) -> Tensor:
                return self.attention(f"{at}multihead_attn", y, memory, hidden_memory)

            def feed(y: Tensor, at: str = at) -> Tensor:
                return self.feed(at, y)

            parts = (own, feed) if memory is None else (own, cross, feed)
            for number, part in enumerate(parts, start=1):
                name = f"{at}norm{number}"
                x = x + part(self.norm(x, name)) if self.pre else self.norm(x + part(x), name)
        return self.norm(x, f"{prefix}norm", last_eps) if f"{prefix}norm.weight" in self.w else x


def witness(w: State, v: Variant, given: tuple[Tensor | None, ...]) -> Attended:
    """Attention in the order of the calls, and the states that come out."""
    source, target, visible = given
    assert source is not None
    eps = v.words.get("norm_eps", 1e-5)
    core = Literal(w, H, v.pre, v.words.get("activation") == "gelu", eps)
    memory = source.double()
    unseen = torch.zeros(memory.shape[:2], dtype=torch.bool) if visible is None else ~visible
    if v.encoder is not None:
        ready_made = None if v.encoder else 1e-5
        memory = core.stack(v.encoder, memory, unseen[:, None], last_eps=ready_made)
    if target is None:
        return core.maps, memory
    later = hidden_future(target[..., 0])
    return core.maps, core.stack(v.decoder or "", target.double(), later, memory, unseen[:, None])


def inputs(v: Variant) -> dict[str, tuple[Tensor | None, ...]]:
    """Vectors for a batch of two; and once with source tokens hidden, in one row all of them."""
    draw = torch.Generator().manual_seed(7)
    source = torch.randn(2, 5, v.memory, generator=draw)
    target = None if v.decoder is None else torch.randn(2, 4, D, generator=draw)
    some = torch.tensor([[True, True, False, True, False], [False] * 5])
    if v is not VARIANTS[0]:
        return {"": (source, target, None)}
    return {"": (source, target, None), "; rows that may see nothing": (source, target, some)}


def model_of(v: Variant, folder: Path) -> Model:
    """The variant as a visitor's file is opened."""
    path = folder / "core.pt"
    torch.save(state(v), path)
    return opened(torch_core, path, heads=H, **v.words)


@cache
def rows() -> list[Row]:
    """Every kind of core, over vectors."""
    found = []
    for v in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            model = model_of(v, Path(folder))
            for case, given in inputs(v).items():
                held = witness(state(v), v, given)
                found.append(row(torch_core.NAME, v.name + case, model, given, held))
    return found
