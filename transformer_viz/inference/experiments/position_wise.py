"""Each word thinks for itself: what the feed-forward network of a layer does to words in a row."""

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

NUDGE = 1.0  # how far one word's vector is moved, in its own length


@dataclass(frozen=True, eq=False)
class PositionWise:
    """What was measured at the feed-forward network of one layer, float64 unless said.

    ``moved`` and ``mixed`` ``[token]``: how far each word's output moves when one word's input is
    changed, in the feed-forward network and in the self-attention of the same layer, as a part of
    the largest; ``permuted`` the largest difference between the outputs of words in another order
    and the outputs put into that order; ``convolved`` that to two convolutions of kernel 1 with
    the same weights; ``largest`` the largest number of the output, to compare with; ``order``
    int ``[token]``.
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
    """Measure at a layer of the first stack what a word's neighbours mean to it.

    Args:
        model: one that this project's own Transformer runs.
        source: text, or ids.
        layer: of the encoder, or of a decoder without one.
        token: the word whose vector is changed.
        seed: draws the other order, and the direction of the change.

    Raises:
        ValueError: another kind of module; a layer or a word that is not there.
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
    """The feed-forward network as two convolutions of kernel 1 with the same weights.

    Vaswani et al. 2017, section 3.3: "Another way of describing this is as two convolutions with
    kernel size 1." ``x`` and the result are ``[batch, token, d_model]``. They compute in float64,
    as a card rounds those of float32 to three digits (TF32).
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
    """What enters a layer ``[1, token, d_model]``, and what its words may see."""
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
    """How far each word's output moves with one word's input: ``[token]``, the largest is 1."""
    changed = x.clone()
    changed[:, token] += nudge
    far = (run(changed) - run(x))[0].double().norm(dim=-1)
    return read_only((far / far.max().clamp(min=1e-300)).cpu().numpy())
