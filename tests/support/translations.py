"""Every text that the interface says, read from the source: for the test, and for translators.

python -m tests.support.translations [CODE] [FILE ...]

puts translations from JSON files (English to ours) into CODE.json (zh), and prints what it lacks,
to be filled in.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT
from transformer_viz.components.js_texts import browser_texts
from transformer_viz.i18n import HERE, NAME

SAYING = ("say", "mark")


def texts() -> list[str]:
    """The English texts of Python and of the scripts, in the order in which they stand."""
    return list(dict.fromkeys([*_of_python(), *sorted(browser_texts())]))


def _of_python() -> Iterator[str]:
    for path in (ROOT / "app.py", *sorted((ROOT / "transformer_viz").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in SAYING and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def merge(language: str, files: list[Path]) -> list[str]:
    """Put translations into a language's file, its texts in alphabetical order; texts that nobody
    says any more go.

    Returns:
        The texts that lack a translation.
    """
    path = HERE / f"{language}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {NAME: language}
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        known |= {text: ours for text, ours in found.items() if ours}
    wanted = texts()
    kept = {NAME: known[NAME]} | {text: known[text] for text in sorted(wanted) if text in known}
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    return [text for text in wanted if text not in known]


def main(words: list[str]) -> None:
    """Merge what was named, and print a file of what lacks."""
    if any(word.startswith("-") for word in words):
        sys.exit("usage: python -m tests.support.translations [LANGUAGE] [FILE.json ...]")
    files = [Path(word) for word in words if word.endswith(".json")]
    (code,) = [word for word in words if not word.endswith(".json")] or ["zh"]
    lacking = merge(code, files)
    if lacking:
        print(json.dumps(dict.fromkeys(lacking, ""), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
