"""A small BERT whose weights are a formula, so that BertViz's own copy can have the same."""

from __future__ import annotations

from typing import Any

import torch

IDS = [1, 7, 4, 9, 5, 2]


def small_bert() -> Any:
    """Two layers of three heads, ``d_k`` of 5; attention is neither flat nor a single one."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=17, max_position_embeddings=13, type_vocab_size=2,
    )  # fmt: skip
    model = BertModel(config).eval()
    with torch.no_grad():
        for place, (_, weights) in enumerate(sorted(model.named_parameters())):
            steps = torch.arange(weights.numel(), dtype=torch.float64)
            weights.copy_((0.9 * torch.sin(steps * (1.7 + place / 11) + place)).view_as(weights))
    return model
