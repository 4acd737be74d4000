"""The Vision Transformer: a picture is cut into patches, and an encoder reads them as tokens.

Dosovitskiy et al., "An image is worth 16x16 words" (2021), section 3.1. Extensions of later models
are options of :class:`VisionConfig`. The names of the weights are timm's, so that its state dicts
fit unchanged. Shape letters in the comments: B batch, T tokens, H heads, d one head's width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "silu": F.silu,
}
POOLS = ("token", "avg")


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """Complete options of a Vision Transformer, without its weights.

    Attributes:
        image_size: Pixels, height first; ``patch_size`` likewise.
        channels: Channels of the picture.
        classes: Number of classes; 0 means no classifier and states as output.
        class_token: True if a class token precedes the patches.
        distilled: True for a second token and classifier, learned from a teacher.
        registers: Number of register tokens before the patches.
        no_embed_class: True if the tokens before the patches get no position.
        qk_norm: True for a norm on each head's queries and keys.
        layer_scale: True for a learned factor on the output of a sub-layer.
        norm_pre: True for a norm before the first layer.
        pool: ``token`` classifies the first token, ``avg`` the mean of the patches.
        fc_norm: True if the last norm is after pooling instead of before it.
        qkv_bias: True if this projection has a bias; ``patch_bias`` likewise.

    Raises:
        ValueError: Sizes do not fit, or a choice is not supported; names both.
    """

    d_model: int
    heads: int
    d_ff: int
    encoder_layers: int
    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    channels: int = 3
    classes: int = 0
    class_token: bool = True
    distilled: bool = False
    registers: int = 0
    no_embed_class: bool = False
    qk_norm: bool = False
    layer_scale: bool = False
    norm_pre: bool = False
    pool: str = "token"
    fc_norm: bool = False
    qkv_bias: bool = True
    patch_bias: bool = True
    activation: str = "gelu"
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        sizes = (self.d_model, self.heads, self.d_ff, self.encoder_layers, self.channels)
        if min(*sizes, *self.patch_size) < 1 or min(self.classes, self.registers) < 0:
            raise ValueError(
                f"Sizes must be positive whole numbers; got d_model, heads, d_ff, layers and "
                f"channels {sizes}, patches {self.patch_size}, {self.classes} classes and "
                f"{self.registers} registers."
            )
        if self.d_model % self.heads:
            raise ValueError(
                f"A width of {self.d_model} cannot be shared by {self.heads} heads; override "
                "heads= with a number that divides it."
            )
        if 0 in self.grid:
            raise ValueError(
                f"A picture of {self.image_size} pixels has no patch of {self.patch_size}; "
                "override image_size=."
            )
        for word, choices in (("pool", POOLS), ("activation", tuple(ACTIVATIONS))):
            if getattr(self, word) not in choices:
                raise ValueError(
                    f"{word} {getattr(self, word)!r} is not supported; choose one of "
                    f"{', '.join(choices)}."
                )
        if (self.pool == "token" or self.distilled) and self.classes and not self.class_token:
            raise ValueError("pool 'token' needs a class token and this model has none; use 'avg'.")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of a picture."""
        rows, columns = (i // p for i, p in zip(self.image_size, self.patch_size, strict=True))
        return rows, columns

    @property
    def prefix(self) -> int:
        """Number of tokens before the patches."""
        return self.class_token + self.distilled + self.registers


class Attention(nn.Module):
    """Self-attention over all tokens, with queries, keys and values from one projection.

    ``x`` ``[batch, token, d_model]`` keeps its shape.
    """

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.heads = config.heads
        width, d = config.d_model, config.d_model // config.heads
        self.qkv = nn.Linear(width, 3 * width, bias=config.qkv_bias)
        self.q_norm = nn.LayerNorm(d, config.norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(d, config.norm_eps) if config.qk_norm else nn.Identity()
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1))  # [B, T, 3, H, d]
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each [B, H, T, d]
        q, k = self.q_norm(q), self.k_norm(k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]
        gathered = torch.softmax(scores, dim=-1) @ v
        return self.proj(gathered.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two projections with an activation between them, for each token alone."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.fc1 = nn.Linear(config.d_model, config.d_ff)
        self.fc2 = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation(self.fc1(x)))


class LayerScale(nn.Module):
    """Learned factor for each feature.

    Touvron et al. 2021, "Going deeper with image Transformers", section 2.
    """

    def __init__(self, width: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Block(nn.Module):
    """Layer of attention and feed-forward, each with a norm before it and a residual sum."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        width = config.d_model
        self.norm1 = nn.LayerNorm(width, config.norm_eps)
        self.attn = Attention(config)
        self.ls1 = LayerScale(width) if config.layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(width, config.norm_eps)
        self.mlp = FeedForward(config)
        self.ls2 = LayerScale(width) if config.layer_scale else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class PatchEmbedding(nn.Module):
    """Patch embedding: pictures ``[batch, channel, height, width]`` to ``[batch, token, d_model]``.

    Patches are ordered row by row.
    """

    def __init__(self, config: VisionConfig):
        super().__init__()
        size = config.patch_size
        self.proj = nn.Conv2d(
            config.channels, config.d_model, size, stride=size, bias=config.patch_bias
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """Vision Transformer from pictures ``[batch, channel, height, width]`` to logits or states.

    Logits are ``[batch, class]``; without a classifier, states are ``[batch, token, d_model]``.
    """

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.config = config
        width, patches = config.d_model, math.prod(config.grid)
        placed = patches if config.no_embed_class else config.prefix + patches
        self.cls_token = _tokens(1, width) if config.class_token else None
        self.dist_token = _tokens(1, width) if config.distilled else None
        self.reg_token = _tokens(config.registers, width) if config.registers else None
        self.pos_embed = _tokens(placed, width)
        self.patch_embed = PatchEmbedding(config)
        self.norm_pre = nn.LayerNorm(width, config.norm_eps) if config.norm_pre else nn.Identity()
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.encoder_layers)))
        last = nn.LayerNorm(width, config.norm_eps)
        self.norm = nn.Identity() if config.fc_norm else last
        self.fc_norm = last if config.fc_norm else nn.Identity()
        self.head = nn.Linear(width, config.classes) if config.classes else nn.Identity()
        if config.classes and config.distilled:
            self.head_dist = nn.Linear(width, config.classes)

    def forward(self, pictures: Tensor) -> Tensor:
        states = self.states(pictures)
        return self.logits(states) if self.config.classes else states

    def states(self, pictures: Tensor) -> Tensor:
        """Return the states of the last layer, ``[batch, token, d_model]``.

        The last norm is included if it comes before pooling.
        """
        return self.norm(self.blocks(self.norm_pre(self.embedded(pictures))))

    def embedded(self, pictures: Tensor) -> Tensor:
        """Return the tokens with positions, ``[batch, token, d_model]``, special ones first."""
        x = self.patch_embed(pictures)
        if self.config.no_embed_class:
            x = x + self.pos_embed
        front = (self.cls_token, self.dist_token, self.reg_token)
        x = torch.cat([*(t.expand(len(x), -1, -1) for t in front if t is not None), x], dim=1)
        return x if self.config.no_embed_class else x + self.pos_embed

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of the classifier, ``[batch, class]``, or the mean of two classifiers.

        Touvron et al. 2021, "Training data-efficient image transformers", section 3.
        """
        if self.config.distilled:
            return (self.head(states[:, 0]) + self.head_dist(states[:, 1])) / 2
        if self.config.pool == "token":
            return self.head(self.fc_norm(states[:, 0]))
        return self.head(self.fc_norm(states[:, self.config.prefix :].mean(dim=1)))


def _tokens(count: int, width: int) -> nn.Parameter:
    """Return learned vectors ``[1, token, d_model]``."""
    return nn.Parameter(nn.init.normal_(torch.empty(1, count, width), std=0.02))
