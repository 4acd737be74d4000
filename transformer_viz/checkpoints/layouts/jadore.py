"""Code shared by the versions of jadore801120/attention-is-all-you-need-pytorch.

``model.chkpt`` holds ``epoch``, ``settings`` (the options of the training) and ``model``. The names
of the weights changed once, in November 2019; the arithmetic three times.
"""

from __future__ import annotations

from typing import Any

from ..common.build_reference import same_matrix, settings
from ..common.candidate import Candidate
from ..common.rename_keys import Table, layers, size
from ..files.reading import Weights

SUBLAYERS: Table = tuple(
    (f"{{stack}}.layer_stack.{{n}}.{theirs}.{{part}}", f"{{stack}}.layers.{{n}}.{ours}.{{part}}")
    for theirs, ours in {
        "slf_attn.w_qs": "self_attention.query",
        "slf_attn.w_ks": "self_attention.key",
        "slf_attn.w_vs": "self_attention.value",
        "slf_attn.fc": "self_attention.output",
        "slf_attn.layer_norm": "self_norm",
        "enc_attn.w_qs": "cross_attention.query",
        "enc_attn.w_ks": "cross_attention.key",
        "enc_attn.w_vs": "cross_attention.value",
        "enc_attn.fc": "cross_attention.output",
        "enc_attn.layer_norm": "cross_norm",
        "pos_ffn.w_1": "feed_forward.inner",
        "pos_ffn.w_2": "feed_forward.outer",
        "pos_ffn.layer_norm": "feed_forward_norm",
    }.items()
)
CLOSED = (
    "Its vocabulary is kept apart, in a pickle that could run code and is never opened: type token "
    "ids, or put the sentencepiece model that made them beside the weights."
)


def stacked(found: Candidate) -> bool:
    """Return True if names of the weights belong to any version of this code base."""
    return any(".layer_stack." in name for name in found.weights.tensors)


def told(weights: Weights, target: str) -> dict[str, Any]:
    """Return the tied tables, by the settings or by equal numbers; ``target`` is trg or tgt."""
    held = settings(weights, "settings")
    table = f"decoder.{target}_word_emb.weight"
    same = {
        "embeddings": held.get("embs_share_weight"),
        "output": held.get("proj_share_weight"),
    }
    other = {"embeddings": "encoder.src_word_emb.weight", "output": f"{target}_word_prj.weight"}
    for tie, flag in same.items():
        if flag is None:
            same[tie] = same_matrix(weights, table, other[tie])
    both = same["embeddings"] and same["output"]
    return {"tied": "all" if both else next((tie for tie in same if same[tie]), "none")}


def measured(weights: Weights, target: str) -> dict[str, int]:
    """Return the sizes given by the shapes of the weights; ``target`` is trg or tgt."""
    source_vocab, d_model = size(weights, "encoder.src_word_emb.weight")
    return {
        "d_model": d_model,
        "source_vocab": source_vocab,
        "target_vocab": size(weights, f"decoder.{target}_word_emb.weight")[0],
        "d_ff": size(weights, "encoder.layer_stack.0.pos_ffn.w_1.weight")[0],
        "encoder_layers": layers(weights, "encoder.layer_stack.{n}.slf_attn.w_qs.weight"),
        "decoder_layers": layers(weights, "decoder.layer_stack.{n}.slf_attn.w_qs.weight"),
    }


def projected(weights: Weights) -> dict[str, int]:
    """Return the rows of all heads together in the projections of keys and values."""
    name = "encoder.layer_stack.0.slf_attn.{}.weight"
    return {
        "d_k": size(weights, name.format("w_ks"))[0],
        "d_v": size(weights, name.format("w_vs"))[0],
    }
