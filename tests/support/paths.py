"""Where the project stands."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> str:
    """The function that a file of tests/support/js holds, as the browser evaluates it."""
    text = (ROOT / "tests/support/js" / f"{name}.js").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
