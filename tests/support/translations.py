"""Every text that the interface says, read from the source: for the test, and for translators.

python -m tests.support.translations [CODE] [FILE ...]

puts translations from JSON files into CODE.json, and prints what it lacks, to be filled in: a text
in English, and ours. Without CODE it serves every language there is at once: what it prints, and
what it reads, is then ``{"de": {"English": "ours"}, "zh": {...}}``.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT
from transformer_viz.components.js_texts import browser_texts
from transformer_viz.i18n import ENGLISH, HERE, NAME, languages

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

    Args:
        language: its code.
        files: what they hold for other languages is passed over.

    Returns:
        The texts that lack a translation.
    """
    path = HERE / f"{language}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {NAME: language}
    for file in files:
        known |= {text: ours for text, ours in _of_file(file, language).items() if ours}
    wanted = texts()
    kept = {NAME: known[NAME]} | {text: known[text] for text in sorted(wanted) if text in known}
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    return [text for text in wanted if text not in known]


def _of_file(file: Path, language: str) -> dict[str, str]:
    """The translations that a file has for a language, of one or of several languages."""
    found = json.loads(file.read_text(encoding="utf-8"))
    if all(isinstance(ours, dict) for ours in found.values()):
        mine: dict[str, str] = found.get(language, {})
        return mine
    return dict(found)


def main(words: list[str]) -> None:
    """Merge what was named, and print a file of what lacks."""
    if any(word.startswith("-") for word in words):
        sys.exit("usage: python -m tests.support.translations [LANGUAGE] [FILE.json ...]")
    files = [Path(word) for word in words if word.endswith(".json")]
    codes = [word for word in words if not word.endswith(".json")]
    if len(codes) == 1:
        lacking: object = dict.fromkeys(merge(codes[0], files), "")
    else:
        if any(not isinstance(ours, dict) for file in files for ours in _values(file)):
            sys.exit('say which language, or give {"de": {...}, "zh": {...}} in one file')
        others = [code for code in languages() if code != ENGLISH]
        found = {code: dict.fromkeys(merge(code, files), "") for code in others}
        lacking = {code: missing for code, missing in found.items() if missing}
    if lacking:
        print(json.dumps(lacking, ensure_ascii=False, indent=1))


def _values(file: Path) -> list[object]:
    return list(json.loads(file.read_text(encoding="utf-8")).values())


if __name__ == "__main__":
    main(sys.argv[1:])
