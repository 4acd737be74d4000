"""Weights into a module: every tensor at its place, in its shape, none invented.

The module is built with empty weights, which take up no memory until they are filled, and its
names and shapes are compared with the file's first: a config that lies about sizes costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .reading import CheckpointError, Weights, refuse_non_finite

#: The functions that fill a tensor with random numbers.
DRAWS = {
    *("normal_", "uniform_", "trunc_normal_", "xavier_normal_", "xavier_uniform_"),
    *("kaiming_normal_", "kaiming_uniform_", "orthogonal_"),
}


class NoFirstWeights(TorchFunctionMode):
    """Builds modules without drawing their first weights, which the file replaces anyway.

    So its weights are memory that was asked for and never touched, and no random numbers are
    used up. (PyTorch's ``meta`` device would do too, but imports the compiler, for seconds.)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def build(make: Callable[[], nn.Module], weights: Weights) -> nn.Module:
    """The module that ``make`` gives, with the file's weights, in evaluation mode, on the CPU.

    Half-precision weights become the module's float32.

    Raises:
        CheckpointError: a weight that is missing, unknown, of another shape, or not finite.
    """
    try:
        with torch.random.fork_rng(devices=[]), NoFirstWeights():
            module = make()
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(
            f"The config asks for more memory than there is; {weights.path.name} is much smaller. "
            "Check the sizes in the config."
        ) from error
    compare(module, weights)
    fill(module, weights)
    return module.eval()


def shared_names(module: nn.Module) -> list[list[str]]:
    """The names of each parameter and stored buffer; tied matrices have several."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def compare(module: nn.Module, weights: Weights) -> None:
    """Hold the names and shapes of a file against those of a module.

    Raises:
        CheckpointError: names the first weight that is missing, unknown, or of another shape.
    """
    wanted = module.state_dict(keep_vars=True)
    found, file = weights.tensors, weights.path.name
    for names in shared_names(module):
        if not any(name in found for name in names):
            near = _nearest(names[0], set(found) - set(wanted))
            raise CheckpointError(
                f"{file} lacks the weight {names[0]}{near}. Missing weights are not made up; "
                "check that the config fits the file."
            )
    for name, tensor in found.items():
        if name not in wanted:
            near = _nearest(name, set(wanted) - set(found))
            raise CheckpointError(
                f"{file} has a weight {name} that this model does not know{near}. Check that the "
                "config fits the file."
            )
        if tensor.shape != wanted[name].shape:
            raise CheckpointError(
                f"{name} is {list(tensor.shape)} in {file}, but the config makes it "
                f"{list(wanted[name].shape)}. Correct the config, or override its words."
            )


def fill(module: nn.Module, weights: Weights) -> None:
    """Copy the file's weights into a module that :func:`compare` found fitting."""
    wanted = module.state_dict()
    for names in shared_names(module):
        present = [name for name in names if name in weights.tensors]
        value = weights.tensors[present[0]]
        refuse_non_finite(present[0], value, weights.path)
        for other in present[1:]:
            _require_equal(present[0], value, other, weights.tensors[other])
        wanted[names[0]].copy_(value)


def _require_equal(first: str, value: Tensor, other: str, second: Tensor) -> None:
    if not torch.equal(value, second):
        raise CheckpointError(
            f"The config ties {first} and {other}, but the file holds two different matrices; "
            "override tied= (none, embeddings, output or all)."
        )


def _nearest(name: str, others: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(others), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]})" if close else ""
