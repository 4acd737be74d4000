"""Weight loading: each tensor is copied to its parameter, in its shape; none is made up.

The module is built with uninitialised weights, which take no memory until they are filled. Its
names and shapes are first compared with the file's, so a config with wrong sizes costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...capture.torch_function_mode import InterceptCalls
from ..files.reading import CheckpointError, Weights, refuse_non_finite
from .rename_keys import Table, file_name, has_config, map_names, nearest, pattern, uncut

#: Functions that fill a tensor with random numbers.
DRAWS = {
    *("normal_", "uniform_", "trunc_normal_", "xavier_normal_", "xavier_uniform_"),
    *("kaiming_normal_", "kaiming_uniform_", "orthogonal_"),
}


def skip_init() -> InterceptCalls:
    """Return a context that builds modules without initialising their weights.

    Memory is allocated but not written, and no random numbers are drawn. (PyTorch's ``meta`` device
    would do too, but it imports the compiler, which takes seconds.)
    """

    def handle(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if getattr(func, "__name__", "") in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)

    return InterceptCalls(handle)


def build(
    make: Callable[[], nn.Module],
    weights: Weights,
    table: Table = (),
    optional: Sequence[str] = (),
) -> nn.Module:
    """Return the module of ``make`` with the file's weights, in evaluation mode, on the CPU.

    Half-precision weights are converted to the module's float32.

    Args:
        make: Builds the module.
        weights: Weights of the file.
        table: Pairs of file name and module name, see :mod:`.rename_keys`; errors use file names.
        optional: Forms of module names of biases that a code base can leave out. The module goes
            without a form that the file lacks.

    Raises:
        CheckpointError: A weight is missing, unknown, of another shape, or not finite.
    """
    try:
        with torch.random.fork_rng(devices=[]), skip_init():
            module = make()
    except (RuntimeError, MemoryError, OverflowError) as error:
        what = "config" if has_config(weights) else "words given"
        asks = "config asks" if has_config(weights) else "model asks"
        raise CheckpointError(
            f"The {asks} for more memory than there is; {weights.path.name} is much smaller. "
            f"Check the sizes in the {what}."
        ) from error
    except CheckpointError:
        raise
    except ValueError as error:
        reason = str(error).rstrip(". ")
        what = "of the config" if has_config(weights) else "given"
        raise CheckpointError(
            f"No model can be built from the words {what}: {reason}. Correct the word."
        ) from error
    _leave_out(module, weights, table, optional)
    compare(module, weights, table)
    fill(module, weights, table)
    return module.eval()


def _leave_out(module: nn.Module, weights: Weights, table: Table, optional: Sequence[str]) -> None:
    """Remove optional biases from a module if the file has none of their form."""
    wanted = _wanted(module, weights, table)
    for form in map(pattern, optional):
        names = {own: file for own, file in wanted.items() if form.fullmatch(own)}
        if not any(file in weights.tensors for file in names.values()):
            for name in names:
                path, _, last = name.rpartition(".")
                setattr(module.get_submodule(path), last, None)


def _wanted(module: nn.Module, weights: Weights, table: Table) -> dict[str, str]:
    """Return the file's name for each parameter and stored buffer of a module."""
    return {name: file_name(name, table, weights.tensors) for name in module.state_dict()}


def shared_names(module: nn.Module) -> list[list[str]]:
    """Return the names of each parameter and stored buffer; tied matrices have several."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def compare(
    module: nn.Module, weights: Weights, table: Table = (), config: bool | None = None
) -> None:
    """Compare the names and shapes of a file with those of a module.

    Args:
        module: The built module.
        weights: Weights of the file.
        table: Pairs of file name and module name.
        config: True if a config describes the module, which errors then name; None checks for a
            config beside the file.

    Raises:
        CheckpointError: Names the first weight that is missing, unknown, or of another shape.
    """
    told = _wanted(module, weights, table)
    wanted = {told[name]: tensor for name, tensor in module.state_dict(keep_vars=True).items()}
    found, file = weights.tensors, weights.path.name
    config = has_config(weights) if config is None else config
    fits = "the config fits the file"
    if not config:
        fits = f"the file is whole and of this layout{map_names(weights)}"
    for names in shared_names(module):
        if not any(told[name] in found for name in names):
            lost = uncut(told[names[0]])
            near = nearest(lost, set(map(uncut, set(found) - set(wanted))))
            raise CheckpointError(
                f"{file} lacks the weight {lost}{near}. Missing weights are not made up; check "
                f"that {fits}."
            )
    for name, tensor in found.items():
        if name not in wanted:
            near = nearest(uncut(name), set(map(uncut, set(wanted) - set(found))))
            raise CheckpointError(
                f"{file} has a weight {uncut(name)} that this model does not know{near}. Check "
                f"that {fits}."
            )
        if tensor.shape != wanted[name].shape:
            if config:
                makes, do = "the config makes it", "Correct the config, or override its words"
            else:
                makes, do = (
                    "the rest of the model makes it",
                    f"Correct the overrides, or check that {fits}",
                )
            raise CheckpointError(
                f"{name} is {list(tensor.shape)} in {file}, but {makes} "
                f"{list(wanted[name].shape)}. {do}."
            )


def fill(module: nn.Module, weights: Weights, table: Table = ()) -> None:
    """Copy the file's weights into a module that passed :func:`compare`."""
    wanted, told = module.state_dict(), _wanted(module, weights, table)
    for names in shared_names(module):
        present = [told[name] for name in names if told[name] in weights.tensors]
        value = weights.tensors[present[0]]
        if not weights.allow_nonfinite:
            refuse_non_finite(present[0], value, weights.path)
        for other in present[1:]:
            _require_equal(present[0], value, other, weights)
        wanted[names[0]].copy_(value)


def _require_equal(first: str, value: Tensor, other: str, weights: Weights) -> None:
    second = weights.tensors[other]
    same = (value == second) | (value.isnan() & second.isnan())
    if not bool(same.all()):
        who = "The config ties" if has_config(weights) else "This model ties"
        raise CheckpointError(
            f"{who} {first} and {other}, but the file holds two different matrices; "
            "override tied= (none, embeddings, output or all)."
        )
