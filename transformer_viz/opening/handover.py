"""Transfer of a checkpoint that is read in one process and built in another."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..checkpoints.common.candidate import Candidate
from ..checkpoints.files.adapters import CONFIG, Adapter
from ..checkpoints.files.reading import read_config, refuse_non_finite
from ..checkpoints.files.sharded import is_index, parts_of
from ..checkpoints.loader import Layout, layouts
from .plain_data import (
    decode,
    encode,
    incomplete,
    read_back,
    read_handed_over,
    write_tensors,
    written,
)
from .received import received

MOST_REMARKS, LONGEST_REMARK = 20, 400  # maximum notes, characters
ADAPTER = "adapter_model.safetensors"


def hand_over(layout: Layout, found: Candidate, folder: Path) -> dict[str, Any]:
    """Read a recognised checkpoint, and store its parts that are not safetensors in a folder.

    Returns plain data for `taken`.

    Raises:
        CheckpointError: The file is unsafe or damaged.
    """
    told: dict[str, Any] = {"layout": layout.NAME, "unwrapped": list(found.weights.unwrapped)}
    told |= {"beside": encode(found.beside), "remarks": list(found.remarks)}
    if not is_plain(found.path):
        told |= written(found.weights, folder)
    if found.adapter is not None and not is_plain(found.adapter):
        adapter = found.change
        assert adapter is not None
        _stored(adapter.words, adapter.tensors, folder / adapter.name)
    return told


def _stored(words: Mapping[str, Any], tensors: Mapping[str, Tensor], place: Path) -> Path:
    """Store an adapter in a new folder with a meaningful name; libraries read the whole folder."""
    place.mkdir()
    write_tensors(tensors, place / ADAPTER, tied=False)  # PEFT reads each tensor by its name
    (place / CONFIG).write_text(json.dumps(dict(words)), encoding="utf-8")
    return place


def taken(found: Candidate, told: dict[str, Any], folder: Path) -> tuple[Layout, Candidate]:
    """Return the layout of a checkpoint, and the checkpoint with its tensors, from plain data.

    Args:
        found: Checkpoint on disk; only its safetensors and JSON files are read.
        told: Result of `hand_over`, untrusted.
        folder: Folder with the stored parts.

    Raises:
        CheckpointError: The parts do not fit together.
    """
    name = told.get("layout") if isinstance(told, dict) else None
    layout = next((one for one in layouts if name == one.NAME), None)
    if layout is None or not isinstance(told.get("unwrapped", []), list):
        raise incomplete(found.path)
    if is_plain(found.path):
        if not _notes(told, found):
            found = next((one for one in found.in_a_field() if _notes(told, one)), found)
    else:
        weights = read_back(told, folder, found.path, found.allow_nonfinite)
        found = replace(found)
        found.__dict__["weights"] = weights
    beside = decode(told.get("beside"), {})
    found.__dict__["beside"] = beside if isinstance(beside, dict) else {}
    remarks = told.get("remarks")
    for remark in remarks[:MOST_REMARKS] if isinstance(remarks, list) else ():
        found.remark(str(remark)[:LONGEST_REMARK])
    if found.adapter is not None and not is_plain(found.adapter):
        name = found.adapter.resolve().parent.name
        with received(folder, f"{name}/{CONFIG}") as place:
            words = read_config(place)
        tensors = read_handed_over(folder, f"{name}/{ADAPTER}", found.adapter)
        for key, tensor in tensors.items() if not found.allow_nonfinite else ():
            refuse_non_finite(key, tensor, found.adapter)
        own = _stored(words, tensors, Path(tempfile.mkdtemp(dir=folder)) / name)
        found.__dict__["change"] = Adapter(own / ADAPTER, words, tensors)
    return layout, found


def _notes(told: dict[str, Any], found: Candidate) -> bool:
    """Return True if a candidate's names are those that were recognised."""
    return tuple(map(str, told.get("unwrapped", ()))) == found.weights.unwrapped


def is_plain(path: Path) -> bool:
    """Return True if a weights file, or each part of one, is safetensors."""
    parts = list(parts_of(path)) if is_index(path) else [path]
    return all(part.suffix == ".safetensors" for part in parts)
