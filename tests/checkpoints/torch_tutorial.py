"""Files of PyTorch's translation tutorial, and what its code computes from them."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from transformer_viz.checkpoints.layouts import torch_tutorial

from .drawn import Attended, drawn, opened, row
from .rows import Row
from .torch_core import Literal, shapes_of, stack
from .witness import State, hidden_future, hidden_keys, linear

D, H, VS, VT, P, PAD = 15, 5, 19, 23, 29, 1


def state() -> dict[str, Tensor]:
    """A state dict of the tutorial's ``Seq2SeqTransformer``."""
    made = drawn(
        {
            **shapes_of(stack(D, False, True, True), "transformer.encoder."),
            **shapes_of(stack(D, True, True, True), "transformer.decoder."),
            "generator.weight": (VT, D),
            "generator.bias": (VT,),
            "src_tok_emb.embedding.weight": (VS, D),
            "tgt_tok_emb.embedding.weight": (VT, D),
        },
        "norm",
    )
    return made | {"positional_encoding.pos_embedding": table()}


def table() -> Tensor:
    """The sinusoid ``[position, 1, D]`` as the tutorial computes it."""
    step = torch.exp(-torch.arange(0, D, 2) * math.log(10000) / D)
    angle = torch.arange(0, P).reshape(P, 1) * step
    values = torch.zeros(P, D)
    values[:, 0::2] = torch.sin(angle)
    values[:, 1::2] = torch.cos(angle)[:, : D // 2]
    return values.unsqueeze(-2)


def witness(w: State, source: Tensor, target: Tensor) -> Attended:
    """Attention in the order of the calls, and the generator's logits."""
    core = Literal(w, H)

    def embedded(side: str, ids: Tensor) -> Tensor:
        x = w[f"{side}_tok_emb.embedding.weight"].double()[ids] * D**0.5
        return x + w["positional_encoding.pos_embedding"].double()[: ids.shape[1], 0]

    queries = target.shape[1]
    own = hidden_keys(source, PAD, source.shape[1])
    memory = core.stack("transformer.encoder.", embedded("src", source), own)
    ahead = hidden_keys(target, PAD, queries) | hidden_future(target)
    cross = hidden_keys(source, PAD, queries)
    x = core.stack("transformer.decoder.", embedded("tgt", target), ahead, memory, cross)
    return core.maps, linear(x, w, "generator")


def inputs() -> dict[str, tuple[Tensor, Tensor]]:
    """Two sentences with padding; and a source of nothing else, a target that begins with it."""
    source = torch.tensor([[2, 9, 18, 6, 3], [2, 5, 3, PAD, PAD]])
    target = torch.tensor([[2, 12, 22, 8], [2, 17, PAD, PAD]])
    empty = torch.tensor([[2, 9, 18, 6, 3], [PAD, PAD, PAD, PAD, PAD]])
    late = torch.tensor([[2, 12, 22, 8], [PAD, 17, 4, PAD]])
    return {"padding": (source, target), "rows that may see nothing": (empty, late)}


def save(folder: Path) -> Path:
    """The file as the tutorial's reader writes it."""
    path = folder / "translator.pth"
    torch.save(state(), path)
    return path


@cache
def rows() -> list[Row]:
    """The tutorial's model, with padding and with rows that may see nothing."""
    with tempfile.TemporaryDirectory() as folder:
        model = opened(torch_tutorial, save(Path(folder)), heads=H)
        return [
            row(torch_tutorial.NAME, case, model, given, witness(state(), *given))
            for case, given in inputs().items()
        ]
