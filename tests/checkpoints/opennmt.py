"""Checkpoints of OpenNMT-py 3, made as it saves them, and what they compute."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.checkpoints.drawn import Attended, drawn, opened, row
from tests.checkpoints.rows import Row
from tests.checkpoints.witness import attend, hidden_future, hidden_keys, layer_norm, linear
from transformer_viz.checkpoints.layouts import opennmt

VS, VT, D, HEADS, F_, LAYERS, P = 37, 41, 22, 2, 29, (3, 2), 23
UNK, PAD, START, END = 0, 1, 2, 3
SOURCES = torch.tensor([[5, 11, 8, 36, 4, 7], [9, 30, 6, PAD, PAD, PAD], [PAD, PAD, 12, 21, 14, 4]])
TARGETS = torch.tensor([[START, 40, 17, 9], [START, 4, 28, PAD], [START, PAD, 33, 6]])
#: A source of padding alone, and a target whose first rows see nothing but padding.
EMPTY = (torch.tensor([[PAD, PAD, PAD, PAD]]), torch.tensor([[PAD, PAD, START, 9]]))
MARKS = ["<unk>", "<blank>", "<s>", "</s>"]
ACTS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


@dataclass(frozen=True)
class Variant:
    """How one checkpoint was trained."""

    qkv_bias: bool = False
    ffn_bias: bool = True
    share: str = "none"  # none, decoder, all
    act: str = "relu"
    eps: float | None = 1e-6


VARIANTS = {
    "defaults": Variant(),
    "biases on projections, gelu, eps 1e-5": Variant(qkv_bias=True, act="gelu", eps=1e-5),
    "no feed-forward biases, shared output": Variant(ffn_bias=False, share="decoder"),
    "all tables one, eps not in the options": Variant(share="all", eps=None),
}


# ---- files -------------------------------------------------------------------------------------


def table() -> Tensor:
    """The table of positions that the file holds, ``[position, 1, D]``, interleaved."""
    place = torch.arange(P, dtype=torch.float32)[:, None]
    angle = place * torch.exp(torch.arange(0, D, 2) * -(math.log(10000.0) / D))
    pe = torch.zeros(P, D)
    pe[:, 0::2], pe[:, 1::2] = angle.sin(), angle.cos()
    return pe[:, None]


def weights(v: Variant) -> dict[str, Tensor]:
    """The tensors by their names in the file; the generator's with its name before them."""
    shapes: dict[str, tuple[int, ...]] = {}

    def normed(name: str) -> None:
        shapes.update({name + ".weight": (D,), name + ".bias": (D,)})

    def attention(name: str) -> None:
        for part in ("linear_keys", "linear_values", "linear_query", "final_linear"):
            shapes[f"{name}.{part}.weight"] = (D, D)
            if v.qkv_bias:
                shapes[f"{name}.{part}.bias"] = (D,)

    def feed_forward(name: str) -> None:
        for part, out, width in (("w_1", F_, D), ("w_2", D, F_)):
            shapes[f"{name}.{part}.weight"] = (out, width)
            if v.ffn_bias:
                shapes[f"{name}.{part}.bias"] = (out,)
        normed(name + ".layer_norm")

    source = VT if v.share == "all" else VS
    for stack, vocabulary in (("encoder", source), ("decoder", VT)):
        shapes[stack + ".embeddings.make_embedding.emb_luts.0.weight"] = (vocabulary, D)
        normed(stack + ".layer_norm")
    for n in range(LAYERS[0]):
        layer = f"encoder.transformer.{n}."
        attention(layer + "self_attn")
        feed_forward(layer + "feed_forward")
        normed(layer + "layer_norm")
    for n in range(LAYERS[1]):
        layer = f"decoder.transformer_layers.{n}."
        attention(layer + "self_attn")
        attention(layer + "context_attn")
        feed_forward(layer + "feed_forward")
        normed(layer + "layer_norm_1")
        normed(layer + "layer_norm_2")
    shapes |= {"generator.weight": (VT, D), "generator.bias": (VT,)}
    made = drawn(shapes, "norm", seed=21)
    own = "decoder.embeddings.make_embedding.emb_luts.0.weight"
    if v.share != "none":
        made["generator.weight"] = made[own]
    if v.share == "all":
        made["encoder.embeddings.make_embedding.emb_luts.0.weight"] = made[own]
    for stack in ("encoder", "decoder"):
        made[stack + ".embeddings.make_embedding.pe.pe"] = table()
    return made


def words(size: int, side: str) -> list[str]:
    """A list of words with joiners at some of them, as a subword tokenizer leaves them."""
    return [*MARKS, *(f"{side}{n}" + "￭" * (n % 3 == 0) for n in range(len(MARKS), size))]


def save(folder: Path, v: Variant, **more: Any) -> tuple[Path, dict[str, Tensor]]:
    """``model_step_500.pt`` of a variant, and its tensors."""
    held = weights(v)
    opt: dict[str, Any] = {
        "heads": HEADS, "enc_layers": LAYERS[0], "pos_ffn_activation_fn": v.act,
        "add_qkvbias": v.qkv_bias, "add_ffnbias": v.ffn_bias, "max_relative_positions": 0,
        "self_attn_type": "scaled-dot", "dropout": [0.1],
    }  # fmt: skip
    if v.eps is not None:
        opt["norm_eps"] = v.eps
    parts: dict[bool, dict[str, Tensor]] = {True: {}, False: {}}
    for name, w in held.items():
        parts[name.startswith("generator.")][name.removeprefix("generator.")] = w
    source, side = (VT, "t") if v.share == "all" else (VS, "s")
    vocabulary = {"src": words(source, side), "tgt": words(VT, "t")}
    vocabulary |= {"data_task": "seq2seq", "decoder_start_token": "<s>"}
    content = {"model": parts[False], "generator": parts[True], "vocab": vocabulary,
               "opt": argparse.Namespace(**(opt | more)), "optim": None}  # fmt: skip
    torch.save(content, folder / "model_step_500.pt")
    return folder / "model_step_500.pt", held


# ---- the witness -------------------------------------------------------------------------------


def forward(held: dict[str, Tensor], v: Variant, source: Tensor, target: Tensor) -> Attended:
    """Attention of every block in call order, and logits ``[batch, target token, VT]``."""
    t = {name: w.double() for name, w in held.items()}
    maps: list[Tensor] = []

    def ln(x: Tensor, name: str) -> Tensor:
        eps = 1e-6 if v.eps is None else v.eps
        return layer_norm(x, t[name + ".weight"], t[name + ".bias"], eps)

    def embed(ids: Tensor, stack: str) -> Tensor:
        name = stack + ".embeddings.make_embedding."
        x = t[name + "emb_luts.0.weight"][ids] * D**0.5
        return x + t[name + "pe.pe"][: ids.shape[1], 0]

    def attention(name: str, x: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        for row_of_keys in hidden.flatten(0, 1):
            if bool(row_of_keys.all()):
                row_of_keys[:] = False
        q, k, val = (
            linear(x, t, name + ".linear_query"),
            *(linear(keys, t, f"{name}.{part}") for part in ("linear_keys", "linear_values")),
        )
        mixed, seen = attend(q, k, val, HEADS, hidden, -1e18)
        maps.append(seen)
        return linear(mixed, t, name + ".final_linear")

    def feed_forward(name: str, x: Tensor) -> Tensor:
        inner = ACTS[v.act](linear(ln(x, name + ".layer_norm"), t, name + ".w_1"))
        return x + linear(inner, t, name + ".w_2")

    padding = hidden_keys(source, PAD, source.shape[1])
    x = embed(source, "encoder")
    for n in range(LAYERS[0]):
        layer = f"encoder.transformer.{n}."
        y = ln(x, layer + "layer_norm")
        x = x + attention(layer + "self_attn", y, y, padding)
        x = feed_forward(layer + "feed_forward", x)
    memory = ln(x, "encoder.layer_norm")
    length = target.shape[1]
    padding, ahead = hidden_keys(source, PAD, length), hidden_keys(target, PAD, length)
    ahead = ahead | hidden_future(target)
    x = embed(target, "decoder")
    for n in range(LAYERS[1]):
        layer = f"decoder.transformer_layers.{n}."
        y = ln(x, layer + "layer_norm_1")
        x = x + attention(layer + "self_attn", y, y, ahead)
        y = ln(x, layer + "layer_norm_2")
        x = x + attention(layer + "context_attn", y, memory, padding)
        x = feed_forward(layer + "feed_forward", x)
    return maps, linear(ln(x, "decoder.layer_norm"), t, "generator")


@cache
def rows() -> list[Row]:
    """Every variant, with padding, and where queries would see nothing."""
    made = []
    with tempfile.TemporaryDirectory() as place:
        for name, v in VARIANTS.items():
            path, held = save(Path(place), v)
            model = opened(opennmt, path)
            inputs = (SOURCES, TARGETS)
            made.append(row("opennmt", name, model, inputs, forward(held, v, *inputs)))
        path, held = save(Path(place), Variant())
        witness = forward(held, Variant(), *EMPTY)
        name = "rows whose keys are all padding: left unmasked"
        made.append(row("opennmt", name, opened(opennmt, path), EMPTY, witness))
    return made
