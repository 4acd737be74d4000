"""Scripts and style sheets of the components: single files, or joined to one script."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

HERE = Path(__file__).parent / "browser"
IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[\w./]+)";\n', re.MULTILINE)
SHEET = re.compile(r'^@import url\("(\.{1,2}/[\w./]+)"\);\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:class|function\*?|const|let) +(\w+))", re.MULTILINE)


def text(name: str) -> str:
    """Return a script or a style sheet by its path below ``browser/``, ``"shared/dom.js"``."""
    return (HERE / name).read_text(encoding="utf-8")


def scripts() -> list[str]:
    """Return the paths of all scripts in alphabetical order."""
    return sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.js"))


def style(name: str) -> str:
    """Return a style sheet together with its imports."""
    return SHEET.sub(lambda found: style(_beside(name, found[1])), text(name))


def bundle(*names: str) -> str:
    """Return modules and their imports as one script without imports, each once and in order.

    The modules keep to two forms: ``import { a } from "./b.js";`` and ``export`` before a
    declaration. Each is wrapped in a function, so its other names stay private. The named modules
    are not wrapped, since the loader needs their exports.

    Raises:
        ValueError: Modules that import each other in a circle; the message names them.
    """
    found: dict[str, str] = {}
    for name in names:
        _gather(name, found, ())
    return "\n".join(
        source if name in names else _wrapped(name, source) for name, source in found.items()
    )


def module(name: str) -> str:
    """Return an ES module whose default export is a function.

    Each call of it creates all modules again and returns the exports of the named one. Thus two
    widgets on a page share no state.

    Raises:
        ValueError: Modules that import each other in a circle; the message names them.
    """
    found: dict[str, str] = {}
    _gather(name, found, ())
    wrapped = "\n".join(_wrapped(one, source) for one, source in found.items())
    return f"export default () => {{\n{wrapped}\nreturn {_held(name)};\n}};\n"


def _gather(name: str, found: dict[str, str], path: tuple[str, ...]) -> None:
    if name in found:
        return
    if name in path:
        raise ValueError(f"These modules import each other: {' → '.join((*path, name))}.")
    source = text(name)
    for _, needed in IMPORT.findall(source):
        _gather(_beside(name, needed), found, (*path, name))
    found[name] = IMPORT.sub(
        lambda line: (
            f"const {{{line[1].replace(' as ', ': ')}}} = {_held(_beside(name, line[2]))};\n"
        ),
        source,
    )


def _wrapped(name: str, source: str) -> str:
    """Return a module as a constant that holds its exports."""
    exports = ", ".join(EXPORT.findall(source))
    return (
        f"const {_held(name)} = (() => {{\n{EXPORT.sub('', source)}return {{ {exports} }};\n}})();"
    )


def _held(name: str) -> str:
    """Return the name of the constant with a module's exports: ``module_shared_dom``."""
    return "module_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _beside(name: str, path: str) -> str:
    """Resolve a relative path in a file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
