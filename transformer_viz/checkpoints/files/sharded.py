"""Checkpoints in several parts, with an index that names the part of each tensor."""

from __future__ import annotations

from pathlib import Path

from .errors import CheckpointError, CheckpointMissing
from .strict_json import read_json

MAX_INDEX = 16 * 2**20  # bytes of an index
MAX_PARTS = 1000


def is_index(path: Path) -> bool:
    """Return True if a path is the index of a checkpoint in parts, by its name."""
    return path.name.endswith(".index.json")


def parts_of(path: Path) -> dict[Path, tuple[str, ...]]:
    """Return the parts that an index names, each with the names of its tensors.

    Raises:
        CheckpointError: The index has no map of weights, or parts outside of its folder.
        CheckpointMissing: A part does not exist.
    """
    found = read_json(path, MAX_INDEX).get("weight_map")
    if not (isinstance(found, dict) and found and all(isinstance(p, str) for p in found.values())):
        raise CheckpointError(
            f"{path.name} has no weight_map that says which file holds which weight; copy the "
            "folder again."
        )
    parts: dict[str, list[str]] = {}
    for name, part in found.items():
        parts.setdefault(part, []).append(name)
    if len(parts) > MAX_PARTS:
        raise CheckpointError(f"{path.name} names {len(parts):,} parts; {MAX_PARTS} are the most.")
    return {_part(path, part): tuple(names) for part, names in parts.items()}


def _part(path: Path, name: str) -> Path:
    """Return the file of a part, which must be in the folder of the index."""
    part, plain = path.parent / name, Path(name).name == name and name.isprintable()
    if not plain or "\\" in name or name in (".", "..") or is_index(part):
        raise CheckpointError(
            f"{path.name} names the part {name[:80]!r}; parts are files beside the index, without "
            "folders in their names, and no further index."
        )
    try:
        there, home = part.is_file(), part.resolve().parent
    except OSError:
        there, home = False, path.parent
    if not there:
        raise CheckpointMissing(
            f"{path.name} names the part {name[:80]!r}, which is not beside it; copy all parts."
        )
    folder = path.parent.resolve()
    # a snapshot of the Hugging Face cache is a folder of links to its neighbour, blobs
    blobs = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else folder
    if home not in (folder, blobs):
        raise CheckpointError(
            f"The part {name!r} of {path.name} is a link out of its folder; put the file itself "
            "there."
        )
    return part
