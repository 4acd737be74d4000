"""The scripts and style sheets of the components: one file each, or joined to one script."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent / "browser"
IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.]+)";\n', re.MULTILINE)
SHEET = re.compile(r'^@import url\("\./([\w.]+)"\);\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=class|function|async function|const|let)", re.MULTILINE)


def text(name: str) -> str:
    """A script or a style sheet."""
    return (HERE / name).read_text(encoding="utf-8")


def style(name: str) -> str:
    """A style sheet together with those that it imports."""
    return SHEET.sub(lambda found: style(found[1]), text(name))


def bundle(*names: str) -> str:
    """Modules and all that they import as one script without imports, each once and in order.

    The modules keep to two forms: ``import { a } from "./b.js";`` and ``export`` before a
    declaration; their top-level names differ, so that they can stand in one scope.

    Raises:
        ValueError: modules that import each other in a circle; names them.
    """
    found: dict[str, str] = {}
    for name in names:
        _gather(name, found, ())
    return "\n".join(found.values())


def _gather(name: str, found: dict[str, str], path: tuple[str, ...]) -> None:
    if name in found:
        return
    if name in path:
        raise ValueError(f"These modules import each other: {' → '.join((*path, name))}.")
    source = text(name)
    for needed in IMPORT.findall(source):
        _gather(needed, found, (*path, name))
    found[name] = EXPORT.sub("", IMPORT.sub("", source))
