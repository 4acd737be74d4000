"""Models of diffusers; its own maps are what ``get_attention_scores`` of the eager way gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

BLOCKS = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
UNET: dict[str, Any] = {"sample_size": 8, "in_channels": 4, "out_channels": 4}
UNET |= {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
PLAIN: dict[str, Any] = {**UNET, "attention_head_dim": 8}
PLAIN |= {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
PLAIN |= {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
GUIDED: dict[str, Any] = {**UNET, "attention_head_dim": 4, "cross_attention_dim": 16}
GUIDED |= {"down_block_types": BLOCKS[0], "up_block_types": BLOCKS[1]}
TRANSFORMER: dict[str, Any] = {"num_attention_heads": 4, "attention_head_dim": 8}
TRANSFORMER |= {"in_channels": 4, "num_layers": 2, "sample_size": 8, "patch_size": 2}
CLASSES: dict[str, Any] = {"num_embeds_ada_norm": 10, "norm_type": "ada_norm_zero"}
CAPTIONS: dict[str, Any] = {"cross_attention_dim": 32, "caption_channels": 16}
CAPTIONS |= {"norm_type": "ada_norm_single", "norm_eps": 1e-6, "out_channels": 8}
JOINT: dict[str, Any] = {**TRANSFORMER, "joint_attention_dim": 16, "caption_projection_dim": 32}
JOINT |= {"pooled_projection_dim": 16, "out_channels": 4, "pos_embed_max_size": 8}
EYE: dict[str, Any] = {"in_channels": 3, "out_channels": 3, "latent_channels": 4}
EYE |= {"block_out_channels": (16,), "norm_num_groups": 8, "layers_per_block": 1}
EYE |= {"down_block_types": ("DownEncoderBlock2D",), "up_block_types": ("UpDecoderBlock2D",)}
PRIOR: dict[str, Any] = {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 2}
PRIOR |= {"embedding_dim": 16, "num_embeddings": 5, "additional_embeddings": 4}
LATENT = (2, 4, 8, 8)
TEXT = (2, 5, 16)
#: By name: class, keywords, processor (none: its own), inputs by shape, attentions.
Model = tuple[str, dict[str, Any], str, dict[str, tuple[int, ...]], int]
GIVEN: dict[str, tuple[int, ...]] = {"sample": LATENT, "timestep": (2,)}
TOLD = {**GIVEN, "encoder_hidden_states": TEXT}
DRAWN: dict[str, tuple[int, ...]] = {"hidden_states": LATENT, "timestep": (2,)}
WRITTEN = {**DRAWN, "encoder_hidden_states": TEXT}
EAGER, FUSED, SLICED = "AttnProcessor", "AttnProcessor2_0", "SlicedAttnProcessor"
MODELS: dict[str, Model] = {
    "UNet": ("UNet2DModel", PLAIN, EAGER, GIVEN, 4),
    "UNet, fused": ("UNet2DModel", PLAIN, FUSED, GIVEN, 4),
    "UNet, guided": ("UNet2DConditionModel", GUIDED, EAGER, TOLD, 8),
    "UNet, guided, fused": ("UNet2DConditionModel", GUIDED, FUSED, TOLD, 8),
    "UNet, guided, in slices": ("UNet2DConditionModel", GUIDED, SLICED, TOLD, 8),
    "DiT": ("DiTTransformer2DModel", {**TRANSFORMER, **CLASSES}, EAGER, DRAWN, 2),
    "PixArt": ("PixArtTransformer2DModel", {**TRANSFORMER, **CAPTIONS}, EAGER, WRITTEN, 4),
    "PixArt, fused": ("PixArtTransformer2DModel", {**TRANSFORMER, **CAPTIONS}, FUSED, WRITTEN, 4),
    "Stable Diffusion 3": (
        *("SD3Transformer2DModel", JOINT, ""),
        {**WRITTEN, "pooled_projections": (2, 16)},
        2,
    ),
    "picture encoder and decoder": ("AutoencoderKL", EYE, EAGER, {"sample": (2, 3, 8, 8)}, 2),
    "prior": (
        *("PriorTransformer", PRIOR, FUSED),
        {
            "hidden_states": (2, 16),
            "timestep": (2,),
            "proj_embedding": (2, 16),
            "encoder_hidden_states": (2, 5, 16),
        },
        2,
    ),
}


def model(
    kind: str, given: dict[str, Any], processor: str, shapes: dict[str, tuple[int, ...]]
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model, and what it denoises."""
    stand_in()
    import diffusers
    from diffusers.models import attention_processor

    module: nn.Module = getattr(diffusers, kind)(**given)
    sizes = (1,) if processor == SLICED else ()
    for part in attentions(module) if processor else ():
        part.set_processor(getattr(attention_processor, processor)(*sizes))
    for weight in module.parameters():  # gates start at 0, where nothing would show
        if not weight.any():
            nn.init.normal_(weight, std=0.1)
    return module, tuple(torch.randn(shape) for shape in shapes.values())


def attentions(module: nn.Module) -> list[Any]:
    """The attentions of a model."""
    from diffusers.models.attention_processor import Attention

    return [part for part in module.modules() if isinstance(part, Attention)]


def runner(kind: str, words: tuple[str, ...]) -> Callable[..., Any]:
    """A call that names its inputs, with the same step for all and, for DiT, a class."""

    def run(module: nn.Module, *given: Tensor) -> Tensor:
        named: dict[str, Any] = dict(zip(words, given, strict=True))
        if "timestep" in named:
            named["timestep"] = torch.full((len(given[0]),), 3)
        if kind == "DiTTransformer2DModel":
            named["class_labels"] = torch.full((len(given[0]),), 2)
        if kind == "PixArtTransformer2DModel":
            named["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}
        made: Tensor = module(**named, return_dict=False)[0]
        return made

    return run


def owner(run: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    """Reads the maps ``[batch, head, query, key]`` of an eager pass."""

    def own(module: nn.Module, *given: Tensor) -> list[Tensor]:
        from diffusers.models.attention_processor import AttnProcessor

        maps: list[Tensor] = []
        parts = attentions(module)
        before = [part.processor for part in parts]
        for part in parts:
            part.set_processor(AttnProcessor())
            reckon = part.get_attention_scores

            def keep(*seen: Any, reckon: Any = reckon, heads: int = part.heads) -> Tensor:
                made: Tensor = reckon(*seen)
                maps.append(made.unflatten(0, (-1, heads)))
                return made

            part.get_attention_scores = keep
        run(module, *given)
        for part, processor in zip(parts, before, strict=True):
            del part.get_attention_scores
            part.set_processor(processor)
        return maps

    return own


def configurations() -> list[Configuration]:
    """All of them."""
    made = []
    for name, (kind, given, processor, shapes, count) in MODELS.items():
        run = runner(kind, tuple(shapes))
        made.append(
            Configuration(
                name,
                lambda m=(kind, given, processor, shapes): model(*m),  # type: ignore[misc]
                count,
                owner(run) if processor in (EAGER, FUSED) else None,
                run,
                batch_first=True,
            )
        )
    return made
