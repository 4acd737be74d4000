"""The public names: there, lazy, light, and none of them hidden behind a module."""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import transformer_viz as tv
from tests.support.paths import ROOT
from transformer_viz.inference.ablation.ranking import Ranking
from transformer_viz.inference.explanation.explaining import Explanation
from transformer_viz.inference.patching.swapping import Swap
from transformer_viz.metrics.alignment.aligning import Alignment
from transformer_viz.metrics.comparison.comparing import Comparison

PUBLIC = {
    "Intervention",
    "Trace",
    "align",
    "available",
    "compare",
    "explain",
    "explore",
    "from_attentions",
    "head_view",
    "load",
    "match",
    "metrics",
    "model_view",
    "neuron_view",
    "probe",
    "propose_names",
    "rank",
    "roles",
    "swap",
    "trace",
    "translate",
    "views",
}

#: Public names that are modules; ``metrics`` can be called like a function.
MODULES = {"metrics", "views"}


def test_the_names_are_whole_sorted_and_what_they_say() -> None:
    assert set(tv.__all__) == PUBLIC
    assert tv.__all__ == sorted(tv.__all__)
    assert set(dir(tv)) == PUBLIC | {"__version__"}
    for name in sorted(PUBLIC):
        value = getattr(tv, name)
        assert inspect.ismodule(value) == (name in MODULES), name
        assert value.__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match=r"no 'tracer'; its public names are available, load"):
        tv.tracer  # noqa: B018  the access is the test
    rooms = {path.stem for path in Path(tv.__file__).parent.iterdir()}
    assert rooms & PUBLIC == MODULES  # no other module bears the name of a public function


def test_metrics_is_a_module_and_a_function() -> None:
    import transformer_viz.metrics as room
    from transformer_viz.metrics import describe_row

    assert tv.metrics is room and callable(room) and room.describe_row is describe_row
    with pytest.raises(ValueError, match="list of sentences"):
        tv.metrics(object())
    with pytest.raises(AttributeError, match="no 'entropie'; its names are"):
        room.entropie  # noqa: B018  the access is the test


def test_changelog_and_history_begin_with_this_version() -> None:
    for name in ("CHANGELOG.md", "HISTORY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
        assert versions[0] == tv.__version__, name


def test_the_highlights_of_a_release_are_short() -> None:
    """Two minutes to read; all other lines stand in HISTORY.md."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## (?=\[\d)", text, flags=re.MULTILINE)[1:]
    assert [each[:9] for each in releases if len(each.split()) > 450] == []
    lines = [line for each in releases for line in each.splitlines() if line.startswith("- ")]
    assert len(lines) > 10
    assert [line for line in lines if len(line[2:].split()) > 25] == []


def test_what_the_package_needs_is_pinned_as_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # The app offers figures too, so what they need comes along with it.
    wanted = [*project["dependencies"], *project["optional-dependencies"]["export"]]
    pinned = (ROOT / "requirements.txt").read_text()
    lines = [line for line in pinned.splitlines() if not line.startswith("#")]
    assert [line.split("==")[0] for line in lines] == [need.split(">=")[0] for need in wanted]
    assert "torch==2.13.0" in lines


def shown() -> dict[str, list[str]]:
    """Every function that docs/public-api.md shows, and the names of its parameters."""
    page = (ROOT / "docs" / "public-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space: dict[str, Callable[..., object]] = {}
    for line in "".join(blocks).splitlines():
        exec(f"def {line}: ...", {}, space)
    return {name: list(inspect.signature(it).parameters) for name, it in space.items()}


def test_the_page_of_public_names_agrees_with_the_code() -> None:
    page = (ROOT / "docs" / "public-api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `tv\.(\w+)`", page, re.MULTILINE)) == set(tv.__all__)
    classes = {"Picture", "View", "VIEWS"}
    wanted = {name: getattr(tv, name) for name in PUBLIC - {"views", "Trace"}}
    wanted |= {name: getattr(tv.views, name) for name in set(tv.views.__all__) - classes}
    parameters = {name: list(inspect.signature(it).parameters) for name, it in wanted.items()}
    assert shown() == parameters


RESULTS = {
    "swap": Swap,
    "compare": Comparison,
    "rank": Ranking,
    "explain": Explanation,
    "align": Alignment,
}


def test_what_the_page_names_of_a_class_is_there() -> None:
    page = (ROOT / "docs" / "public-api.md").read_text(encoding="utf-8")
    classes = {"Intervention": tv.Intervention, "Trace": tv.Trace}
    for name, kind in (RESULTS | classes).items():
        text = page.partition(f"### `tv.{name}`")[2].partition("\n### ")[0]
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        said = re.findall(r"`(?:tv\.|Trace\.)?(\w+)" + ("" if name in classes else r"\("), text)
        known = {*dir(kind), *(field.name for field in dataclasses.fields(kind)), *PUBLIC}
        lacks = [word for word in said if word not in known and not word.startswith("_")]
        assert said and lacks == [], name
