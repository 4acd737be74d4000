"""Serialization of a file's contents between processes: tensors as safetensors, all else as JSON.

Values without a JSON form are replaced by their kind, or left out. Both sides open the checkpoint
from this data, so the model built is the one that was tested.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from ..checkpoints.files.errors import CheckpointError
from ..checkpoints.files.reading import MAX_TENSORS, Weights, read_tensors
from ..checkpoints.files.stand_ins import is_left_out, plain_value
from .received import is_there, received

WEIGHTS, BESIDE = "weights.safetensors", "beside.safetensors"
TENSORS_BESIDE = ("generator",)  # keys of weights outside the state dict
DEEPEST = 12  # maximum nesting of containers
DEEPEST_LEFT_OUT = 3  # in a replaced object
MOST_WHOLE = 2**63
MOST_TIMES, SPARE = 4, 100_000_000  # maximum growth over the size of a file: factor, and bytes


def write_tensors(tensors: Mapping[str, Tensor], path: Path, tied: bool = True) -> dict[str, str]:
    """Store tensors without shared memory; return the names of equal ones by name.

    Equal tensors are the same view of the same memory, such as tied layers. They are stored once if
    ``tied``.

    Raises:
        CheckpointError: Tensors cannot be stored, or overlapping views would become many times
            larger.
    """
    seen: dict[int, int] = {}
    first: dict[tuple[Any, ...], str] = {}
    apart: dict[str, Tensor] = {}
    equal: dict[str, str] = {}
    size = 0
    for name, tensor in tensors.items():
        numbers = tensor.untyped_storage()
        place = numbers.data_ptr()
        part = (place, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        if tied and tensor.numel() and (same := first.setdefault(part, name)) != name:
            equal[name] = same
            continue
        size += tensor.numel() * tensor.element_size()
        shared = place in seen
        seen[place] = numbers.nbytes()
        if size > MOST_TIMES * sum(seen.values()) + SPARE:
            raise CheckpointError(
                f"{name} and other weights of this file are parts of the same numbers, and stored "
                f"one by one they are more than {MOST_TIMES} times as large as the file. Save the "
                "state dict as safetensors."
            )
        apart[name] = tensor.detach().clone() if shared else tensor.detach().contiguous()
    try:
        safetensors.torch.save_file(apart, path)
    except (KeyError, ValueError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:100]
        raise CheckpointError(
            f"The numbers of this file cannot be handed on ({reason}); save the state dict as "
            "safetensors."
        ) from error
    return equal


def written(weights: Weights, folder: Path) -> dict[str, Any]:
    """Store weights in a folder, and return all else of them as plain data."""
    beside: dict[str, Tensor] = {}
    kept = {
        name: encode(value, beside if name in TENSORS_BESIDE else None)
        for name, value in weights.extra.items()
    }
    equal = write_tensors(weights.tensors, folder / WEIGHTS)
    equal_beside = write_tensors(beside, folder / BESIDE) if beside else {}
    return {
        "extra": kept,
        "unwrapped": list(weights.unwrapped),
        "order": list(weights.tensors),
        "names": dict(weights.names),
        "equal": equal,
        "equal_beside": equal_beside,
    }


def read_back(told: Any, folder: Path, path: Path, allow_nonfinite: bool) -> Weights:
    """Return weights that were stored in a folder, checked like any untrusted file.

    Args:
        told: Result of `written`, untrusted.
        folder: Folder of the tensors.
        path: Original file, for names and errors.
        allow_nonfinite: As in `Weights`.

    Raises:
        CheckpointError: A file is damaged, or the data is invalid.
    """
    if not isinstance(told, dict):
        raise incomplete(path)
    words: Any = told
    beside = read_handed_over(folder, BESIDE, path) if is_there(folder, BESIDE) else {}
    beside |= equal_tensors(words.get("equal_beside"), beside)
    extra, notes, order = (words.get(word) for word in ("extra", "unwrapped", "order"))
    names = words.get("names", {})
    tensors = read_handed_over(folder, WEIGHTS, path)
    tensors |= equal_tensors(words.get("equal"), tensors)
    fit = isinstance(extra, dict) and isinstance(notes, list) and isinstance(order, list)
    fit = fit and isinstance(names, dict) and len(names) <= MAX_TENSORS
    if not fit or sorted(map(str, order)) != sorted(tensors):
        raise incomplete(path)
    return Weights(
        path,
        {name: tensors[name] for name in map(str, order)},
        {str(name): decode(value, beside) for name, value in extra.items()},
        tuple(str(note)[:300] for note in notes[:20]),
        allow_nonfinite,
        {str(key): None if name is None else str(name) for key, name in names.items()},
    )


def equal_tensors(told: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that `write_tensors` stored under another name."""
    pairs = told.items() if isinstance(told, dict) and len(told) <= MAX_TENSORS else ()
    return {str(name): tensors[str(same)] for name, same in pairs if str(same) in tensors}


def read_handed_over(folder: Path, name: str, path: Path) -> dict[str, Tensor]:
    """Read tensors that a process stored in its folder, for a checkpoint at ``path``.

    Raises:
        CheckpointError: The file is no regular safetensors file of this user.
    """
    try:
        with received(folder, name) as place:
            return read_tensors(place)
    except CheckpointError as error:
        raise incomplete(path) from error


def incomplete(path: Path) -> CheckpointError:
    """Return the error for a process that returned invalid data."""
    return CheckpointError(f"What was read of {path.name} is incomplete; open it again.")


def encode(value: Any, tensors: dict[str, Tensor] | None = None, deep: int = DEEPEST) -> Any:
    """Return a value of plain data as JSON; tensors are added to ``tensors``, if given."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_left_out(value):
        deep = min(deep, DEEPEST_LEFT_OUT)
        value = plain_value(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < MOST_WHOLE else {"other": "int"}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Tensor) and tensors is not None:
        name = str(len(tensors))
        tensors[name] = value
        return {"tensor": name}
    if deep == 0 or isinstance(value, Tensor):
        return {"other": type(value).__name__}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode(one, tensors, deep - 1) for one in value]}
    kind = "namespace" if isinstance(value, argparse.Namespace) else "dict"
    words = vars(value) if kind == "namespace" else value
    if not isinstance(words, Mapping):
        return {"other": type(value).__name__}
    pairs = [[encode(k, None, 1), encode(v, tensors, deep - 1)] for k, v in words.items()]
    return {kind: pairs}


def decode(given: Any, tensors: Mapping[str, Tensor], deep: int = DEEPEST) -> Any:
    """Return the value that `encode` wrote; None for invalid data."""
    if not isinstance(given, dict):
        plain = given is None or isinstance(given, str | float | bool)
        return given if plain or (isinstance(given, int) and abs(given) < MOST_WHOLE) else None
    kind, held = next(iter(given.items()), ("", None))
    if kind == "float":
        return float(held) if held in ("inf", "-inf", "nan") else None
    if kind == "tensor":
        return tensors.get(str(held))
    if deep == 0 or not isinstance(held, list):
        return None
    if kind in ("list", "tuple"):
        items = [decode(one, tensors, deep - 1) for one in held]
        return tuple(items) if kind == "tuple" else items
    pairs = [one for one in held if isinstance(one, list) and len(one) == 2]
    words = {_key(name, tensors): decode(one, tensors, deep - 1) for name, one in pairs}
    if kind == "namespace":
        made = argparse.Namespace()
        vars(made).update((str(name), one) for name, one in words.items())
        return made
    return words if kind == "dict" else None


def _key(given: Any, tensors: Mapping[str, Tensor]) -> Any:
    found = decode(given, tensors, 2)
    try:
        hash(found)
    except TypeError:
        return str(found)
    return found if isinstance(found, str | int | float | bool | tuple | None) else str(found)
