"""The scripts of tests/support/js, as a browser evaluates them."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

EXPORT = re.compile(r"^export default ", re.MULTILINE)


def script(name: str) -> str:
    """The function that a file of tests/support/js exports, as Playwright takes it."""
    text = (ROOT / "tests/support/js" / f"{name}.js").read_text(encoding="utf-8")
    return EXPORT.sub("", text, count=1).rstrip().removesuffix(";")
