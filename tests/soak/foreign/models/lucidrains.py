"""Small packages of one author, most without maps of their own; the kernels are the oracle."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

HEADS: dict[str, Any] = {"dim": 32, "heads": 4, "dim_head": 8}
DEEP: dict[str, Any] = {**HEADS, "depth": 2}
WORDS: dict[str, Any] = {**DEEP, "num_tokens": 50, "max_seq_len": 16}
LATENTS: dict[str, Any] = {"num_latents": 6, "latent_dim": 32, "cross_heads": 2, "latent_heads": 4}
LATENTS |= {"cross_dim_head": 8, "latent_dim_head": 8, "depth": 2}
SEEN: dict[str, Any] = {**LATENTS, "num_freq_bands": 2, "max_freq": 4.0, "input_channels": 3}
HEARD: dict[str, Any] = {**SEEN, "input_axis": 1}
ANY: dict[str, Any] = {**LATENTS, "dim": 16, "queries_dim": 16, "logits_dim": 5}
LOCAL: dict[str, Any] = {**HEADS, "window_size": 4}
LINES: dict[str, Any] = {**WORDS, "local_attn_window_size": 8}
BLOCKS: dict[str, Any] = {**WORDS, "bucket_size": 4}
SHORT: dict[str, Any] = {"num_tokens": 50, "dim": 32, "seq_len": 16, "depth": 2, "heads": 4, "k": 6}
AXES: dict[str, Any] = {"dim": 32, "heads": 4}
SIDES: dict[str, Any] = {**HEADS, "context_dim": 16}
CLUSTERS: dict[str, Any] = {**WORDS, "window_size": 4}
CONV: dict[str, Any] = {"conv_kernel_size": 5}
PIECES: dict[str, Any] = {"memory_efficient": True, "q_bucket_size": 8, "k_bucket_size": 8}
LAST: dict[str, Any] = {"dim": 32, "heads": 4, "num_latents": 5}
EYES: dict[str, Any] = {"image_size": 32, "patch_dim": 32, "pixel_dim": 8, "patch_size": 16}
EYES |= {"pixel_size": 8, "depth": 2, "num_classes": 5, "heads": 4, "dim_head": 8}
HALF: dict[str, Any] = {"local_attn_heads": 2, "local_window_size": 8}
BARE: dict[str, Any] = {"attn_values_residual": False}
NYSTROM: dict[str, Any] = {**DEEP, "num_landmarks": 4}
Shapes = tuple[tuple[int, ...], ...]  # of floats, or one of two numbers: of token ids
IDS: Shapes = ((2, 16),)
LINE: Shapes = ((2, 16, 32),)
PAIR: Shapes = ((2, 9, 32), (2, 7, 16))
PICTURE: Shapes = ((2, 8, 8, 3),)
GRID: Shapes = ((2, 5, 6, 32),)
Model = tuple[str, str, dict[str, Any], Shapes, int]
#: By package: name of the row, class, keywords, shapes of the inputs, attentions.
MODELS: dict[str, tuple[Model, ...]] = {
    "perceiver_pytorch": (
        ("pictures", "Perceiver", SEEN, PICTURE, 4),
        ("pictures, layers tied", "Perceiver", {**SEEN, "weight_tie_layers": True}, PICTURE, 4),
        ("pictures, two selves", "Perceiver", {**SEEN, "self_per_cross_attn": 2}, PICTURE, 6),
        ("lines", "Perceiver", HEARD, ((2, 9, 3),), 4),
        ("no positions", "Perceiver", {**HEARD, "fourier_encode_data": False}, ((2, 9, 3),), 4),
        ("any in and out", "PerceiverIO", ANY, ((2, 9, 16),), 3),
    ),
    "linformer": (
        ("words", "LinformerLM", SHORT, IDS, 2),
        ("one key head", "LinformerLM", {**SHORT, "one_kv_head": True}, IDS, 2),
        ("shared projection", "LinformerLM", {**SHORT, "share_kv": True}, IDS, 2),
        ("reversible", "LinformerLM", {**SHORT, "reversible": True}, IDS, 2),
    ),
    "local_attention": (
        ("words", "LocalTransformer", LINES, IDS, 2),
        ("words, both ways", "LocalTransformer", {**LINES, "causal": False}, IDS, 2),
        ("words, xpos", "LocalTransformer", {**LINES, "use_xpos": True}, IDS, 2),
        ("words, bias", "LocalTransformer", {**LINES, "use_dynamic_pos_bias": True}, IDS, 2),
        ("one layer", "LocalMHA", LOCAL, LINE, 1),
        ("one layer, causal", "LocalMHA", {**LOCAL, "causal": True}, LINE, 1),
        ("one layer, norms of q and k", "LocalMHA", {**LOCAL, "qk_rmsnorm": True}, LINE, 1),
    ),
    "axial_attention": (
        ("rows and columns", "AxialAttention", AXES, GRID, 2),
        ("rows, then columns", "AxialAttention", {**AXES, "sum_axial_out": False}, GRID, 2),
        ("three axes", "AxialAttention", {**AXES, "num_dimensions": 3}, ((2, 3, 4, 5, 32),), 3),
        ("channels first", "AxialAttention", {**AXES, "dim_index": 1}, ((2, 32, 5, 6),), 2),
    ),
    "reformer_pytorch": (
        ("words", "ReformerLM", BLOCKS, IDS, 2),
        ("words, causal", "ReformerLM", {**BLOCKS, "causal": True}, IDS, 2),
        ("words, full", "ReformerLM", {**BLOCKS, "use_full_attn": True}, IDS, 2),
    ),
    "routing_transformer": (
        ("all local", "RoutingTransformerLM", {**CLUSTERS, "n_local_attn_heads": 4}, IDS, 2),
        ("clusters", "RoutingTransformerLM", CLUSTERS, IDS, 2),
    ),
    "conformer": (
        ("one block", "ConformerBlock", {**HEADS, **CONV}, LINE, 1),
        ("two blocks", "Conformer", {**DEEP, **CONV}, LINE, 2),
        ("two blocks, causal", "Conformer", {**DEEP, **CONV, "conv_causal": True}, LINE, 2),
    ),
    "linear_attention_transformer": tuple(
        (name, "LinearAttentionTransformerLM", {**LINES, "n_local_attn_heads": heads}, IDS, 2)
        for name, heads in (("half of the heads local", 2), ("all heads local", 4))
    ),
    "memory_efficient_attention_pytorch": (
        ("all at once", "Attention", HEADS, LINE, 1),
        ("causal", "Attention", {**HEADS, "causal": True}, LINE, 1),
        ("in pieces", "Attention", {**HEADS, **PIECES}, LINE, 1),
    ),
    "sinkhorn_transformer": (
        ("words", "SinkhornTransformerLM", BLOCKS, IDS, 2),
        ("words, local", "SinkhornTransformerLM", {**BLOCKS, "n_local_attn_heads": 4}, IDS, 2),
    ),
    "isab_pytorch": (
        ("latents", "ISAB", LAST, LINE, 2),
        ("latents among themselves", "ISAB", {**LAST, "latent_self_attend": True}, LINE, 2),
    ),
    "transformer_in_transformer": (("pixels and patches", "TNT", EYES, ((2, 3, 32, 32),), 4),),
    "performer_pytorch": (
        ("words", "PerformerLM", WORDS, IDS, 2),
        ("words, causal", "PerformerLM", {**WORDS, "causal": True}, IDS, 2),
        (
            "words, by another kernel",
            "PerformerLM",
            {**WORDS, "generalized_attention": True},
            IDS,
            2,
        ),
        ("half of the heads local", "PerformerLM", {**WORDS, **HALF}, IDS, 2),
        ("all heads local", "PerformerLM", {**WORDS, **HALF, "local_attn_heads": 4}, IDS, 2),
    ),
    "nystrom_attention": (
        ("two layers", "Nystromformer", NYSTROM, LINE, 2),
        ("two layers, no convolution", "Nystromformer", {**NYSTROM, **BARE}, LINE, 2),
    ),
    "bidirectional_cross_attention": (
        ("one layer", "BidirectionalCrossAttention", SIDES, PAIR, 2),
        ("two layers", "BidirectionalCrossAttentionTransformer", {**SIDES, "depth": 2}, PAIR, 4),
        ("talking", "BidirectionalCrossAttention", {**SIDES, "talking_heads": True}, PAIR, 2),
    ),
}


def model(
    package: str, kind: str, given: dict[str, Any], shapes: Shapes
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model and its inputs."""
    module = getattr(importlib.import_module(package), kind)(**given)
    inputs = [torch.randint(0, 50, s) if len(s) == 2 else torch.randn(s) for s in shapes]
    return module, tuple(inputs)


def both_ways(module: nn.Module, *inputs: Tensor) -> list[Tensor]:
    """The package's own maps of both sides."""
    *_, one, other = module(*inputs, return_attn=True)
    return [one, other.mT]


def configurations(package: str) -> list[Configuration]:
    """All of one package."""
    return [
        Configuration(
            name,
            lambda k=kind, g=given, s=shapes: model(package, k, g, s),  # type: ignore[misc]
            count,
            both_ways if kind == "BidirectionalCrossAttention" else None,
            tokens=kind == "LocalTransformer",
        )
        for name, kind, given, shapes, count in MODELS[package]
    ]
