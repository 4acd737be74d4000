"""The floor plan of DESIGN.md, held by reading every import: downward only, libraries at home."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "transformer_viz"

FLOORS = {
    "errors": 0,
    "sites": 0,
    "records": 0,
    "interventions": 0,
    "storage": 0,
    "decoding_steps": 0,
    "colours": 0,
    "languages": 0,
    "insides": 0,
    "model": 1,
    "text": 1,
    "images": 1,
    "words": 1,
    "hugging_face_text": 1,
    "watch": 2,
    "checkpoints": 2,
    "inputs": 2,
    "decode": 2,
    "decoding": 2,
    "decoding_record": 2,
    "tables": 2,
    "tracing": 2,
    "sources": 2,
    "outcome": 2,
    "inspection": 2,
    "experiments": 2,
    "inside": 2,
    "metrics": 3,
    "export": 3,
    "views": 4,
    "lessons": 4,
    "components": 4,
    "pages": 5,
    "arguments": 5,
    "terminal": 5,
    "cli": 5,
    "__main__": 5,
    "training": 5,
}
HOMES = {
    "torch": {1, 2},
    "plotly": {4},
    "matplotlib": {4},
    "streamlit": {5},
    "click": {5},
    "sentencepiece": {1},
    "transformers": {1, 2},
}
EXTRA_HOMES = {("training", "torch"), ("training", "sentencepiece")}
PLAIN = {*sys.stdlib_module_names, "transformer_viz", "numpy", "pandas", "safetensors", "PIL"}


@dataclass(frozen=True)
class Import:
    """One import: who imports, from where, what, and whether only inside a function."""

    room: str
    place: str
    name: str
    inside: bool


def rooms() -> set[str]:
    return {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__")
        or (path.is_dir() and any(path.rglob("*.py")))
    }


def imports() -> Iterator[Import]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        room = parts[1]
        if room == "__init__":
            continue  # it hands names out lazily; test_public.py looks after it
        yield from _imports(path, room, parts)


def _imports(path: Path, room: str, parts: tuple[str, ...]) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(room, place, alias.name, node in inside)
        elif isinstance(node, ast.ImportFrom):
            for name in _names(node, parts):
                yield Import(room, place, name, node in inside)


def _names(node: ast.ImportFrom, parts: tuple[str, ...]) -> Iterator[str]:
    """The full names that a ``from`` line reaches for."""
    base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
    whole = ".".join(filter(None, (base, node.module)))
    if whole == "transformer_viz":
        yield from (f"{whole}.{alias.name}" for alias in node.names)
    else:
        yield whole


IMPORTS = tuple(imports())
OURS = tuple(i for i in IMPORTS if i.name.startswith("transformer_viz."))
NOT_ROOMS = {"__version__", "__init__"}


def reached(line: Import) -> str:
    return line.name.split(".")[1]


def library(line: Import) -> str:
    return line.name.split(".")[0]


def test_every_room_has_a_floor() -> None:
    assert rooms() <= set(FLOORS), f"give a floor to {sorted(rooms() - set(FLOORS))}"


def test_imports_point_downward_only() -> None:
    upward = [
        f"{line.place} ({line.room}, floor {FLOORS[line.room]}) imports {line.name}"
        for line in OURS
        if reached(line) not in NOT_ROOMS and FLOORS[reached(line)] > FLOORS[line.room]
    ]
    assert not upward, "\n".join(upward)


def test_rooms_of_a_floor_do_not_go_round_in_circles() -> None:
    edges: dict[str, set[str]] = {}
    for line in OURS:
        if not line.inside and reached(line) not in {line.room, *NOT_ROOMS}:
            edges.setdefault(line.room, set()).add(reached(line))
    open_rooms = set(FLOORS)
    while free := {room for room in open_rooms if not edges.get(room, set()) & open_rooms}:
        open_rooms -= free
    assert not open_rooms, f"these rooms import each other: {sorted(open_rooms)}"


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_library_has_one_home(name: str) -> None:
    strangers = [
        f"{line.place} imports {line.name}"
        for line in IMPORTS
        if library(line) == name
        and FLOORS[line.room] not in HOMES[name]
        and (line.room, name) not in EXTRA_HOMES
    ]
    assert not strangers, "\n".join(strangers)


def test_ground_floor_and_metrics_are_plain() -> None:
    strangers = [
        f"{line.place} imports {line.name}"
        for line in IMPORTS
        if FLOORS[line.room] in (0, 3) and library(line) not in PLAIN
    ]
    assert not strangers, "\n".join(strangers)


def test_transformers_is_imported_only_when_a_checkpoint_is_opened() -> None:
    early = [line.place for line in IMPORTS if library(line) == "transformers" and not line.inside]
    assert not early, f"move these into the function that needs them: {early}"


def test_only_the_app_stands_outside_with_streamlit() -> None:
    outside = [
        path.name
        for path in ROOT.glob("*.py")
        if "streamlit" in path.read_text(encoding="utf-8") and path.name != "app.py"
    ]
    assert not outside
