"""Checkpoints of nanoGPT, minGPT and GPT-2, made as these save them, and what they compute."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.checkpoints.drawn import Attended, drawn, opened, row
from tests.checkpoints.rows import Row
from tests.checkpoints.witness import attend, hidden_future, layer_norm
from transformer_viz.checkpoints.layouts import gpt2, mingpt, nanogpt

V, D, HEADS, LAYERS, P = 37, 22, 2, 3, 17
IDS = torch.tensor([[5, 11, 2, 36, 0, 7, 7, 19], [1, 30, 3, 3, 8, 21, 14, 2]])
ERF: Callable[[Tensor], Tensor] = F.gelu


def tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


# ---- files -------------------------------------------------------------------------------------


def weights(*, bias: bool = True, conv: bool = False, seed: int = 0) -> dict[str, Tensor]:
    """GPT-2's names; Linear weights ``[out, in]``, or the transposed ones of Conv1D."""
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (V, D),
        "transformer.wpe.weight": (P, D),
        "transformer.ln_f.weight": (D,),
        "transformer.ln_f.bias": (D,),
    }
    for n in range(LAYERS):
        h = f"transformer.h.{n}."
        for name, out in (("ln_1", D), ("ln_2", D)):
            shapes |= {h + name + ".weight": (out,), h + name + ".bias": (out,)}
        for name, out, width in (
            ("attn.c_attn", 3 * D, D),
            ("attn.c_proj", D, D),
            ("mlp.c_fc", 4 * D, D),
            ("mlp.c_proj", D, 4 * D),
        ):
            shapes |= {h + name + ".weight": (out, width), h + name + ".bias": (out,)}
    made = drawn(shapes, ".ln_", seed)
    if conv:
        made |= {
            name: w.T.contiguous() for name, w in made.items() if ".c_" in name and w.dim() == 2
        }
    return {name: w for name, w in made.items() if bias or not name.endswith(".bias")}


def causal_buffers() -> dict[str, Tensor]:
    mask = torch.ones(P, P).tril().view(1, 1, P, P)
    return {f"transformer.h.{n}.attn.bias": mask for n in range(LAYERS)}


def nanogpt_file(
    folder: Path, *, bias: bool = True, prefix: str = "", flash: bool = True, half: bool = False
) -> tuple[Path, dict[str, Tensor]]:
    """``ckpt.pt`` as nanoGPT's train.py saves it, and its tensors by their plain names."""
    held = weights(bias=bias)
    if half:
        held = {name: w.bfloat16() for name, w in held.items()}
    held["lm_head.weight"] = held["transformer.wte.weight"]
    stored = held if flash else held | causal_buffers()
    parameter = torch.nn.Parameter(torch.zeros(3))
    content = {
        "model": {prefix + name: w for name, w in stored.items()},
        "optimizer": torch.optim.AdamW([parameter]).state_dict(),
        "model_args": {
            "n_layer": LAYERS,
            "n_head": HEADS,
            "n_embd": D,
            "block_size": P,
            "bias": bias,
            "vocab_size": V,
            "dropout": 0.0,
        },
        "iter_num": 2000,
        "best_val_loss": torch.tensor(1.4697),
        "config": {"out_dir": "out-letters", "dataset": "letters", "compile": bool(prefix)},
    }
    torch.save(content, folder / "ckpt.pt")
    return folder / "ckpt.pt", held


def mingpt_file(folder: Path, config: dict[str, Any] | None = None) -> tuple[Path, dict]:
    """``model.pt`` as minGPT's projects save it: a bare state dict with its causal buffers."""
    held = weights(seed=1) | drawn({"lm_head.weight": (V, D)}, ".ln_", 2)
    torch.save(held | causal_buffers(), folder / "model.pt")
    if config is not None:
        (folder / "config.json").write_text(json.dumps({"system": {"seed": 1}, "model": config}))
    return folder / "model.pt", held


NAMES_2020 = {
    "transformer.wte.weight": "tok_emb.weight",
    "transformer.wpe.weight": "pos_emb",
    "transformer.ln_f": "ln_f",
    "lm_head": "head",
    "transformer.h.": "blocks.",
    ".ln_1.": ".ln1.",
    ".ln_2.": ".ln2.",
    ".attn.c_proj.": ".attn.proj.",
    ".mlp.c_fc.": ".mlp.0.",
    ".mlp.c_proj.": ".mlp.2.",
}


def mingpt_2020_file(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """The state dict of minGPT's first version, with queries, keys and values apart."""
    held = weights(seed=3) | drawn({"lm_head.weight": (V, D)}, ".ln_", 4)
    stored = {}
    for name, tensor in held.items():
        for new, old in NAMES_2020.items():
            name = name.replace(new, old)
        if ".attn.c_attn." in name:
            for part, cut in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                stored[name.replace("c_attn", part)] = cut.clone()
        else:
            stored[name] = tensor[None] if name == "pos_emb" else tensor
    mask = torch.ones(P, P).tril().view(1, 1, P, P)
    stored |= {f"blocks.{n}.attn.mask": mask for n in range(LAYERS)}
    torch.save(stored, folder / "model.pt")
    return folder / "model.pt", held


def gpt2_file(
    folder: Path, *, prefix: str = "transformer.", output: str = "stored"
) -> tuple[Path, dict[str, Tensor]]:
    """The weights of a GPT-2 of the transformers library without their config.

    ``output``: ``stored`` as the same matrix, ``absent``, or ``own``, a matrix of its own.
    """
    held = weights(conv=True, seed=5)
    held["lm_head.weight"] = held["transformer.wte.weight"]
    if output == "own":
        held |= drawn({"lm_head.weight": (V, D)}, ".ln_", 6)
    stored = {name.removeprefix("" if prefix else "transformer."): w for name, w in held.items()}
    if output == "absent":
        del stored["lm_head.weight"]
    torch.save(stored, folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin", held


# ---- the witness -------------------------------------------------------------------------------


def forward(
    held: dict[str, Tensor],
    ids: Tensor,
    act: Callable[[Tensor], Tensor],
    *,
    heads: int = HEADS,
    conv: bool = False,
) -> Attended:
    """Attention of every layer and logits ``[batch, token, vocabulary]`` of ids, from the tensors.

    Pre-norm with eps 1e-5, learned positions, no embedding scale, causal -inf, a last norm.
    """
    t = {name: w.double() for name, w in held.items()}

    def linear(x: Tensor, name: str) -> Tensor:
        w, b = t[name + ".weight"], t.get(name + ".bias")
        y = x @ w if conv else x @ w.T
        return y if b is None else y + b

    def normed(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, t[name + ".weight"], t.get(name + ".bias", torch.zeros(1)), 1e-5)

    maps = []
    x = t["transformer.wte.weight"][ids] + t["transformer.wpe.weight"][: ids.shape[1]]
    for n in range(LAYERS):
        h = f"transformer.h.{n}."
        fused = linear(normed(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = fused.chunk(3, dim=-1)
        mixed, seen = attend(q, k, v, heads, hidden_future(ids), float("-inf"))
        maps.append(seen)
        x = x + linear(mixed, h + "attn.c_proj")
        x = x + linear(act(linear(normed(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return maps, normed(x, "transformer.ln_f") @ t["lm_head.weight"].T


@cache
def rows() -> list[Row]:
    """Every variant against the witness, in a batch of two."""
    made = []
    with tempfile.TemporaryDirectory() as place:
        for variant, words in {
            "biases, as torch.compile names it": {"prefix": "_orig_mod."},
            "bias=False: no bias anywhere": {"bias": False},
            "without fused attention: causal buffers stored": {"flash": False},
            "bfloat16": {"half": True},
        }.items():
            path, held = nanogpt_file(Path(place), **words)
            found = opened(nanogpt, path)
            made.append(row("nanogpt", variant, found, (IDS,), forward(held, IDS, ERF)))
        path, held = mingpt_file(Path(place))
        found = opened(mingpt, path, heads=HEADS)
        made.append(row("mingpt", "names of GPT-2", found, (IDS,), forward(held, IDS, tanh)))
        path, held = mingpt_2020_file(Path(place))
        found = opened(mingpt, path, heads=HEADS)
        made.append(row("mingpt", "names of 2020", found, (IDS,), forward(held, IDS, ERF)))
        for variant, words in {
            "head model, output stored": {},
            "head model, output of its own": {"output": "own"},
            "base model, output absent": {"prefix": "", "output": "absent"},
        }.items():
            path, held = gpt2_file(Path(place), **words)
            found = opened(gpt2, path, heads=HEADS)
            witness = forward(held, IDS, tanh, conv=True)
            made.append(row("gpt2", variant, found, (IDS,), witness))
    return made
