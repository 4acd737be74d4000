"""Checkpoints of fairseq's translation models, made as it saves them, and what they compute."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.checkpoints import gpt
from tests.checkpoints.drawn import Attended, drawn, opened, row
from tests.checkpoints.rows import Row
from tests.checkpoints.witness import attend, hidden_future, hidden_keys, layer_norm, linear
from transformer_viz.checkpoints.layouts import fairseq

VS, VT, D, HEADS, F_, LAYERS, P = 37, 41, 22, 2, 29, (3, 2), 19
PAD, END = 1, 2
#: Sources end with </s>; the second is padded at the right, the third at the left and inside.
SOURCES = torch.tensor(
    [[5, 11, 8, 36, 4, 7, END], [9, 30, 6, END, PAD, PAD, PAD], [PAD, PAD, 12, PAD, 21, 14, END]]
)
TARGETS = torch.tensor([[END, 40, 17, 9, 9], [END, 4, 28, PAD, PAD], [END, PAD, 33, 6, 5]])
ONLY_PADDING = torch.tensor([[PAD, PAD, PAD]])  # every row of the encoder is empty


ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_fast": gpt.tanh,
    "gelu_accurate": gpt.tanh,
    "tanh": torch.tanh,
    "swish": F.silu,
    "linear": lambda x: x,
}


@dataclass(frozen=True)
class Variant:
    """How one checkpoint was trained and in which spelling it was saved."""

    before: bool = False
    learned: bool = False
    embedding_norm: bool = False
    no_scale: bool = False
    share: str = "none"  # none, decoder, all
    act: str = "relu"
    container: str = "args"  # args, cfg, hierarchy
    old: bool = False  # fused projections, numbered norms, _float_tensor
    more: dict[str, Any] = field(default_factory=dict)


VARIANTS = {
    "post-norm, sinusoidal, args": Variant(),
    "pre-norm, learned positions, cfg": Variant(before=True, learned=True, container="cfg"),
    "norm on embeddings, no scale, gelu, shared output": Variant(
        embedding_norm=True, no_scale=True, share="decoder", act="gelu", learned=True
    ),
    "all tables one, swish, cfg of hierarchies": Variant(
        share="all", act="swish", container="hierarchy", before=True
    ),
    "old names: fused projections, numbered norms": Variant(old=True, before=True),
    "no positions, no last norm in the decoder, gelu_fast": Variant(
        before=True,
        act="gelu_fast",
        more={"no_token_positional_embeddings": True, "no_decoder_final_norm": True},
    ),
}


# ---- files -------------------------------------------------------------------------------------


def weights(v: Variant) -> dict[str, Tensor]:
    """The tensors by the names of fairseq 0.10 and later."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, out: int, width: int) -> None:
        shapes.update({name + ".weight": (out, width), name + ".bias": (out,)})

    def normed(name: str) -> None:
        shapes.update({name + ".weight": (D,), name + ".bias": (D,)})

    source = VT if v.share == "all" else VS
    for stack, layers, vocabulary in (("encoder", LAYERS[0], source), ("decoder", LAYERS[1], VT)):
        shapes[stack + ".embed_tokens.weight"] = (vocabulary, D)
        if v.learned:
            shapes[stack + ".embed_positions.weight"] = (P + PAD + 1, D)
        if v.embedding_norm:
            normed(stack + ".layernorm_embedding")
        blocks = ("self_attn",) if stack == "encoder" else ("self_attn", "encoder_attn")
        for n in range(layers):
            layer = f"{stack}.layers.{n}."
            for block in blocks:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    linear(f"{layer}{block}.{part}", D, D)
                normed(f"{layer}{block}_layer_norm")
            linear(layer + "fc1", F_, D)
            linear(layer + "fc2", D, F_)
            normed(layer + "final_layer_norm")
        if v.before and not v.more.get(f"no_{stack}_final_norm"):
            normed(stack + ".layer_norm")
    shapes["decoder.output_projection.weight"] = (VT, D)
    made = drawn(shapes, "norm", seed=11)
    table = "decoder.embed_tokens.weight"
    if v.share != "none":
        made["decoder.output_projection.weight"] = made[table]
    if v.share == "all":
        made["encoder.embed_tokens.weight"] = made[table]
    return made


def old_names(held: dict[str, Tensor]) -> dict[str, Tensor]:
    """The spelling of 2018: q, k and v in one matrix, norms by number, no separate projection."""
    numbers = {
        "encoder": ["self_attn_layer_norm", "final_layer_norm"],
        "decoder": ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"],
    }
    out: dict[str, Tensor] = {}
    for name, tensor in held.items():
        if ".q_proj." in name:
            parts = [held[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            out[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
            continue
        if ".k_proj." in name or ".v_proj." in name:
            continue
        for number, norm_name in enumerate(numbers[name.partition(".")[0]]):
            name = name.replace(f".{norm_name}.", f".layer_norms.{number}.")
        out[name.replace("output_projection.weight", "embed_out")] = tensor
    for stack in numbers:
        out[stack + ".embed_positions._float_tensor"] = torch.zeros(1)
    return out


def options(v: Variant) -> dict[str, Any]:
    both = {
        f"{stack}_{word}": value
        for stack in ("encoder", "decoder")
        for word, value in {
            "attention_heads": HEADS,
            "normalize_before": v.before,
            "learned_pos": v.learned,
            "embed_dim": D,
        }.items()
    }
    return both | {
        "share_decoder_input_output_embed": v.share == "decoder",
        "share_all_embeddings": v.share == "all",
        "activation_fn": v.act,
        "no_scale_embedding": v.no_scale,
        "layernorm_embedding": v.embedding_norm,
        "max_source_positions": P,
        "max_target_positions": P,
        "source_lang": "de",
        "target_lang": "en",
        "dropout": 0.3,
        **v.more,
    }


def save(folder: Path, v: Variant) -> tuple[Path, dict[str, Tensor]]:
    """``checkpoint_best.pt`` of a variant, and its tensors by their newer names."""
    held, said = weights(v), options(v)
    stored = old_names(held) if v.old else dict(held)
    stored |= {stack + ".version": torch.tensor([3.0]) for stack in ("encoder", "decoder")}
    content: dict[str, Any] = {"model": stored, "optimizer_history": [{"num_updates": 7}]}
    content["extra_state"] = {"epoch": 3, "val_loss": 4.2}
    if v.container == "args":
        content["args"] = argparse.Namespace(**said)
    elif v.container == "cfg":
        content |= {"args": None, "cfg": {"model": argparse.Namespace(**said), "task": None}}
    else:
        langs = {word: said.pop(word) for word in ("source_lang", "target_lang")}
        nested: dict[str, Any] = {"encoder": {}, "decoder": {}}
        for word, value in said.items():
            stack, _, rest = word.partition("_")
            if stack in nested:
                nested[stack][rest] = value
            else:
                nested[word] = value
        content["cfg"] = {"model": nested, "task": {"_name": "translation", **langs}}
    torch.save(content, folder / "checkpoint_best.pt")
    return folder / "checkpoint_best.pt", held


# ---- the witness -------------------------------------------------------------------------------


def positions(ids: Tensor) -> Tensor:
    """pad + 1 for the first token that is no padding and one more for each; pad for padding."""
    numbers = torch.full_like(ids, PAD)
    for b in range(ids.shape[0]):
        seen = 0
        for t in range(ids.shape[1]):
            if ids[b, t] != PAD:
                seen += 1
                numbers[b, t] = PAD + seen
    return numbers


def sinusoid(numbers: Tensor) -> Tensor:
    """Sines, then cosines; frequency i is exp(-i ln(10000) / (D/2 - 1)); zero at padding."""
    half = D // 2
    frequency = torch.tensor([math.exp(-i * math.log(1e4) / (half - 1)) for i in range(half)])
    angle = numbers[..., None].double() * frequency.double()
    return torch.cat((angle.sin(), angle.cos()), -1) * (numbers != PAD)[..., None]


def forward(held: dict[str, Tensor], v: Variant, source: Tensor, target: Tensor) -> Attended:
    """Attention of every block in call order, and logits ``[batch, target token, VT]``."""
    t = {name: w.double() for name, w in held.items()}
    maps: list[Tensor] = []

    def ln(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, t[name + ".weight"], t[name + ".bias"], 1e-5)

    def embed(ids: Tensor, stack: str) -> Tensor:
        x = t[stack + ".embed_tokens.weight"][ids] * (1 if v.no_scale else D**0.5)
        numbers = positions(ids)
        table = t.get(stack + ".embed_positions.weight")
        if not v.more.get("no_token_positional_embeddings"):
            x = x + (sinusoid(numbers) if table is None else table[numbers])
        return ln(x, stack + ".layernorm_embedding") if v.embedding_norm else x

    def sublayer(x: Tensor, name: str, run: Callable[[Tensor], Tensor]) -> Tensor:
        return x + run(ln(x, name)) if v.before else ln(x + run(x), name)

    def attention(name: str, memory: Tensor | None, hidden: Tensor) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            keys = x if memory is None else memory
            q, k, val = (
                linear(x, t, name + ".q_proj"),
                *(linear(keys, t, f"{name}.{part}") for part in ("k_proj", "v_proj")),
            )
            mixed, seen = attend(q, k, val, HEADS, hidden, float("-inf"))
            maps.append(seen)
            return linear(mixed, t, name + ".out_proj")

        return run

    def feed_forward(layer: str) -> Callable[[Tensor], Tensor]:
        return lambda x: linear(ACTS[v.act](linear(x, t, layer + "fc1")), t, layer + "fc2")

    padding = hidden_keys(source, PAD, source.shape[1])
    x = embed(source, "encoder") * (source != PAD)[..., None]
    for n in range(LAYERS[0]):
        layer = f"encoder.layers.{n}."
        x = sublayer(
            x, layer + "self_attn_layer_norm", attention(layer + "self_attn", None, padding)
        )
        x = sublayer(x, layer + "final_layer_norm", feed_forward(layer))
    memory = ln(x, "encoder.layer_norm") if v.before else x
    length = target.shape[1]
    padding, ahead = hidden_keys(source, PAD, length), hidden_keys(target, PAD, length)
    ahead = ahead | hidden_future(target)
    y = embed(target, "decoder")
    for n in range(LAYERS[1]):
        layer = f"decoder.layers.{n}."
        y = sublayer(y, layer + "self_attn_layer_norm", attention(layer + "self_attn", None, ahead))
        cross = attention(layer + "encoder_attn", memory, padding)
        y = sublayer(y, layer + "encoder_attn_layer_norm", cross)
        y = sublayer(y, layer + "final_layer_norm", feed_forward(layer))
    y = ln(y, "decoder.layer_norm") if "decoder.layer_norm.weight" in t else y
    return maps, y @ t["decoder.output_projection.weight"].T


@cache
def rows() -> list[Row]:
    """Every variant, with padding at the right, at the left and inside, and with nothing else."""
    made = []
    with tempfile.TemporaryDirectory() as place:
        for name, v in VARIANTS.items():
            path, held = save(Path(place), v)
            model = opened(fairseq, path)
            inputs = (SOURCES, TARGETS)
            made.append(row("fairseq", name, model, inputs, forward(held, v, *inputs)))
        path, held = save(Path(place), Variant())
        inputs = (ONLY_PADDING, TARGETS[:1])
        witness = forward(held, Variant(), *inputs)
        name = "a source of padding alone: rows without keys are not numbers"
        made.append(row("fairseq", name, opened(fairseq, path), inputs, witness))
    return made
