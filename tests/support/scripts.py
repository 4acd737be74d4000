"""Functions that tests evaluate in the browser: one file of tests/support/js each."""

from __future__ import annotations

from tests.support.paths import ROOT


def script(name: str) -> str:
    """The text of ``tests/support/js/NAME.js`` without its ``export default``."""
    text = (ROOT / "tests" / "support" / "js" / f"{name}.js").read_text(encoding="utf-8")
    return text.replace("export default ", "", 1).rstrip().removesuffix(";")
