"""The floor plan, held by reading every import: downward only, no circles, libraries at home.

A room is a folder of the package, or a file that stands in no folder with a floor of its own. All
imports count: those inside functions and those for type checkers too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "transformer_viz"

#: Every room and its floor. Rooms of one floor may import each other, but not in a circle.
FLOORS: dict[str, float] = {
    "paths": -1,
    "reach": -1.1,
    "settings": -1,
    "permissions": -0.9,
    "core": 0,
    "confinement": 0,
    "i18n": 0,
    "model": 1,
    "preprocessing": 1,
    "capture/torch_calls": 1.8,
    "capture/axes": 1.9,
    "capture": 2,
    "capture/handlers": 2.1,
    "capture/reference": 2.15,
    "capture/probe": 2.2,
    "checkpoints/files": 2.1,
    "checkpoints/vocabularies": 2.15,
    "checkpoints/common": 2.2,
    "checkpoints/hugging_face": 2.3,
    "checkpoints/layouts": 2.3,
    "checkpoints/hub": 2.35,
    "checkpoints/naming": 2.35,
    "checkpoints": 2.4,
    "inference/decoding": 2.45,
    "inference": 2.5,
    "inference/batching": 2.6,
    "inference/experiments": 2.6,
    "walkthrough": 2.6,
    "opening": 2.7,
    "metrics/alignment": 3,
    "metrics/attention": 3,
    "metrics/attribution": 3,
    "metrics/comparison": 3,
    "metrics/head_measures": 3,
    "metrics/corpus": 3,
    "metrics/output": 3,
    "metrics/positions": 3,
    "metrics/residual": 3,
    "metrics/statistics": 3,
    "metrics": 3,
    "given": 3.1,
    "inference/ablation": 3.1,
    "inference/patching": 3.1,
    "inference/alignment": 3.1,
    "inference/explanation": 3.2,
    "inference/comparison": 3.1,
    "inference/head_metrics": 3,
    "inference/corpus": 3.2,
    "corpus": 3.3,
    "views/csv_text": 4,
    "views/numbers": 4.1,
    "views/html": 4.2,
    "views/charts": 4.2,
    "views/evidence": 4.25,
    "views/paper": 4.2,
    "views/export": 4.3,
    "views": 4.4,
    "bertviz": 4.5,
    "notebook": 4.5,
    "lessons": 4.1,
    "lessons/stations": 4.2,
    "lessons/station_list": 4.3,
    "components": 4.1,
    "components/walkthrough": 4.2,
    "app/counts": 5.05,
    "app/engine": 5.1,
    "app/ui": 5.2,
    "app/session": 5.3,
    "app/render": 5.4,
    "app/shell": 5.4,
    "app/lessons": 5.5,
    "app/live": 5.5,
    "app/serving": 5.45,
    "app/balancer": 5.6,
    "app/cards": 5.6,
    "app/page_template": 5.6,
    "app/checkpoint": 5.7,
    "app/heads": 5.7,
    "app/corpus": 5.75,
    "app/labs": 5.7,
    "app/labs/experiments": 5.7,
    "app/page_run": 5.75,
    "app/pages": 5.8,
    "app": 5.9,
    "cli": 5,
    "__main__": 5,
}
#: The rooms of the app that draw with Streamlit; the engine and what renders bytes do not.
STREAMLIT = (
    *(
        "ui",
        "session",
        "shell",
        "lessons",
        "live",
        "serving",
        "cards",
        "page_template",
        "checkpoint",
    ),
    *("heads", "corpus", "labs", "page_run", "pages"),
)
#: The rooms, by the beginning of their names, that may import a library; others may not.
HOMES = {
    "torch": (
        *("model", "preprocessing", "capture", "checkpoints", "inference", "walkthrough"),
        "opening",
    ),
    "plotly": ("views",),
    "matplotlib": ("views",),
    "streamlit": tuple(f"app/{room}" for room in STREAMLIT),
    "click": ("app/live", "cli"),
    "sentencepiece": ("preprocessing",),
    "transformers": ("checkpoints",),
    "huggingface_hub": ("checkpoints",),
    "pyarrow": ("corpus",),
    "ray": ("corpus",),
    "anywidget": ("notebook",),
    "traitlets": ("notebook",),
}
#: Rooms that import nothing but these.
PLAIN = {*sys.stdlib_module_names, "transformer_viz", "numpy", "pandas", "safetensors", "PIL"}
PLAIN_FLOORS = {0, 3}
MOST_FILES = 17  # Python files in a folder, its front door not counted
MOST_LINES = 400  # of a file

# Exceptions. These lists only get shorter: a test fails where one is no longer needed.
CIRCLES: list[set[str]] = []
#: Reading files of others takes many small parts; both folders shrink with `sandbox/`.
CROWDED = {"checkpoints/common", "checkpoints/files"}
LONG = {"components/walkthrough/texts"}


@dataclass(frozen=True)
class Import:
    """One import: from which file, its place, the full name, and whether only in a function."""

    file: str
    place: str
    name: str
    inside: bool

    @property
    def room(self) -> str:
        return room_of(self.file)

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]

    @property
    def reached(self) -> str:
        """The file of the package that the name leads to."""
        return file_of(self.name.split(".", 1)[1])


@cache
def files() -> dict[str, Path]:
    """Every Python file of the package by its name without suffix, ``pages/link``."""
    found = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in found}


@cache
def file_of(name: str) -> str:
    """The file that a dotted name below the package leads to, a folder's being its front door."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        for found in (path, f"{path}/__init__"):
            if found in files():
                return found
    return "__init__"


@cache
def room_of(file: str) -> str:
    """The room with the longest name that a file stands in; empty where it has none."""
    parts = file.removesuffix("/__init__").split("/")
    names = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in FLOORS), "")


@cache
def imports() -> tuple[Import, ...]:
    """Every import; ``__init__`` hands names out lazily, and test_public.py looks after it."""
    named = ((file, path) for file, path in files().items() if file != "__init__")
    return tuple(line for file, path in named for line in _imports(file, path))


def _imports(file: str, path: Path) -> Iterator[Import]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node, inside in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        base = ""
        if isinstance(node, ast.ImportFrom):
            above = parts[: len(parts) - node.level] if node.level else ()
            base = ".".join(filter(None, (*above, node.module))) + "."
        elif not isinstance(node, ast.Import):
            continue
        for alias in node.names:
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield Import(file, place, f"{base}{alias.name}", inside)


def _statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement below a node, and whether it stands in a function."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for one in getattr(node, field, ()):
            yield one, inside
            function = isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _statements(one, inside or function)


@cache
def ours() -> tuple[Import, ...]:
    """Every import from one file of the package to another.

    A front door hands out what stands behind it; that is none.
    """
    return tuple(
        line
        for line in imports()
        if line.library == "transformer_viz"
        and line.reached not in ("__init__", line.file)
        and not (
            line.file.endswith("__init__")
            and line.reached.startswith(line.file.removesuffix("__init__"))
        )
    )


def test_every_file_stands_in_a_room_and_every_room_is_there() -> None:
    homeless = sorted(file for file in files() if file != "__init__" and not room_of(file))
    assert not homeless, f"give a floor to {homeless}"
    assert set(FLOORS) == {room_of(file) for file in files()} - {""}


@pytest.mark.slow
def test_imports_point_downward_only() -> None:
    upward = [
        f"{line.place} ({line.room}, floor {FLOORS[line.room]}) imports {line.name}"
        for line in ours()
        if FLOORS[room_of(line.reached)] > FLOORS[line.room]
    ]
    assert not upward, "\n".join(upward)


def circles(edges: set[tuple[str, str]]) -> list[set[str]]:
    """The groups whose members all reach each other, in no order (Kosaraju's two walks)."""
    ahead: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for start, end in edges:
        ahead.setdefault(start, set()).add(end)
        back.setdefault(end, set()).add(start)

    def reach(start: str, ways: dict[str, set[str]]) -> set[str]:
        seen, open_ends = set[str](), [start]
        while open_ends:
            here = open_ends.pop()
            open_ends += ways.get(here, set()) - seen
            seen |= ways.get(here, set())
        return seen

    found: list[set[str]] = []
    for node in sorted(ahead):
        if not any(node in group for group in found):
            group = reach(node, ahead) & reach(node, back)
            found += [group] if node in group else []
    return found


def test_nothing_imports_in_a_circle() -> None:
    edges = {("a", "b"), ("b", "c"), ("c", "b"), ("d", "e"), ("e", "f"), ("f", "d"), ("a", "d")}
    assert circles(edges) == [{"b", "c"}, {"d", "e", "f"}]
    assert circles({(line.file, line.reached) for line in ours()}) == CIRCLES
    rooms = {(line.room, room_of(line.reached)) for line in ours()}
    assert circles({(a, b) for a, b in rooms if a != b}) == CIRCLES


def test_libraries_have_their_homes() -> None:
    strangers = [
        f"{line.place} imports {line.name}"
        for line in imports()
        if (homes := HOMES.get(line.library))
        and not f"{line.file}/".startswith(tuple(f"{home}/" for home in homes))
    ]
    strangers += [
        f"{line.place} imports {line.name}"
        for line in imports()
        if FLOORS[line.room] in PLAIN_FLOORS and line.library not in PLAIN
    ]
    assert not strangers, "\n".join(strangers)
    early = [line.place for line in imports() if line.library == "transformers" and not line.inside]
    assert not early, f"move these into the function that needs them: {early}"
    outside = [
        path.name
        for path in ROOT.glob("*.py")
        if "import streamlit" in path.read_text(encoding="utf-8") and path.name != "app.py"
    ]
    assert not outside


def test_files_and_folders_are_small_and_folders_have_a_front_door() -> None:
    names = [file for file in files() if not file.endswith("__init__")]
    counts = Counter(file.rpartition("/")[0] for file in names)
    assert {folder for folder, count in counts.items() if count > MOST_FILES} == CROWDED
    lines = {file: len(path.read_text("utf-8").splitlines()) for file, path in files().items()}
    assert {file for file, count in lines.items() if count > MOST_LINES} == LONG
    doors = {path.parent / "__init__.py" for path in files().values()}
    silent = [
        str(door.relative_to(ROOT))
        for door in sorted(doors)
        if not door.is_file() or not ast.get_docstring(ast.parse(door.read_text(encoding="utf-8")))
    ]
    assert not silent, f"say what stands in the folder and what it may import: {silent}"
