"""Models of pytorch-forecasting; its own maps are what its attention layers give beside values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

REALS = ["price", "rain"]
PAST, FUTURE, WIDTH = 9, 4, 32
LISTS: dict[str, Any] = {"x_reals": REALS, "time_varying_reals_encoder": REALS, "dropout": 0.0}
FUSION: dict[str, Any] = {**LISTS, "time_varying_reals_decoder": ["rain"], "hidden_size": 16}
FUSION |= {"output_size": 3, "attention_head_size": 4}
SERIES: dict[str, Any] = {**LISTS, "context_length": 12, "prediction_length": FUTURE}
SERIES |= {"hidden_size": WIDTH, "n_heads": 4, "e_layers": 2, "d_ff": 32, "patch_length": 3}
SERIES |= {"features": "MS", "enc_in": 2}
SHARED: dict[str, Any] = {"n_head": 4, "d_model": WIDTH}
#: By name: class, keywords, shapes of the inputs, attentions.
MODELS: dict[str, tuple[str, dict[str, Any], tuple[tuple[int, ...], ...], int]] = {
    "heads with shared values": ("InterpretableMultiHeadAttention", SHARED, ((2, 9, WIDTH),), 4),
    "one head": ("InterpretableMultiHeadAttention", {**SHARED, "n_head": 1}, ((2, 9, WIDTH),), 1),
    "temporal fusion": (
        "TemporalFusionTransformer",
        FUSION,
        ((2, PAST, 2), (2, FUTURE, 2)),
        4,
    ),
    "temporal fusion, looking both ways": (
        "TemporalFusionTransformer",
        {**FUSION, "causal_attention": False},
        ((2, PAST, 2), (2, FUTURE, 2)),
        4,
    ),
    "TimeXer": ("TimeXer", SERIES, ((2, 12, 2), (2, FUTURE, 2)), 4),
    "TimeXer, fused": (
        "TimeXer",
        {**SERIES, "use_efficient_attention": True},
        ((2, 12, 2), (2, FUTURE, 2)),
        4,
    ),
}


def as_it_is(made: dict[str, Tensor]) -> Tensor:
    """The prediction, which stands for no other scale."""
    return made["prediction"]


def model(
    kind: str, given: dict[str, Any], shapes: tuple[tuple[int, ...], ...]
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model, and the past and future of two series or two lines of vectors."""
    stand_in()
    from pytorch_forecasting import QuantileLoss, TemporalFusionTransformer
    from pytorch_forecasting.models.temporal_fusion_transformer import sub_modules
    from pytorch_forecasting.models.timexer import TimeXer

    if kind == "InterpretableMultiHeadAttention":
        module: nn.Module = sub_modules.InterpretableMultiHeadAttention(**given)
    else:
        made = {"TimeXer": TimeXer, "TemporalFusionTransformer": TemporalFusionTransformer}[kind]
        loss = QuantileLoss(quantiles=[0.1, 0.5, 0.9])
        words: dict[str, Any] = {
            "loss": loss,
            "logging_metrics": nn.ModuleList(),
            "output_transformer": as_it_is,
        }
        words["dataset_parameters"] = {"target": REALS[0]}
        module = made(**given, **words)
    return module, tuple(torch.randn(shape) for shape in shapes)


def run(module: nn.Module, past: Tensor, future: Tensor | None = None) -> Any:
    """A layer on its own queries, keys and values, or a model on the table of two series."""
    if future is None:
        return module(past, past, past)
    count = len(past)
    return module(
        {
            "encoder_cont": past,
            "decoder_cont": future,
            "encoder_cat": torch.zeros(count, past.shape[1], 0, dtype=torch.long),
            "decoder_cat": torch.zeros(count, future.shape[1], 0, dtype=torch.long),
            "encoder_lengths": torch.full((count,), past.shape[1]),
            "decoder_lengths": torch.full((count,), future.shape[1]),
            "encoder_target": past[..., 0],
            "target_scale": torch.tensor([[0.0, 1.0]]).expand(count, 2),
        }
    )


def own(module: nn.Module, *given: Tensor) -> list[Tensor]:
    """The maps of each head as a model gives them, ``[batch, query, head, key]`` in all."""
    found = run(module, *given)
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        maps = found[1]
    else:
        maps = torch.cat((found["encoder_attention"], found["decoder_attention"]), -1)
    return [x[:, None] for x in maps.unbind(2)]


def configurations() -> list[Configuration]:
    """All of them; TimeXer gives no maps, there the kernels are asked."""
    return [
        Configuration(
            name,
            lambda m=settings: model(*m),  # type: ignore[misc]
            count,
            None if settings[0] == "TimeXer" else own,
            run,
        )
        for name, (*settings, count) in MODELS.items()
    ]
