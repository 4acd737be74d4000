"""The pages about the code name each folder, and only files that exist."""

from __future__ import annotations

import re

from tests.architecture.test_floor_plan import FLOORS
from tests.support.paths import ROOT

#: A path in backticks (or one with its function), below the package, its scripts, or the root.
PATH = re.compile(r"`((?:\w+/)+(?:\w+\.(?:py|js))?)(?:::[\w.]+)?`")
ROOTS = (ROOT / "transformer_viz", ROOT / "transformer_viz/components/browser", ROOT)


def test_architecture_names_each_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [folder for folder in FLOORS if f"`{folder}`" not in page] == []


def test_contributing_names_existing_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    models = text.partition("## Ten examples")[2].partition("## Good first issues")[0]
    assert len(re.findall(r"^\d+\. ", models, re.MULTILINE)) == 10
    assert [path for path in PATH.findall(models) if not _found(path)] == []


def test_each_path_exists() -> None:
    for page in ("architecture", "glossary"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        paths = PATH.findall(text)
        assert len(paths) > 30, page
        assert [path for path in paths if not _found(path)] == []


def _found(path: str) -> bool:
    return any((root / path).exists() for root in ROOTS)
