"""The same edits by hand: on copies of the models, with weights, hooks and masks of one's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from transformer_viz.capture import AttentionRecord

from .catalogue import HEADS, WIDTH, Family, copied, inputs

Change = Callable[[Tensor], Tensor]


def ends(name: str, endings: tuple[str, ...]) -> bool:
    """Whether a parameter, or the module that owns it, has one of these endings."""
    return name.endswith(endings) or name.rpartition(".")[0].endswith(endings)


def query_rows(family: Family, parameter: Tensor) -> Tensor:
    """The part of a parameter that makes queries, as a view."""
    if family.rows == "first":
        return parameter[:WIDTH]
    if family.rows == "heads":
        return parameter.view(HEADS, 3, -1, *parameter.shape[1:])[:, 0]
    return parameter[..., :WIDTH] if family.rows == "columns" else parameter


def cooled(family: Family, implementation: str) -> nn.Module:
    """A copy whose queries and added biases are halved: its scores are those at temperature 2."""
    model = copied(family, implementation)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ends(name, family.queries):
                gain = family.plus if name.endswith("norm.weight") else 0.0  # it acts as gain + w
                query_rows(family, parameter).add_(gain).div_(2).sub_(gain)
            elif ends(name, family.biases):
                parameter.div_(2)
    for module in model.modules():  # c tanh(s / c) / 2 is c' tanh(s' / c') with both halved
        cap = getattr(module, "attn_logit_softcapping", None)
        if cap is not None:
            module.attn_logit_softcapping = cap / 2
    return model


@contextmanager
def alibi(model: nn.Module, change: Change) -> Iterator[None]:
    """Change the ALiBi tensor that a model's own code builds; nothing where it builds none."""
    module = sys.modules[type(model).__module__]
    name = next((n for n in vars(module) if n.startswith("build_") and "alibi" in n), None)
    if name is None:
        yield
        return
    own = getattr(module, name)
    with mock.patch.object(module, name, lambda *a, **k: change(own(*a, **k))):
        yield


def projection(model: nn.Module, family: Family, record: AttentionRecord) -> nn.Module:
    """The output projection of an attention: of those with the right name, the nearest one."""
    ending = family.output if family.output.startswith(".") else f".{family.output}"
    names = [name for name, _ in model.named_modules() if name.endswith(ending)]
    return model.get_submodule(max(names, key=lambda name: shared(name, record.path)))


def shared(name: str, other: str) -> int:
    """How many leading parts two dotted names have in common."""
    pairs = list(zip(name.split("."), other.split("."), strict=False))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


@contextmanager
def silenced(
    model: nn.Module, family: Family, record: AttentionRecord, head: int, call: int
) -> Iterator[None]:
    """Zero one head's slice at the input of its output projection, at one call of the module."""
    calls: list[int] = []

    def hook(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        calls.append(1)
        if len(calls) != call + 1:
            return None
        width = args[0].shape[-1] // record.heads
        x = args[0].clone()
        x[..., head * width : (head + 1) * width] = 0
        return (x, *args[1:])

    handle = projection(model, family, record).register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def visible(family: Family, allowed: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """An additive mask ``[batch, 1, query, key]`` of the cells that are allowed and no padding."""
    mask = inputs(family)["attention_mask"].bool()
    place = torch.arange(mask.shape[1], device=mask.device)
    cells = allowed(place[:, None], place) & mask[:, None, None, :]
    least = torch.finfo(torch.float32).min
    return torch.zeros(cells.shape, device=mask.device).masked_fill(~cells, least)


def with_table(
    family: Family, implementation: str, change: Callable[[Tensor, str, int], Any]
) -> nn.Module:
    """A copy whose position tables are changed in place: ``change(rows, stack, first)``."""
    model = copied(family, implementation)
    with torch.no_grad():
        for name, first, stack in family.tables:
            table = model.get_parameter(name)
            change(table.view(-1, table.shape[-1]), stack, first)
    return model
