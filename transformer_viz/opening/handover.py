"""A checkpoint between reading and building: read in one process, built in another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checkpoints.common.candidate import Candidate
from ..checkpoints.files.adapters import CONFIG, Adapter
from ..checkpoints.files.errors import CheckpointError
from ..checkpoints.files.reading import read_tensors
from ..checkpoints.files.sharded import is_index, parts_of
from ..checkpoints.loader import Layout, layouts
from .plain_data import decode, encode, equal_tensors, read_back, write_tensors, written

MOST_REMARKS, LONGEST_REMARK = 20, 400  # notes, characters
ADAPTER = "adapter_model.safetensors"


def hand_over(layout: Layout, found: Candidate, folder: Path) -> dict[str, Any]:
    """Read a checkpoint that a layout recognised, and leave in a folder what is no safetensors.

    Returns plain data for `taken`.

    Raises:
        CheckpointError: a file that is unsafe or damaged.
    """
    told: dict[str, Any] = {"layout": layout.NAME, "unwrapped": list(found.weights.unwrapped)}
    told |= {"beside": encode(found.beside), "remarks": list(found.remarks)}
    if not is_plain(found.path):
        told |= written(found.weights, folder)
    if found.adapter is not None and not is_plain(found.adapter):
        adapter = found.change
        assert adapter is not None
        place = folder / adapter.name  # its folder's name is shown
        place.mkdir()
        told["equal_adapter"] = write_tensors(adapter.tensors, place / ADAPTER)
        (place / CONFIG).write_text(json.dumps(dict(adapter.words)), encoding="utf-8")
    return told


def taken(found: Candidate, told: dict[str, Any], folder: Path) -> tuple[Layout, Candidate]:
    """The layout that knows a checkpoint, and the checkpoint with its tensors, from plain data.

    Args:
        found: what stands on disk; of it only safetensors and JSON are read.
        told: what `hand_over` gave, or whatever else came.
        folder: where it left the rest.

    Raises:
        CheckpointError: what came does not fit together.
    """
    layout = next((one for one in layouts if told.get("layout") == one.NAME), None)
    if layout is None:
        raise CheckpointError(f"What was read of {found.path.name} is incomplete; open it again.")
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
        place = folder / found.adapter.resolve().parent.name / ADAPTER
        own = Candidate(place, {}, found.allow_nonfinite, adapter=place).change
        assert own is not None
        tensors = read_tensors(place)
        tensors |= equal_tensors(told.get("equal_adapter"), tensors)
        found.__dict__["change"] = Adapter(place, own.words, tensors)
    return layout, found


def _notes(told: dict[str, Any], found: Candidate) -> bool:
    """Whether a candidate's names are those that were recognised."""
    return tuple(map(str, told.get("unwrapped", ()))) == found.weights.unwrapped


def is_plain(path: Path) -> bool:
    """Whether a weights file, or each part of one, is safetensors."""
    parts = list(parts_of(path)) if is_index(path) else [path]
    return all(part.suffix == ".safetensors" for part in parts)
