"""Language of names, docstrings and docs, as docs/style.md describes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

PACKAGE = ROOT / "transformer_viz"
#: Folders that still have to be rewritten, and how many faults each has. It only shrinks.
PENDING = {
    "app": 275,
    "bertviz": 1,
    "capture": 67,
    "checkpoints": 77,
    "cli": 73,
    "components": 21,
    "confinement": 12,
    "core": 24,
    "corpus": 5,
    "given": 5,
    "inference": 283,
    "lessons": 67,
    "metrics": 29,
    "model": 2,
    "notebook": 29,
    "opening": 65,
    "preprocessing": 7,
    "reach.py": 1,
    "settings.py": 2,
    "views": 70,
    "walkthrough": 5,
}
#: Pages with a name or a screen text that is one of the words, and how many.
PAGES = {
    "CONTRIBUTING.md": 1,
    "docs/add-a-lab.md": 1,
    "docs/add-a-language.md": 1,
    "docs/add-an-edit.md": 1,
    "docs/architecture.md": 6,
    "docs/how-the-proof-works.md": 1,
    "docs/inputs.md": 1,
    "docs/link-keys.md": 2,
    "docs/teaching.md": 1,
    "docs/tour.md": 4,
    "docs/which-tool.md": 2,
}
OPENING = re.compile(r"(What|Who|Whoever|Whose|Whether|Of|By|Those|That|One|Which|How)\b")
PARTICIPLE = re.compile(
    "_?(told|lent|taken|heard|said|given|shown|asked|kept|held|made|found|seen|known|chosen|joined"
    "|drawn|moved|brought|begun|gone|sent|written|spoken|taught)"
)
WORDS = re.compile(
    r"\b(tells?|told|lends?|lent|whoever|came of it|nursery|wishes|rehears\w+|workshop|handover"
    r"|in the box)\b",
    re.IGNORECASE,
)
DOCSTRINGS = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def faults(path: Path) -> Iterator[str]:
    """Yield the faults of a Python file: docstring openings, names and words."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCSTRINGS) and OPENING.match(ast.get_docstring(node) or ""):
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{name}:{line}: a docstring begins with {ast.get_docstring(node)!r:.60}"
        if isinstance(node, DOCSTRINGS[2:]) and PARTICIPLE.fullmatch(node.name):
            yield f"{name}:{node.lineno}: {node.name} is no verb with an object"
    for number, line in enumerate(text.splitlines(), 1):
        yield from (f"{name}:{number}: {word[0]!r}" for word in WORDS.finditer(line))


def test_code_follows_the_style() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = path.relative_to(PACKAGE).parts[0]
        found.setdefault(folder, []).extend(faults(path))
    over = [
        "\n".join([f"{folder}: {len(lines)} faults, {PENDING.get(folder, 0)} allowed", *lines])
        for folder, lines in found.items()
        if len(lines) > PENDING.get(folder, 0)
    ]
    assert not over, "\n".join(over)
    done = {folder: len(found.get(folder, ())) for folder in PENDING}
    assert done == PENDING, "lower PENDING to these figures"


def test_docs_use_no_private_words() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = {
        page.relative_to(ROOT).as_posix(): len(WORDS.findall(page.read_text(encoding="utf-8")))
        for page in pages
        if page.name != "style.md"
    }
    assert {page: count for page, count in found.items() if count} == PAGES
