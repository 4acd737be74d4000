"""Test that the feed-forward network of a layer processes each token independently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...checkpoints.common.model import Model
from ...core.trace_parts import read_only
from ...model.transformer import FeedForward, Layer, Stack, Transformer
from ..token_ids import source_ids

NUDGE = 1.0  # change of a token's vector, relative to its length


@dataclass(frozen=True, eq=False)
class PositionWise:
    """Measurements at the feed-forward network of one layer, float64 unless noted.

    Attributes:
        moved: Change of each token's output when one token's input changes, in the feed-forward
            network, relative to the largest, ``[token]``.
        mixed: The same for the self-attention of the layer, ``[token]``.
        permuted: Largest difference between the outputs of permuted tokens and the permuted
            outputs.
        convolved: Largest difference to two convolutions of kernel 1 with the same weights.
        largest: Largest absolute output, for comparison.
        order: The permutation, int ``[token]``.
    """

    moved: np.ndarray
    mixed: np.ndarray
    permuted: float
    convolved: float
    largest: float
    order: np.ndarray


def position_wise(
    model: Model, source: str | tuple[int, ...], layer: int, token: int, seed: int = 0
) -> PositionWise:
    """Measure how tokens affect each other in a layer of the first stack.

    Args:
        model: Model that runs on this project's Transformer.
        source: Text, or ids.
        layer: Layer of the encoder, or of a decoder without one.
        token: Index of the token whose vector is changed.
        seed: Seed of the permutation and of the direction of the change.

    Raises:
        ValueError: Another kind of module, or a layer or token out of range.
    """
    module = _reference(model)
    stack = module.encoder if module.config.encoder_layers else module.decoder
    ids = torch.tensor([source_ids(model, source)], device=model.device)
    if not 0 <= layer < len(stack.layers) or not 0 <= token < ids.shape[1]:
        raise ValueError(
            f"There are layers 0 to {len(stack.layers) - 1} and words 0 to {ids.shape[1] - 1}; got "
            f"layer {layer} and word {token}."
        )
    with torch.no_grad():
        x, mask = _entering(module, stack, ids, layer)
        block = cast(Layer, stack.layers[layer])
        y = _before_feed_forward(block, x, mask, stack)
        return _measured(block, stack, (x, y, mask), token, torch.Generator().manual_seed(seed))


def _measured(
    block: Layer,
    stack: Stack,
    state: tuple[Tensor, Tensor, Tensor],
    token: int,
    random: torch.Generator,
) -> PositionWise:
    x, y, mask = state
    feed = block.feed_forward
    out = feed(y)
    order = torch.randperm(y.shape[1], generator=random, device="cpu").to(y.device)
    nudge = _nudge(x[0, token], random)

    def attend(z: Tensor) -> Tensor:
        return _attended(block, z, mask, stack)

    return PositionWise(
        moved=_moved(feed, y, token, nudge),
        mixed=_moved(attend, x, token, nudge),
        permuted=float((feed(y[:, order]) - out[:, order]).abs().max()),
        convolved=float((convolved(feed, y) - out).abs().max()),
        largest=float(out.abs().max()),
        order=read_only(order.cpu().numpy()),
    )


def convolved(feed: FeedForward, x: Tensor) -> Tensor:
    """Compute the feed-forward network as two convolutions of kernel 1 with the same weights.

    Vaswani et al. 2017, section 3.3: "Another way of describing this is as two convolutions with
    kernel size 1." ``x`` and the result are ``[batch, token, d_model]``. Computed in float64, since
    a GPU rounds float32 convolutions to three digits (TF32).
    """

    def one(part: Any, z: Tensor) -> Tensor:  # a kernel's last axis is its width: one token
        bias = None if part.bias is None else part.bias.double()
        return F.conv1d(z, part.weight.double()[:, :, None], bias)

    z = x.double().transpose(1, 2)  # a convolution has its channels first
    hidden = feed.activation(one(feed.inner, z))
    if feed.gate is not None:
        hidden = hidden * one(feed.gate, z)
    return one(feed.outer, hidden).transpose(1, 2).to(x.dtype)


def _reference(model: Model) -> Transformer:
    if not isinstance(model.module, Transformer) or model.takes != "text":
        raise ValueError(
            f"{model.name} is built of other parts than the Transformer of this project, and this "
            "experiment reaches inside a layer; choose en-de or another model of the box."
        )
    return model.module


def _entering(module: Transformer, stack: Stack, ids: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Return the input of a layer ``[1, token, d_model]``, and its mask."""
    encodes = bool(module.config.encoder_layers)
    mask = module.padding_mask(ids) if encodes else module.causal_mask(ids)
    x = stack.embedding(ids)
    for below in stack.layers[:layer]:
        x = below(x, mask, rotary=stack.rotary)
    return x, mask


def _attended(block: Layer, x: Tensor, mask: Tensor, stack: Stack) -> Tensor:
    y = block.before(block.self_norm, x)
    keys = x if block.norm == "query_only" else y
    return cast(Tensor, block.self_attention(y, keys, mask, stack.rotary))


def _before_feed_forward(block: Layer, x: Tensor, mask: Tensor, stack: Stack) -> Tensor:
    summed = block.after(block.self_norm, x + _attended(block, x, mask, stack))
    return block.before(block.feed_forward_norm, summed)


def _nudge(vector: Tensor, random: torch.Generator) -> Tensor:
    drawn = torch.randn(len(vector), generator=random, device="cpu").to(vector.device)
    return drawn / drawn.norm() * vector.norm() * NUDGE


def _moved(run: Callable[[Tensor], Tensor], x: Tensor, token: int, nudge: Tensor) -> np.ndarray:
    """Return the change of each token's output with one token's input, ``[token]``, maximum 1."""
    changed = x.clone()
    changed[:, token] += nudge
    far = (run(changed) - run(x))[0].double().norm(dim=-1)
    return read_only((far / far.max().clamp(min=1e-300)).cpu().numpy())
