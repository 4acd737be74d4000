"""Files as labml_nn/transformers saves them, and what its code computes from them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.layouts import labml

from .annotated import sinusoid
from .jadore import inputs
from .rows import Row, compared
from .witness import State, Streams, attend, hidden_future, hidden_keys, layer_norm, linear, random

D, H, WIDE, VS, VT, P = 15, 5, 17, 19, 23, 29
LAYERS = {"encoder": 2, "decoder": 3}
WITNESS = "float64, by hand from the file's tensors"
#: What a kind of file does otherwise than the encoder-decoder with the sinusoid.
VARIANTS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {},
    "encoder-decoder, no query and key bias, gated silu": {
        "qk_bias": False,
        "gated": True,
        "ffn_bias": False,
        "activation": "silu",
    },
    "encoder-decoder, learned positions, gelu": {"positions": "learned", "activation": "gelu"},
    "encoder-decoder, gated with biases": {"gated": True},
    "encoder-decoder, no positions": {"positions": "none"},
    "one stack, GPT-like": {"kind": "decoder-only"},
    "one stack, GPT-like, no positions": {"kind": "decoder-only", "positions": "none"},
    "one stack, masked": {"kind": "encoder-only"},
}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def state(words: Mapping[str, Any]) -> dict[str, Tensor]:
    """A state dict with the names of the code."""
    twofold = "kind" not in words
    positions = words.get("positions", "sinusoidal")
    stacks = {"encoder": ("src_embed", VS), "decoder": ("tgt_embed", VT)}
    shapes: dict[str, tuple[int, ...]] = {
        "generator__projection__weight": (VT, D),
        "generator__projection__bias": (VT,),
    }
    for stack, (embed, vocabulary) in list(stacks.items())[: 2 if twofold else 1]:
        table = f"{embed}__weight" if positions == "none" else f"{embed}__linear__weight"
        shapes[table] = (vocabulary if twofold else VT, D)
        if positions == "learned":
            shapes[f"{embed}__positional_encodings"] = (P, 1, D)
        blocks = ("self_attn", "src_attn") if stack == "decoder" else ("self_attn",)
        for n in range(LAYERS[stack]):
            at = f"{stack}__layers__{n}__"
            for block in blocks:
                for part in ("query", "key", "value"):
                    shapes[f"{at}{block}__{part}__linear__weight"] = (D, D)
                    if part == "value" or words.get("qk_bias", True):
                        shapes[f"{at}{block}__{part}__linear__bias"] = (D,)
                shapes[f"{at}{block}__output__weight"] = (D, D)
                shapes[f"{at}{block}__output__bias"] = (D,)
            parts = {"layer1": (WIDE, D), "layer2": (D, WIDE)}
            if words.get("gated"):
                parts["linear_v"] = (WIDE, D)
            for part, shape in parts.items():
                shapes[f"{at}feed_forward__{part}__weight"] = shape
                if words.get("ffn_bias", True):
                    shapes[f"{at}feed_forward__{part}__bias"] = shape[:1]
            for name in ("norm_ff", *(f"norm_{block}" for block in blocks)):
                shapes |= {f"{at}{name}__{part}": (D,) for part in ("weight", "bias")}
        shapes |= {f"{stack}__norm__{part}": (D,) for part in ("weight", "bias")}
    made = random(13, **shapes)
    if positions == "sinusoidal":
        for embed in ("src_embed", "tgt_embed")[: 2 if twofold else 1]:
            made[f"{embed}.positional_encodings"] = sinusoid()[0][:, None]
    return made


def witness(
    w: State,
    words: Mapping[str, Any],
    source: Tensor,
    target: Tensor | None,
    pad: int | None,
    streams: Streams | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Attention maps in call order and logits; ``streams`` takes in what flows between layers."""
    streams = {"encoder": [], "decoder": []} if streams is None else streams
    maps: list[Tensor] = []
    activation = ACTIVATIONS[words.get("activation", "relu")]

    def norm(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def attention(at: str, queries: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        q = linear(queries, w, f"{at}.query.linear")
        k, v = linear(keys, w, f"{at}.key.linear"), linear(keys, w, f"{at}.value.linear")
        context, weights = attend(q, k, v, H, hidden, float("-inf"))
        maps.append(weights)
        return linear(context, w, f"{at}.output")

    def feed_forward(at: str, x: Tensor) -> Tensor:
        inner = activation(linear(x, w, f"{at}.layer1"))
        if words.get("gated"):
            inner = inner * linear(x, w, f"{at}.linear_v")
        return linear(inner, w, f"{at}.layer2")

    def stack(name: str, embed: str, ids: Tensor, hidden: Tensor, memory: Any = None) -> Tensor:
        if f"{embed}.weight" in w:
            x = w[f"{embed}.weight"].double()[ids]
        else:
            x = w[f"{embed}.linear.weight"].double()[ids] * D**0.5
            x = x + w[f"{embed}.positional_encodings"][: ids.shape[1], 0].double()
        for n in range(LAYERS[name]):
            streams[name].append(x)
            at = f"{name}.layers.{n}"
            y = norm(x, f"{at}.norm_self_attn")
            x = x + attention(f"{at}.self_attn", y, y, hidden)
            if memory is not None:
                y = norm(x, f"{at}.norm_src_attn")
                x = x + attention(f"{at}.src_attn", y, *memory)
            x = x + feed_forward(f"{at}.feed_forward", norm(x, f"{at}.norm_ff"))
        streams[name].append(norm(x, f"{name}.norm"))
        return streams[name][-1]

    own = hidden_keys(source, pad, source.shape[1])
    if words.get("kind") == "decoder-only":
        own = own | hidden_future(source)
    memory = x = stack("encoder", "src_embed", source, own)
    if target is not None:
        own = hidden_keys(target, pad, target.shape[1]) | hidden_future(target)
        cross = hidden_keys(source, pad, target.shape[1])
        x = stack("decoder", "tgt_embed", target, own, (memory, cross))
    return maps, linear(x, w, "generator.projection")


@cache
def rows() -> list[Row]:
    """Every kind of file; with a padding id, which only the user knows, in some."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, words in VARIANTS.items():
            held, path = state(words), Path(folder) / "model.pt"
            torch.save(held, path)
            said = {word: words[word] for word in ("kind", "activation") if word in words}
            for pad in (None, 1):
                given = said | {"heads": H} | ({} if pad is None else {"pad_id": pad})
                model = labml.open(Candidate(path, {}), None, given)
                for case, (source, target) in inputs(1).items():
                    if pad is None and case != "padding":
                        continue
                    pair = (source, None if "kind" in words else target)
                    apart = compared(model, pair, *witness(held, words, *pair, pad))
                    case = "no padding id" if pad is None else case
                    found.append(Row(labml.NAME, f"{name}; {case}", *apart, WITNESS))
    return found
