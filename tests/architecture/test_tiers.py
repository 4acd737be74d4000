"""What `make quick` leaves out carries a marker: a browser, the app, a shipped model, a process."""

from __future__ import annotations

import inspect
import re
from functools import cache
from types import FunctionType
from typing import Any

import pytest

from tests.support.paths import ROOT
from transformer_viz.checkpoints import available

BROWSER = ROOT / "tests" / "browser"
#: What a test or one of its fixtures says when it needs the thing that its marker names.
SIGNS = {
    "app": re.compile(r"\bAppTest\.from_|\bnew_visit\("),
    "browser": re.compile(r"\bsync_playwright\("),
    "process": re.compile(r"\bsubprocess\.(run|Popen)\("),
    "shipped": re.compile(rf"\b(load|Engine)\(\"({'|'.join(map(re.escape, available()))})[\"/]"),
}
SAID = {
    "app": "app = AppTest.from_file(str(APP))",
    "browser": "with sync_playwright() as playwright:",
    "process": "done = subprocess.run(words, check=True)",
    "shipped": f'model = tv.load("{available()[0]}", device="cpu")',
}
HEAVY = {"app", "browser"}  # they need a process or a shipped model of themselves


@pytest.mark.slow
def test_every_heavy_test_carries_its_marker(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    unmarked = {
        f"{item.nodeid.partition('[')[0]} needs {name}"
        for item in items
        if isinstance(item, pytest.Function)
        for name in needed(item) - carried(item)
    }
    assert unmarked == set()
    inside = [item for item in items if BROWSER in item.path.parents]
    assert [item.nodeid for item in inside if "browser" not in carried(item)] == []


def test_the_signs_are_seen() -> None:
    for name, sign in SIGNS.items():
        assert {other for other, text in SAID.items() if sign.search(text)} == {name}


def carried(item: pytest.Item) -> set[str]:
    """The names of an item's markers; what is heavier holds the lighter ones too."""
    names = {marker.name for marker in item.iter_markers()}
    return names | set(SIGNS) if names & HEAVY else names


def needed(item: pytest.Function) -> set[str]:
    """The markers that the source of a test and of its fixtures asks for."""
    fixtures: dict[str, Any] = item._fixtureinfo.name2fixturedefs
    functions = [item.function, *(one.func for found in fixtures.values() for one in found)]
    return set().union(*(asked(one) for one in functions if inspect.isfunction(one)))


@cache
def asked(function: FunctionType) -> frozenset[str]:
    """The markers that the source of one function asks for."""
    text = inspect.getsource(function)
    return frozenset(name for name, sign in SIGNS.items() if sign.search(text))
