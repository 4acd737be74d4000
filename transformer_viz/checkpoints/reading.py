"""Weights from a file, read with suspicion: nothing in it is run, nothing outgrows the file.

Preferred is safetensors, which holds numbers only. A file of ``torch.save`` is a zip with a pickle
inside; it is opened with ``weights_only`` and a short list of harmless classes, after its zip
members were found uncompressed and no larger together than the file.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import pathlib
import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

MAX_FILE = 16 * 2**30  # bytes of weights
MAX_CONFIG = 2**20  # bytes of config.json
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".chkpt")
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)
CONTAINERS = ("model", "state_dict", "model_state_dict", "net")  # where trainers put the weights
PREFIXES = ("module.", "_orig_mod.")  # what data-parallel and compiled modules put before names

_SCALAR, _RECONSTRUCT = np.float64(0).__reduce__()[0], np.zeros(0).__reduce__()[0]

#: Plain data that training scripts store beside their weights; none of it can run anything.
HARMLESS: list[Any] = [
    argparse.Namespace,
    pathlib.PosixPath,
    np.ndarray,
    np.dtype,
    _SCALAR,
    _RECONSTRUCT,
    *(type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")),
    (_SCALAR, "numpy.core.multiarray.scalar"),  # as numpy 1 wrote them
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
]


class CheckpointError(ValueError):
    """A checkpoint that cannot be opened; the message says what came and what to do."""


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint, or a file it needs, that is not there."""


@dataclass(frozen=True, eq=False)
class Weights:
    """The tensors of one file by name, and whatever else the file held (``extra``)."""

    path: Path
    tensors: dict[str, Tensor]
    extra: dict[str, Any]


def read_weights(path: Path) -> Weights:
    """Every tensor of a weights file, on the CPU, in the dtype of the file.

    Raises:
        CheckpointMissing: no such file.
        CheckpointError: too large, damaged, compressed, holding objects or programs instead of
            tensors, or tensors larger than their data; says which and what to do.
    """
    if not path.is_file():
        raise CheckpointMissing(f"There is no weights file {path.name} in {path.parent}.")
    size = path.stat().st_size
    if not 0 < size <= MAX_FILE:
        raise CheckpointError(
            f"{path.name} has {size:,} bytes; a weights file has between 1 and {MAX_FILE:,}."
        )
    if path.suffix == ".safetensors":
        return Weights(path, _read_safetensors(path), {})
    if path.suffix in TORCH_SUFFIXES:
        return _read_torch(path)
    raise CheckpointError(
        f"{path.name} is no weights file by its name; expected one of {', '.join(SUFFIXES)}."
    )


def read_config(path: Path) -> dict[str, Any]:
    """The words of a ``config.json``; empty where there is no such file."""
    if not path.is_file():
        return {}
    if path.stat().st_size > MAX_CONFIG:
        raise CheckpointError(f"{path} is larger than {MAX_CONFIG:,} bytes; that is no config.")
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}. Mend or remove it.") from error
    if not isinstance(words, dict):
        raise CheckpointError(f"{path} holds {type(words).__name__}; a config is a JSON object.")
    return words


def digest(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_non_finite(name: str, tensor: Tensor, path: Path) -> None:
    """Refuse weights that are NaN or infinite: nothing that such a model shows means anything.

    Raises:
        CheckpointError: names the tensor and counts its bad values.
    """
    if not tensor.is_floating_point():
        return
    bad = int((~torch.isfinite(tensor.float())).sum())
    if bad:
        raise CheckpointError(
            f"{name} in {path.name} has {bad:,} values that are NaN or infinite; the training "
            "diverged or the file is damaged. Take an earlier checkpoint."
        )


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path.name} is not a sound safetensors file: {error}. Copy or save it again."
        ) from error


def _read_torch(path: Path) -> Weights:
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"  # older files are bare pickles
    if zipped:
        _check_members(path)
    try:
        with torch.serialization.safe_globals(HARMLESS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise _refusal(path, error) from error
    return _sorted(path, content)


def _check_members(path: Path) -> None:
    """Refuse zips that would unpack to more than they are, and those that hold programs."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile as error:
        raise CheckpointError(
            f"{path.name} is a damaged zip file: {error}. Copy or save it again."
        ) from error
    names = [member.filename for member in members]
    if any(name.endswith(("/constants.pkl", "models/model.json")) for name in names):
        raise CheckpointError(
            f"{path.name} holds a program (TorchScript or torch.export), which would run when "
            "used. Save weights instead: torch.save(model.state_dict(), 'weights.pt')."
        )
    compressed = [m.filename for m in members if m.compress_type != zipfile.ZIP_STORED]
    if compressed or sum(m.file_size for m in members) > path.stat().st_size:
        raise CheckpointError(
            f"{path.name} would unpack to more than its own size"
            f"{f' ({compressed[0]} is compressed)' if compressed else ''}; files of torch.save "
            "are never compressed. Save the state dict again with torch.save."
        )


def _refusal(path: Path, error: Exception) -> CheckpointError:
    """The reason why torch would not open a file, in a sentence."""
    found = re.findall(r"GLOBAL ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError):
        # older and damaged files cannot be asked: then the message is all there is
        with contextlib.suppress(Exception), torch.serialization.safe_globals(HARMLESS):
            found = torch.serialization.get_unsafe_globals_in_checkpoint(str(path)) or found
    if found:
        return CheckpointError(
            f"{path.name} holds Python objects ({', '.join(sorted(found)[:3])}), not only tensors; "
            "opening them could run code, so they are refused. Where the model was trained, save "
            "its weights: torch.save(model.state_dict(), 'weights.pt')."
        )
    reason = str(error).strip().partition("\n")[0][:120]
    if isinstance(error, pickle.UnpicklingError) or not reason:
        reason = "it is no file of torch.save"
    return CheckpointError(
        f"{path.name} cannot be read as weights: {reason}. It is damaged or of another kind; save "
        "the state dict again with torch.save, or as safetensors."
    )


def _sorted(path: Path, content: Any) -> Weights:
    """Tensors on one side, everything else on the other."""
    outer = content if isinstance(content, Mapping) else {}
    inner = next(
        (outer[word] for word in CONTAINERS if isinstance(outer.get(word), Mapping)), outer
    )
    tensors = {
        str(name): value.detach() for name, value in inner.items() if isinstance(value, Tensor)
    }
    if not tensors:
        raise CheckpointError(
            f"{path.name} holds no named tensors but {type(content).__name__}; expected a state "
            "dict, or a dictionary with one under " + ", ".join(CONTAINERS) + "."
        )
    for name, tensor in tensors.items():
        _check_storage(name, tensor, path)
    extra = {str(name): value for name, value in outer.items() if value is not inner}
    return Weights(path, _strip(tensors), extra if inner is not outer else {})


def _check_storage(name: str, tensor: Tensor, path: Path) -> None:
    """Refuse a tensor that claims more numbers than were stored: copying it would fill memory."""
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if not plain or tensor.is_quantized:
        raise CheckpointError(
            f"{name} in {path.name} is a {tensor.layout} tensor on {tensor.device}; only plain "
            "tensors with their numbers can be opened. Save the weights of the model as it was "
            "trained: unquantised, dense, on the CPU."
        )
    claimed, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if claimed > stored:
        raise CheckpointError(
            f"{name} in {path.name} claims {claimed:,} bytes and has {stored:,}; such a tensor "
            "would fill the memory when copied. Save it with .contiguous()."
        )


def _strip(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors without the prefixes that every one of the names carries."""
    for prefix in PREFIXES * len(PREFIXES):
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors
