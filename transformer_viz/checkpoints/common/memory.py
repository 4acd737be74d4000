"""Memory needed by a checkpoint, compared with free memory before its weights are read."""

from __future__ import annotations

import math
from pathlib import Path

from ..files.errors import CheckpointError
from ..files.reading import file_size, shapes_of
from ..files.sharded import is_index, parts_of
from ..files.sniffing import kind_of
from .bundled import is_bundled
from .model import Model
from .number_type import DIGITS, TYPES, name_of, number_type

#: Float types in the header of a safetensors file.
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
MEMORY_INFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
UNKNOWN = 2**60  # bytes, for systems that do not report free memory


def free_memory() -> int:
    """Return the bytes of memory that can be used without swapping, within a container's limit."""
    free = UNKNOWN
    try:
        words = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
        free = 1024 * int(words["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        most = int((CONTAINER / "memory.max").read_text())
        used = int((CONTAINER / "memory.current").read_text())
        told = (CONTAINER / "memory.stat").read_text().splitlines()
        files = next((int(x.split()[1]) for x in told if x.startswith("inactive_file ")), 0)
        free = min(free, max(0, most - used + files))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        pass
    return free


def sizes_in_memory(path: Path, dtype: object) -> tuple[int, int, str]:
    """Return the bytes of a file's weights in ``dtype`` and in their own type, and that type's
    name.

    Only headers are read; a file without one counts with its size twice. ``dtype`` is as for
    `number_type`.
    """
    parts = list(parts_of(path)) if is_index(path) else [path]
    if not all(part.is_file() and kind_of(part) == "safetensors" for part in parts):
        return file_size(path), file_size(path), ""
    wanted, own, kind = 0, 0, ""
    for part in parts:
        size = part.stat().st_size
        for word, shape in shapes_of(part).values():
            name = FLOATS.get(word, "")
            if not name:
                continue
            count = min(math.prod(shape), size)  # no number is smaller than a byte
            wanted += count * number_type(dtype, name).itemsize
            own += count * TYPES[name].itemsize
            kind = kind or name
    return wanted, own, kind


def require_memory(path: Path, dtype: object, *, spread: bool = False) -> None:
    """Refuse weights that do not fit into memory, unless they are spread over devices.

    Raises:
        CheckpointError: States the needed and the free memory, and a type of number that fits.
    """
    if spread:
        return
    number_type(dtype, "")  # refuse an unknown name before anything is read
    try:
        wanted, own, kind = sizes_in_memory(path, dtype)
    except CheckpointError:  # the reader reports the error of the file
        return
    free = free_memory()
    if wanted <= free:
        return
    do = "Free some memory, or open a smaller model."
    named = name_of(number_type(dtype, kind))
    if own <= free and kind != named:
        do = f'Give dtype="auto" for the {kind} of the file, {_gigabytes(own)} GB.'
    raise CheckpointError(
        f"{path.name} takes {_gigabytes(wanted)} GB in {named}, and "
        f"{_gigabytes(free)} GB of memory are free. {do}"
    )


def widened_note(model: Model, path: Path, dtype: object) -> tuple[str, ...]:
    """Return a note on a half-precision file that is computed in float32; empty otherwise.

    There is none if a ``dtype`` was given, or for a bundled model, which is stored in half
    precision to be small.
    """
    if (
        dtype is not None
        or model.file_dtype not in DIGITS
        or model.dtype != "float32"
        or is_bundled(path)
    ):
        return ()
    return (
        f"The file holds {model.file_dtype} and is computed in float32, which takes twice its "
        f'memory; dtype="auto" computes in {model.file_dtype}.',
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f}"
