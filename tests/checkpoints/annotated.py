"""Files as harvardnlp/annotated-transformer saves them, and what its code computes from them."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.layouts import annotated

from .rows import Row, compared
from .witness import State, Streams, attend, hidden_future, hidden_keys, linear, random

D, H, F, VS, VT, P, PAD = 15, 5, 17, 19, 23, 29, 2
LAYERS = {"encoder": 2, "decoder": 3}
WITNESS = "float64, by hand from the file's tensors"


def sinusoid() -> Tensor:
    """The table ``[1, position, D]`` as the code makes it, in float32 throughout."""
    table = torch.zeros(P, D)
    place = torch.arange(0, P).unsqueeze(1)
    step = torch.exp(torch.arange(0, D, 2) * -(math.log(10000.0) / D))
    table[:, 0::2] = torch.sin(place * step)
    table[:, 1::2] = torch.cos(place * step[: D // 2])
    return table[None]


def state(tied: bool = False) -> dict[str, Tensor]:
    """A state dict with the names of the code; with ``tied`` all tables are one."""
    source = VT if tied else VS
    shapes: dict[str, tuple[int, ...]] = {
        "src_embed__0__lut__weight": (source, D),
        "tgt_embed__0__lut__weight": (VT, D),
        "generator__proj__weight": (VT, D),
        "generator__proj__bias": (VT,),
    }
    for stack, layers in LAYERS.items():
        blocks = ("self_attn", "src_attn") if stack == "decoder" else ("self_attn",)
        for n in range(layers):
            at = f"{stack}__layers__{n}__"
            for block in blocks:
                for number in range(4):
                    shapes[f"{at}{block}__linears__{number}__weight"] = (D, D)
                    shapes[f"{at}{block}__linears__{number}__bias"] = (D,)
            for name, (out, width) in {"w_1": (F, D), "w_2": (D, F)}.items():
                shapes[f"{at}feed_forward__{name}__weight"] = (out, width)
                shapes[f"{at}feed_forward__{name}__bias"] = (out,)
            for number in range(len(blocks) + 1):
                shapes |= {f"{at}sublayer__{number}__norm__{x}": (D,) for x in ("a_2", "b_2")}
        shapes |= {f"{stack}__norm__{x}": (D,) for x in ("a_2", "b_2")}
    made = random(11, **shapes)
    made["src_embed.1.pe"] = made["tgt_embed.1.pe"] = sinusoid()
    if tied:
        made["src_embed.0.lut.weight"] = made["tgt_embed.0.lut.weight"]
        made["generator.proj.weight"] = made["tgt_embed.0.lut.weight"]
    return made


def norm(x: Tensor, w: State, name: str) -> Tensor:
    """Unbiased deviation, eps added to it and not under the root."""
    centred = x - x.mean(-1, keepdim=True)
    deviation = ((centred**2).sum(-1, keepdim=True) / (D - 1)).sqrt()
    gain, bias = w[f"{name}.a_2"].double(), w[f"{name}.b_2"].double()
    return gain * centred / (deviation + 1e-6) + bias


def witness(
    w: State, source: Tensor, target: Tensor, streams: Streams | None = None
) -> tuple[list[Tensor], Tensor]:
    """Attention maps in call order and logits; ``streams`` takes in what flows between layers."""
    streams = {"encoder": [], "decoder": []} if streams is None else streams
    maps: list[Tensor] = []

    def attention(at: str, queries: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = (
            linear(x, w, f"{at}.linears.{number}") for number, x in enumerate((queries, keys, keys))
        )
        context, weights = attend(q, k, v, H, hidden, -1e9)
        maps.append(weights)
        return linear(context, w, f"{at}.linears.3")

    def stack(name: str, table: str, ids: Tensor, hidden: Tensor, memory: Any = None) -> Tensor:
        x = w[f"{table}.0.lut.weight"].double()[ids] * D**0.5
        x = x + w[f"{table}.1.pe"][0, : ids.shape[1]].double()
        for n in range(LAYERS[name]):
            streams[name].append(x)
            at, number = f"{name}.layers.{n}", 0
            y = norm(x, w, f"{at}.sublayer.0.norm")
            x = x + attention(f"{at}.self_attn", y, y, hidden)
            if memory is not None:
                number = 1
                y = norm(x, w, f"{at}.sublayer.1.norm")
                x = x + attention(f"{at}.src_attn", y, *memory)
            y = norm(x, w, f"{at}.sublayer.{number + 1}.norm")
            y = linear(y, w, f"{at}.feed_forward.w_1").relu()
            x = x + linear(y, w, f"{at}.feed_forward.w_2")
        streams[name].append(norm(x, w, f"{name}.norm"))
        return streams[name][-1]

    memory = stack("encoder", "src_embed", source, hidden_keys(source, PAD, source.shape[1]))
    own = hidden_keys(target, PAD, target.shape[1]) | hidden_future(target)
    cross = hidden_keys(source, PAD, target.shape[1])
    x = stack("decoder", "tgt_embed", target, own, (memory, cross))
    return maps, linear(x, w, "generator.proj")


def inputs() -> dict[str, tuple[Tensor, Tensor]]:
    """Two sentences with padding; and a source of nothing else, a target that begins with it."""
    source = torch.tensor([[4, 9, 18, 6, 1], [7, 5, 1, PAD, PAD]])
    target = torch.tensor([[0, 12, 22, 8], [0, 17, PAD, PAD]])
    empty = torch.tensor([[4, 9, 18], [PAD, PAD, PAD]])
    late = torch.tensor([[0, 12, 22, 8], [PAD, 17, 5, PAD]])
    return {"padding": (source, target), "rows that may see nothing": (empty, late)}


@cache
def rows() -> list[Row]:
    """Both kinds of file, with padding and with rows that may see nothing."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, tied in (("tables apart", False), ("one table", True)):
            held, path = state(tied), Path(folder) / "multi30k_model_final.pt"
            torch.save(held, path)
            model = annotated.open(Candidate(path, {}), None, {"heads": H})
            for case, given in inputs().items():
                apart = compared(model, given, *witness(held, *given))
                found.append(Row(annotated.NAME, f"{name}; {case}", *apart, WITNESS))
    return found
