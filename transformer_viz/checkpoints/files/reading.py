"""Safe reader of weights: no code of a file runs, and no result outgrows the file.

Preferred is safetensors, which holds numbers only. A file of ``torch.save`` is a zip with a pickle
inside. The pickle is first inspected with stand-ins (:mod:`.pickles`), then opened with
``weights_only`` and a short list of harmless classes. Numbers stay on disk until they are used.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import pathlib
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ...core.errors import writable
from ...core.stored.file_names import utf8_name
from .errors import CheckpointError as CheckpointError
from .errors import CheckpointMissing as CheckpointMissing
from .errors import reason
from .finite import refuse_non_finite as refuse_non_finite
from .pickles import look_through
from .sharded import is_index, parts_of
from .sniffing import kind_of
from .stand_ins import holding_objects, left_out_note, names_among, stand_in, what_was_left_out
from .strict_json import parse, read_json
from .unwrapping import state_dict_of, unwrap
from .zips import damaged, members

MAX_FILE = 16 * 2**30  # bytes of weights
MAX_CONFIG = 2**20  # bytes of config.json
MAX_HEADER = 2**24  # bytes of the header of a safetensors file
MAX_PICKLE = 2**26  # bytes of the pickle of a torch.save file
MAX_TENSORS = 100_000
MAX_SHARED = 20  # times the file's own size that its tensors may claim together
LEGACY_PICKLES = 5  # magic number, protocol, machine, content, keys of the storages
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".chkpt", ".pth.tar")  # the last is no tar file
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)

_ONE_LIST = threading.Lock()  # torch keeps one list of allowed names for all threads
_SCALAR, _RECONSTRUCT = np.float64(0).__reduce__()[0], np.zeros(0).__reduce__()[0]

#: Plain data that training scripts store beside their weights; none of it can run code.
HARMLESS: list[Any] = [
    argparse.Namespace,
    pathlib.PosixPath,
    (pathlib.PosixPath, "pathlib._local.PosixPath"),  # as Python 3.13 writes it
    (pathlib.PureWindowsPath, "pathlib.WindowsPath"),
    (pathlib.PureWindowsPath, "pathlib._local.WindowsPath"),
    np.ndarray,
    np.dtype,
    _SCALAR,
    _RECONSTRUCT,
    *(type(np.dtype(f"{kind}{size}")) for kind in "iu" for size in (1, 2, 4, 8)),
    *(type(np.dtype(name)) for name in ("float64", "float32", "float16", "bool", "U", "S")),
    (_SCALAR, "numpy.core.multiarray.scalar"),  # as numpy 1 wrote them
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
]


@dataclass(frozen=True, eq=False)
class Weights:
    """Tensors of one file by name, and all else that the file held (``extra``).

    ``unwrapped`` lists the containers and prefixes removed around them. ``allow_nonfinite`` accepts
    NaN and infinity. ``names`` are the file's own names that were mapped to others, None for one
    left out. ``notes`` are sentences on parts of the file that were not read.
    """

    path: Path
    tensors: dict[str, Tensor]
    extra: dict[str, Any]
    unwrapped: tuple[str, ...] = ()
    allow_nonfinite: bool = False
    names: Mapping[str, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """Type of the numbers in the file, ``float16``; that of its first tensor."""
        return str(next(iter(self.tensors.values())).dtype).removeprefix("torch.")

    @property
    def floats(self) -> str:
        """Type of the first tensor of floats; empty if there is none."""
        floats = (t.dtype for t in self.tensors.values() if t.is_floating_point())
        return str(next(floats, "")).removeprefix("torch.")


def read_weights(path: Path, averaged: bool = False, other_networks: bool = False) -> Weights:
    """Return every tensor of a weights file, or of all parts of an index, in the file's dtype.

    Args:
        path: The file, or a ``*.index.json``.
        averaged: Read the running average of the weights, if the file holds one.
        other_networks: Keep tensors that are no part of usual models, such as weights of a loss.

    Raises:
        CheckpointMissing: There is no such file.
        CheckpointError: The file is too large, damaged or compressed, holds objects or programs, or
            its tensors are larger than their data; states which and what to do.
    """
    content = _parts(path) if is_index(path) else _content(path)
    left_out = what_was_left_out(content)
    tensors, extra, changes = unwrap(content, averaged, other_networks)
    if not is_index(path) and kind_of(path) == "safetensors":
        extra |= {"metadata": _header(path).get("__metadata__")}
    named = {writable(name): tensor for name, tensor in tensors.items()}
    if len(named) < len(tensors):
        raise CheckpointError(f"{path.name} has two weights of one name; save it again.")
    weights = Weights(path, named, extra, changes, notes=left_out_note(path, left_out))
    among = names_among(state_dict_of(content, averaged)[0].values())
    if among or (left_out and not weights.tensors):
        raise holding_objects(path, among or {left.name for left in left_out})
    if not weights.tensors:
        raise _without_tensors(path, content)
    if averaged and not any("average" in note for note in weights.unwrapped):
        raise CheckpointError(
            f"{path.name} holds no running average of the weights; open it without weights='ema'."
        )
    _check_tensors(weights, file_size(path))
    return weights


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return every tensor of a safetensors file, under its own name.

    Raises:
        CheckpointMissing: There is no such file.
        CheckpointError: The file is too large, damaged, or of another kind.
    """
    if path.is_file() and kind_of(path) != "safetensors":  # a pickle is not opened at all
        raise CheckpointError(f"{path.name} is no safetensors file; save it again.")
    weights = Weights(path, _content(path, named=False), {})
    _check_tensors(weights, file_size(path))
    return weights.tensors


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``; empty if there is no such file."""
    return read_json(path, MAX_CONFIG) if path.is_file() else {}


def _header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file, see :func:`shapes_of`."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(MAX_HEADER, path.stat().st_size - 8):
            raise CheckpointError(
                f"{path.name} is not a sound safetensors file: a header of {length:,} bytes is too "
                f"large, {MAX_HEADER:,} are the most. Copy or save it again."
            )
        content = file.read(length)
    if (count := content.count(b'"dtype"')) > MAX_TENSORS:
        raise CheckpointError(
            f"{path.name} holds {count:,} tensors, and {MAX_TENSORS:,} are the most."
        )
    return parse(content, f"The header of {path.name}")


def shapes_of(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Return dtype and shape of each tensor of a safetensors file, from its header alone.

    Raises:
        CheckpointError: The header is damaged, too large, or names a tensor twice.
    """
    header = _header(path)
    header.pop("__metadata__", None)
    try:
        return {name: (str(item["dtype"]), list(item["shape"])) for name, item in header.items()}
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            f"{path.name} is not a sound safetensors file: its header lacks a dtype or a shape. "
            "Copy or save it again."
        ) from error


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of an index and its parts in order, as 64 hex digits."""
    if not is_index(path):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    whole = hashlib.sha256(path.read_bytes())
    for part in sorted(parts_of(path)):
        whole.update(bytes.fromhex(digest(part)))
    return whole.hexdigest()


def file_size(path: Path) -> int:
    """Return the bytes of a weights file, or of all parts of an index."""
    return sum(part.stat().st_size for part in (parts_of(path) if is_index(path) else (path,)))


def read_object(path: Path) -> Any:
    """Return the content of a torch.save file; objects of other code stay stand-ins.

    Raises:
        CheckpointError: It cannot be read safely.
    """
    return _content(path)


def _content(path: Path, named: bool = True) -> Any:
    """Return the content of one file; ``named`` requires the extension of a weights file."""
    if not path.is_file():
        raise CheckpointMissing(f"There is no weights file {path.name} in {path.parent}.")
    if named and not path.name.endswith(SUFFIXES):
        raise CheckpointError(
            f"{path.name} is no weights file by its name; expected one of {', '.join(SUFFIXES)}."
        )
    size = path.stat().st_size
    if not 0 < size <= MAX_FILE:
        raise CheckpointError(
            f"{path.name} has {size:,} bytes; a weights file has between 1 and {MAX_FILE:,}."
        )
    kind = kind_of(path)
    return _read_safetensors(path) if kind == "safetensors" else _read_torch(path, kind == "zip")


def _parts(path: Path) -> dict[str, Any]:
    """Return the content of all parts of an index, each from the part that the index names."""
    if not path.is_file():
        raise CheckpointMissing(f"There is no index {path.name} in {path.parent}.")
    whole: dict[str, Any] = {}
    for part, names in parts_of(path).items():
        content = _content(part)
        found = content if isinstance(content, dict) else {}
        odd = sorted(set(names) ^ set(map(str, found)))
        if odd:
            said, does = ("holds", "does not") if odd[0] in names else ("does not hold", "does")
            raise CheckpointError(
                f"{path.name} says that {part.name} {said} {odd[0]}, and it {does}; the parts do "
                "not belong together. Copy the folder again."
            )
        whole |= found
    return whole


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    if not shapes_of(path):
        raise CheckpointError(f"{path.name} holds no tensors; take the file with the weights.")
    try:
        with utf8_name(path) as name:
            return safetensors.torch.load_file(name)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{path.name} is not a sound safetensors file: {reason}. Copy or save it again."
        ) from error


def _read_torch(path: Path, zipped: bool) -> Any:
    """Return the content of a torch.save file: a zip, or (before 2020) a bare pickle."""
    if path.suffix == ".safetensors":  # torch would go by the name too
        raise CheckpointError(f"{path.name} is a file of torch.save; let its name end in .pt.")
    left_out = _check_zip(path) if zipped else _check_pickles(path)
    strange: list[Any] = [(stand_in(name, kind), name) for name, kind in (left_out or {}).items()]
    try:
        with _ONE_LIST, torch.serialization.safe_globals([*HARMLESS, *strange]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # a damaged file can raise nearly anything
        raise CheckpointError(
            f"{path.name} cannot be read as weights: {reason(error)}. It is damaged or of another "
            "kind; save the state dict again with torch.save, or as safetensors."
        ) from error


def _check_pickles(path: Path) -> dict[str, str]:
    """Inspect the pickles of an old file, whose storages must fit into it.

    Returns the names that are left out, see :class:`.Contents`.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        contents = look_through(file, size, path, LEGACY_PICKLES)
    claimed = sum(contents.storages.values())
    if claimed > size:
        raise CheckpointError(
            f"{path.name} cannot be read as weights: its tensors claim {claimed:,} bytes and the "
            f"file has {size:,}. It is damaged; copy or save it again."
        )
    return contents.left_out


def _check_zip(path: Path) -> dict[str, str]:
    """Refuse zips that unpack to more than their size, and those that hold programs.

    Returns the names that are left out, see :class:`.Contents`.
    """
    found = members(path)
    names = [member.filename for member in found]
    if any(name.endswith(("/constants.pkl", "models/model.json")) for name in names):
        raise CheckpointError(
            f"{path.name} holds a program (TorchScript or torch.export), which would run when "
            "used. Save weights instead: torch.save(model.state_dict(), 'weights.pt')."
        )
    content = [name for name in names if name.endswith("/data.pkl")]
    if len(content) != 1 or len({name.casefold() for name in names}) < len(names):
        raise CheckpointError(
            f"{path.name} is a zip file, but not of torch.save, which writes one data.pkl and no "
            "name twice. If it is a packed folder, unpack it first."
        )
    compressed = [m.filename for m in found if m.compress_type != zipfile.ZIP_STORED]
    if compressed or sum(m.file_size for m in found) > path.stat().st_size:
        raise CheckpointError(
            f"{path.name} would unpack to more than its own size"
            f"{f' ({compressed[0]} is compressed)' if compressed else ''}; files of torch.save "
            "are never compressed. Save the state dict again with torch.save."
        )
    return _check_records(path, content[0], {member.filename: member.file_size for member in found})


def _check_records(path: Path, content: str, sizes: dict[str, int]) -> dict[str, str]:
    """Inspect the pickle of a zip, and compare its storages with the records."""
    if sizes[content] > MAX_PICKLE or len(sizes) > MAX_TENSORS:
        raise CheckpointError(
            f"{path.name} has a table of contents of {sizes[content]:,} bytes and {len(sizes):,} "
            f"records; {MAX_PICKLE:,} and {MAX_TENSORS:,} are the most."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            table = archive.read(content)
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError) as error:
        raise damaged(path, error) from error
    folder = content.removesuffix("data.pkl")
    contents = look_through(io.BytesIO(table), len(table), path)
    for key, claimed in contents.storages.items():
        stored = sizes.get(f"{folder}data/{key}", 0)
        if claimed != stored:
            raise CheckpointError(
                f"{path.name} cannot be read as weights: record data/{key[:40]} has {stored:,} "
                f"bytes and should have {claimed:,}. It is damaged; copy or save it again."
            )
    return contents.left_out


def _without_tensors(path: Path, content: Any) -> CheckpointError:
    """Return the error for a file without a state dict, with the content of the file."""
    kind = type(content).__name__
    inside = ", ".join(str(key)[:40] for key in list(content)[:5]) if type(content) is dict else ""
    return CheckpointError(
        f"{path.name} holds no named tensors but a {kind}{f' ({inside})' if inside else ''}; "
        "expected a state dict, or a dictionary with one under model, state_dict, "
        "model_state_dict or net."
    )


def _check_tensors(weights: Weights, size: int) -> None:
    """Refuse tensors that claim more bytes than are stored, and types that cannot be used."""
    path, total = weights.path, 0
    for name, tensor in (*weights.tensors.items(), *_tensors_in(weights.extra)):
        plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.is_quantized or tensor.is_complex():
            what = "complex" if tensor.is_complex() else f"{tensor.layout} on {tensor.device}"
            raise CheckpointError(
                f"{name} in {path.name} is {what}; only plain tensors of real numbers can be "
                "opened. Save the weights of the model as it was trained."
            )
        claimed, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
        if claimed > stored:
            raise CheckpointError(
                f"{name} in {path.name} claims {claimed:,} bytes and has {stored:,}; such a tensor "
                "would fill the memory when copied. Save it with .contiguous()."
            )
        total += claimed
    if total > MAX_SHARED * size:
        raise CheckpointError(
            f"The tensors of {path.name} share their numbers so often that they claim {total:,} "
            f"bytes of a file of {size:,}; save each of them with .clone()."
        )


def _tensors_in(content: Any, deep: int = 4) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in dictionaries and lists, which a layout may take for weights too."""
    pairs: Any = content.items() if isinstance(content, Mapping) else ()
    if isinstance(content, list | tuple):
        pairs = enumerate(content)
    for name, value in pairs:
        if isinstance(value, Tensor):
            yield str(name), value
        elif deep:
            yield from _tensors_in(value, deep - 1)
