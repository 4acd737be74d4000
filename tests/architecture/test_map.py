"""The pages that lead through the house name every room, and no file that is not there."""

from __future__ import annotations

import re

from tests.architecture.test_floor_plan import FLOORS
from tests.support.paths import ROOT

#: A path in backticks (or one with its function), below the package, its scripts, or the root.
PATH = re.compile(r"`((?:\w+/)+(?:\w+\.(?:py|js))?)(?:::[\w.]+)?`")
ROOTS = (ROOT / "transformer_viz", ROOT / "transformer_viz/components/browser", ROOT)


def test_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [room for room in FLOORS if f"`{room}`" not in page] == []


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    models = text.partition("## Ten models")[2].partition("## Good first rooms")[0]
    assert len(re.findall(r"^\d+\. ", models, re.MULTILINE)) == 10
    assert [path for path in PATH.findall(models) if not _found(path)] == []


def test_every_path_is_there() -> None:
    for page in ("architecture", "glossary"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        if page == "glossary":  # its last column holds the names of 0.1.0
            text = re.sub(r"\|[^|\n]*\|$", "|", text, flags=re.MULTILINE)
        paths = PATH.findall(text)
        assert len(paths) > 30, page
        assert [path for path in paths if not _found(path)] == []


def _found(path: str) -> bool:
    return any((root / path).exists() for root in ROOTS)
