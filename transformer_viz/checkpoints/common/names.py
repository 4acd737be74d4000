"""User-defined mapping from a file's names of weights to a layout's names.

An entry of the table is ``{"encoder_emb.weight": "src_tok_emb.embedding.weight"}``: the file's name
left, the layout's right. A pair of prefixes, both ending with a dot, renames all weights below; an
empty right side removes the prefix. None (null in JSON) leaves a weight out.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..files.reading import MAX_TENSORS, CheckpointError, Weights
from ..files.strict_json import read_json
from ..files.unwrapping import FIELDS, PREFIXES
from .bundled import NAMES_FILE
from .rename_keys import nearest, pattern

MAX_NAMES = 2**24  # bytes of a file of names
LONGEST_NAME = 500  # characters
MAX_PREFIXES = 1_000
#: Beginning of the note that `rename_notes` writes.
COUNTS = re.compile(r"(\d+) of (\d+) weights go by the names that ")
#: Name of each table origin in error messages.
CALLED = {"override": "names=", "sidecar": NAMES_FILE}


@dataclass(frozen=True)
class Names:
    """Table of names and its origin: given (``override``) or found beside the weights
    (``sidecar``).
    """

    table: Mapping[str, str | None]
    origin: str = "override"

    def rename(self, weights: Weights) -> Weights:
        """Return the weights under the layout's names; ``Weights.names`` lists the mapped ones.

        A table beside the weights without any matching entry belongs to another file and is
        ignored.

        Raises:
            CheckpointError: An entry matches no weight, or two weights get the same name.
        """
        table = self._own(weights.tensors)
        strange = [key for key in table if not _fits(key, weights.tensors)]
        if self.origin == "sidecar" and len(strange) == len(table):
            return weights
        if strange:
            near = nearest(strange[0], set(weights.tensors))
            raise CheckpointError(
                f"{CALLED[self.origin]} maps {strange[0]!r}, and {weights.path.name} has no such "
                f"weight{near}. Correct the entry; `transformer-viz names {weights.path.name}` "
                "lists the weights."
            )
        found = _targets(weights.tensors, table)
        mapped = {key: name for key, (name, known) in found.items() if known}
        tensors: dict[str, Tensor] = {}
        for key, tensor in weights.tensors.items():
            name = found[key][0]
            if name is not None:
                tensors.setdefault(name, tensor)
        twice = Counter(name for name, _ in found.values() if name is not None)
        for name, count in twice.items():
            if count > 1:
                both = [key for key, (other, _) in found.items() if other == name]
                raise CheckpointError(
                    f"With {CALLED[self.origin]} both {both[0]} and {both[1]} are called {name} in "
                    f"{weights.path.name}. Map one of them to another name, or to null."
                )
        if not tensors:
            raise CheckpointError(
                f"{CALLED[self.origin]} leaves out every weight of {weights.path.name}; map at "
                "least one to a name."
            )
        return replace(weights, tensors=tensors, names=mapped)

    def of(self, keys: Collection[str]) -> dict[str, str | None]:
        """Return the table's names of the given weights; weights without an entry are left out."""
        table = self._own(keys)
        found = _targets(keys, table)
        return {key: name for key, (name, known) in found.items() if known}

    def _own(self, keys: Collection[str]) -> dict[str, str | None]:
        """Return the table with keys as the weights bear them."""
        return {_own_name(key, keys): name for key, name in self.table.items()}


def read_names(value: Any, folder: Path) -> Names | None:
    """Return the given table, or else that of ``names.json`` in the folder.

    Args:
        value: A mapping, the path of a JSON file, or None.
        folder: Folder of the weights.

    Raises:
        CheckpointError: The file does not exist, or an entry has another type.
    """
    if value is None:
        place = folder / NAMES_FILE
        found = read_json(place, MAX_NAMES) if place.is_file() else {}
        return Names(found, "sidecar") if _is_table(found) else None
    if isinstance(value, str | os.PathLike):
        place = Path(value)
        if not place.is_file():
            raise CheckpointError(
                f"There is no file {str(value)!r}; names= takes a mapping of the file's names to "
                "the layout's, or a JSON file of one."
            )
        value = read_json(place, MAX_NAMES)
    if not isinstance(value, Mapping):
        raise CheckpointError(
            f"names= takes a mapping of the file's names to the layout's, or a JSON file of one; "
            f"got {type(value).__name__}."
        )
    if not value:
        return None
    if len(value) > MAX_TENSORS:
        raise CheckpointError(f"names= has {len(value):,} entries; {MAX_TENSORS:,} are the most.")
    for key, name in value.items():
        if reason := _fault(key, name):
            raise CheckpointError(f"names= maps {str(key)[:80]!r} to {str(name)[:80]!r}: {reason}.")
    if sum(key.endswith(".") for key in value) > MAX_PREFIXES:
        raise CheckpointError(f"names= has more than {MAX_PREFIXES:,} prefixes; map full names.")
    return Names({str(key): name for key, name in value.items()})


def shape_tables(weights: Weights, shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Return the weights with each position table in the shape that a layout stores.

    Args:
        weights: Weights under mapped names; a user's table may lack or add an axis of size 1.
        shapes: For each form of names, the axes before d_model, with -1 for the positions.
    """
    tensors = dict(weights.tensors)
    for form, leading in shapes.items():
        for name in filter(pattern(form).fullmatch, weights.tensors):
            table = tensors[name]
            if table.dim() > 1 and table.numel() and sum(size > 1 for size in table.shape[:-1]) < 2:
                tensors[name] = table.reshape(*leading, table.shape[-1])
    return replace(weights, tensors=tensors)


def rename_notes(weights: Weights, names: Names | None) -> tuple[str, ...]:
    """Return sentences about mapped names and left-out weights, for ``Model.notes``."""
    if names is None or not weights.names:
        return ()
    left = [key for key, name in weights.names.items() if name is None]
    mapped = len(weights.names) - len(left)
    whole = len(weights.tensors) + len(left)
    notes = [f"{mapped} of {whole} weights go by the names that {_source(names)} gives them."]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        notes.append(f"{_source(names)} leaves out {', '.join(left[:5])}{more}.")
    return tuple(notes)


def mapped_counts(note: str) -> tuple[int, int] | None:
    """Return the counts (mapped, all) that a note of `rename_notes` states; else None."""
    found = COUNTS.match(note)
    return None if found is None else (int(found[1]), int(found[2]))


def _source(names: Names) -> str:
    return f"{NAMES_FILE} beside the file" if names.origin == "sidecar" else "names="


def _own_name(key: str, tensors: Iterable[str]) -> str:
    """Return a key as the weights bear it, since wrappers (``module.``) may have been removed."""
    if _fits(key, tensors):
        return key
    bare = key
    while prefix := next((p for p in (*PREFIXES, *FIELDS) if bare.startswith(p)), None):
        bare = bare.removeprefix(prefix)
        if bare and _fits(bare, tensors):
            return bare
    return key


def _fits(key: str, names: Iterable[str]) -> bool:
    if key.endswith("."):
        return any(name.startswith(key) for name in names)
    return key in names


def _targets(
    names: Iterable[str], table: Mapping[str, str | None]
) -> dict[str, tuple[str | None, bool]]:
    """Return each weight's layout name and True if the table gives it; the longest prefix wins."""
    prefixes = sorted((key for key in table if key.endswith(".")), key=len, reverse=True)
    found: dict[str, tuple[str | None, bool]] = {}
    for name in names:
        key = name if name in table else next(filter(name.startswith, prefixes), None)
        new = None if key is None else table[key]
        if key is None:
            found[name] = name, False
        else:
            found[name] = new if new is None or key == name else new + name.removeprefix(key), True
    return found


def _is_table(value: Mapping[str, Any]) -> bool:
    sound = bool(value) and not any(_fault(key, name) for key, name in value.items())
    return sound and sum(key.endswith(".") for key in value) <= MAX_PREFIXES


def _fault(key: Any, name: Any) -> str:
    """Return the error of one entry; empty for a valid one."""
    if not isinstance(key, str) or not isinstance(name, str | None):
        return "both must be names, or the second null"
    if not 0 < len(key) <= LONGEST_NAME or len(name or "") > LONGEST_NAME:
        return f"a name has between 1 and {LONGEST_NAME} characters"
    if name is None:
        return ""
    if key.endswith("."):
        return "" if name.endswith(".") or not name else "a prefix needs a prefix ending in a dot"
    return "a name must not be empty or end with a dot" if not name or name.endswith(".") else ""
