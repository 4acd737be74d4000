"""The state dict inside what trainers put around it: containers, and prefixes of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

#: Where trainers put the weights, and where their running average.
CONTAINERS = ("model", "state_dict", "model_state_dict", "net")
AVERAGES = ("ema", "state_dict_ema", "model_ema")
LIGHTNING = "pytorch-lightning_version"  # the key that Lightning's checkpoints carry
#: What data-parallel and compiled modules put before names; what a Lightning module's field does.
PREFIXES, FIELDS = ("module.", "_orig_mod."), ("model.", "net.")
DEEPEST = 3  # containers in containers


def unwrap(
    content: Any, averaged: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any], tuple[str, ...]]:
    """The named tensors in a file's content, whatever else stood there, and what was taken off.

    Args:
        content: what the file held.
        averaged: take the running average of the weights, where the file holds one too.
    """
    words = (*AVERAGES, *CONTAINERS) if averaged else (*CONTAINERS, *AVERAGES)
    inner = content if isinstance(content, Mapping) else {}
    extra: dict[str, Any] = {}
    notes: list[str] = []
    for _ in range(DEEPEST):
        word = next((word for word in words if _holds_tensors(inner.get(word))), None)
        if word is None:
            break
        extra = {str(name): value for name, value in inner.items() if name != word} | extra
        inner = inner[word]
        what = "a running average of the weights" if word in AVERAGES else "the weights"
        notes.append(f"{what} stood under {word!r}")
    also = [word for word in AVERAGES if not averaged and _holds_tensors(extra.get(word))]
    notes += [f"their running average stands beside them, under {word!r}" for word in also]
    found = {str(name): value for name, value in inner.items() if isinstance(value, Tensor)}
    tensors, taken = strip(found, LIGHTNING in extra)
    return tensors, extra, (*notes, *taken)


def bared(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The same tensors without the first part of their names, if all share it, and a note."""
    field = next(iter(tensors), "").partition(".")[0] + "."
    if not _all_begin(tensors, field):
        return tensors, ()
    bare = {name.removeprefix(field): tensor for name, tensor in tensors.items()}
    return bare, (f"the prefix {field!r} was taken off every name",)


def strip(
    tensors: dict[str, Tensor], lightning: bool = False
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The same tensors without the prefixes that every name carries, and a note of each.

    ``lightning`` takes off the name of the module's field too, as Lightning writes it.
    """
    notes: list[str] = []
    prefixes = (*PREFIXES, *FIELDS) if lightning else PREFIXES
    while prefix := next((p for p in prefixes if tensors and _all_begin(tensors, p)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        notes.append(f"the prefix {prefix!r} was taken off every name")
    return tensors, tuple(notes)


def _all_begin(names: Mapping[str, Any], prefix: str) -> bool:
    return all(name.startswith(prefix) and name != prefix for name in names)


def _holds_tensors(value: Any, deep: int = DEEPEST) -> bool:
    """Whether something is a dictionary with tensors, or with a container of them."""
    if not isinstance(value, Mapping) or deep == 0:
        return False
    if any(isinstance(item, Tensor) for item in value.values()):
        return True
    words = (*CONTAINERS, *AVERAGES)
    return any(_holds_tensors(value.get(word), deep - 1) for word in words)
