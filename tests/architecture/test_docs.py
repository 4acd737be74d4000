"""Run what README and docs show: Python blocks, command lines, make targets, links."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import click
import pytest

from tests.support.cases import each
from tests.support.paths import ROOT
from transformer_viz.app import pages
from transformer_viz.cli.main import main
from transformer_viz.core.interventions import EDITS

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")])
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
#: Pages that are made of notebooks when the site is built.
MADE = {
    ROOT / "docs" / "gallery" / f"{path.stem.partition('_')[2].replace('_', '-')}.md"
    for path in (ROOT / "docs" / "gallery").glob("*.py")
}
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)\)")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [dedent(code) for _, name, code in BLOCK.findall(text) if name == language]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every shell line, as page and words."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                yield page.name, shlex.split(line.split("|")[-1], comments=True)


LINES = list(commands())
CALLS = [(page, words) for page, words in LINES if words[0] == "transformer-viz"]
MAKES = [(page, words) for page, words in LINES if words[0] == "make"]


@pytest.mark.shipped
@pytest.mark.usefixtures("opened_once")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found[2] == "python":
            above = text[: found.start(3)].count("\n")  # so that a traceback names the page's line
            code = "\n" * above + dedent(found[3])
            exec(compile(code, str(page), "exec", dont_inherit=True), names)


def test_shell_lines_are_ours_and_are_understood() -> None:
    assert len(CALLS) > 5
    assert len(MAKES) > 3
    assert len(LINES) == len(CALLS) + len(MAKES), [
        w for _, w in LINES if (_, w) not in CALLS + MAKES
    ]

    def understood(words: list[str]) -> None:
        command = main.commands[words[1]]
        context = command.make_context(words[1], words[2:], parent=click.Context(main))
        assert context.command is command

    each(((f"{page}: {shlex.join(words)}", words) for page, words in CALLS), understood)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [(page, words) for page, words in MAKES if f"\n{words[1]}:" not in targets] == []


def test_links_lead_somewhere() -> None:
    lost = []
    for page in PAGES:
        targets = LINK.findall(page.read_text(encoding="utf-8"))
        places = {target: page.parent / target for target in targets if "://" not in target}
        lost += [(page.name, t) for t, at in places.items() if not at.exists() and at not in MADE]
    assert not lost


def test_docs_name_each_kind_of_edit_and_each_command() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    assert [edit.kind for edit in EDITS if f"`{edit.kind}`" not in tour] == []
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in main.commands if f"transformer-viz {name}" not in page] == []


def test_every_page_has_its_picture() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_screenshots.py"))
    shots = [*script["SHOTS"], *script["VIEWS"], *script["KINDS"], *script["CLASS"]]
    assert {path for _, path, _ in shots} == {page.path for page in pages.PAGES}
    assert set(script["STANDS"]) <= {page.path for page in pages.PAGES}
    assert len({name for name, _, _ in shots}) == len(shots)
