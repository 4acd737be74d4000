"""Gradients per layer before the first update, for pre-norm and post-norm.

Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", sections 3.2 to 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.torch_function_mode import InterceptCalls
from ...checkpoints.common.fill_weights import DRAWS
from ...model import ModelConfig, Transformer

Pair = tuple[tuple[int, ...], tuple[int, ...]]  # source ids; target ids with their end token
STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class Beginning:
    """Measurements of a newly initialized model before its first update, averaged over seeds.

    Attributes:
        norm: ``pre`` or ``post``.
        layers: Layers of each stack.
        seeds: Number of seeds.
        loss: Loss in nats per target token.
        gradients: Gradient norm over all weights of each layer, by stack.
        lengths: Mean length of a token vector before the first layer and after each, by stack.
    """

    norm: str
    layers: int
    seeds: int
    loss: float
    gradients: dict[str, tuple[float, ...]]
    lengths: dict[str, tuple[float, ...]]


def beginning(
    config: ModelConfig, norm: str, layers: int, pairs: Sequence[Pair], seeds: Sequence[int]
) -> Beginning:
    """Measure new models of one kind on one batch, without training or dropout.

    Args:
        config: Config of an encoder-decoder; depth and norm placement are replaced.
        norm: ``pre`` (with a norm after the last layer) or ``post`` (without, as in the paper).
        layers: Layers of each stack.
        pairs: Batch; shorter rows are padded, and padding is ignored.
        seeds: Seed of each model.
    """
    made = replace(
        config,
        norm=norm,
        final_norm=norm == "pre",
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=0.0,
    )
    runs = [_one(fresh(made, seed), pairs) for seed in seeds]
    mean = {
        part: {
            stack: tuple(
                torch.tensor([run[part][stack] for run in runs], device="cpu").mean(0).tolist()
            )
            for stack in STACKS
        }
        for part in ("gradients", "lengths")
    }
    loss = sum(run["loss"]["all"][0] for run in runs) / len(runs)
    return Beginning(norm, layers, len(runs), loss, mean["gradients"], mean["lengths"])


def fresh(config: ModelConfig, seed: int) -> Transformer:
    """Return a model initialized from a seed, independent of other random draws."""
    generator = torch.Generator().manual_seed(seed)  # independent of the global generator

    def draw(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        own = {"generator": generator} if getattr(func, "__name__", "") in DRAWS else {}
        return func(*args, **(kwargs | own))

    with InterceptCalls(draw):
        return Transformer(config).eval()


def loss_of(module: Transformer, pairs: Sequence[Pair]) -> Tensor:
    """Return the mean of -ln p over the target tokens of a batch, teacher forced."""
    config = module.config
    wanted = _rectangle([target for _, target in pairs], config.pad_id)
    shown = _rectangle([(config.bos_id, *target[:-1]) for _, target in pairs], config.pad_id)
    logits = module(_rectangle([source for source, _ in pairs], config.pad_id), shown)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=config.pad_id)


def _one(module: Transformer, pairs: Sequence[Pair]) -> dict[str, dict[str, list[float]]]:
    lengths: dict[str, list[float]] = {}
    hooks = [_listen(module, stack, pairs, lengths) for stack in STACKS]
    with torch.enable_grad():
        loss = loss_of(module, pairs)
        loss.backward()
    for hook in (one for several in hooks for one in several):
        hook.remove()
    gradients = {
        stack: [_norm(layer) for layer in getattr(module, stack).layers] for stack in STACKS
    }
    return {"gradients": gradients, "lengths": lengths, "loss": {"all": [loss.item()]}}


def _norm(layer: torch.nn.Module) -> float:
    squares = [p.grad.square().sum() for p in layer.parameters() if p.grad is not None]
    return float(torch.stack(squares).sum().sqrt())


def _listen(
    module: Transformer, stack: str, pairs: Sequence[Pair], lengths: dict[str, list[float]]
) -> list[torch.utils.hooks.RemovableHandle]:
    """Record the mean residual stream length before the first layer and after each."""
    side = pairs if stack == "encoder" else [(target, ()) for _, target in pairs]
    kept = _rectangle([source for source, _ in side], -1) != -1
    noted = lengths.setdefault(stack, [])

    def note(x: Tensor) -> None:
        noted.append(float(x.detach().norm(dim=-1)[kept].mean()))

    part = getattr(module, stack)
    first = part.embedding.register_forward_hook(lambda m, i, out: note(out))
    return [first, *(x.register_forward_hook(lambda m, i, out: note(out)) for x in part.layers)]


def _rectangle(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Return ids ``[row, token]``, padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device="cpu")
