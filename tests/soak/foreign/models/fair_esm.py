"""Protein models of fair-esm; its own maps are what ``need_head_weights`` gives."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

SMALL: dict[str, Any] = {"layers": 2, "embed_dim": 32, "ffn_embed_dim": 32, "attention_heads": 4}
SMALL |= {"max_positions": 64, "max_tokens": 4096, "final_bias": True}
SMALL |= {"emb_layer_norm_before": True, "token_dropout": True}
SMALL |= {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
FIRST, LAST = 4, 24  # ids of amino acids


def model(kind: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model and two proteins, or two alignments of three."""
    import esm

    if kind == "ESM-2":
        module: nn.Module = esm.ESM2(num_layers=2, embed_dim=32, attention_heads=4)
    elif kind == "MSA":
        alphabet = esm.Alphabet.from_architecture("msa_transformer")
        module = esm.MSATransformer(Namespace(arch="msa_transformer", **SMALL), alphabet)
    else:
        arch = {"ESM-1": "protein_bert_base", "ESM-1b": "roberta_large"}[kind]
        alphabet = esm.Alphabet.from_architecture(arch)
        module = esm.ProteinBertModel(Namespace(arch=arch, **SMALL), alphabet)
    shape = (2, 3, 9) if kind == "MSA" else (2, 9)
    return module, (torch.randint(FIRST, LAST, shape),)


def own(module: nn.Module, ids: Tensor) -> list[Tensor]:
    """The package's own maps of all layers."""
    return list(module(ids, need_head_weights=True)["attentions"].unbind(1))


def own_first(module: nn.Module, ids: Tensor) -> list[Tensor]:
    """Those of ESM-1, which leaves out the weight of its null token; it is what is left to 1."""
    return [torch.cat((x, 1 - x.sum(-1, keepdim=True)), -1) for x in own(module, ids)]


def own_aligned(module: nn.Module, ids: Tensor) -> list[Tensor]:
    """Maps over columns of an alignment, which its rows share, and over rows, column by column."""
    found = module(ids, need_head_weights=True)
    pairs = zip(found["row_attentions"].unbind(1), found["col_attentions"].unbind(1), strict=True)
    return [x for row, column in pairs for x in (row, column.movedim(2, 0).flatten(0, 1))]


def configurations() -> list[Configuration]:
    """All of them."""
    maps: dict[str, tuple[int, Callable[..., list[Tensor]]]] = {
        "ESM-1": (2, own_first),
        "ESM-1b": (2, own),
        "ESM-2": (2, own),
        "MSA": (4, own_aligned),
    }
    return [
        Configuration(kind, lambda k=kind: model(k), count, maps_of, tokens=kind != "MSA")  # type: ignore[misc]
        for kind, (count, maps_of) in maps.items()
    ]
