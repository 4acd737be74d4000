"""The .js and .css files of the components, as texts."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def script(name: str) -> str:
    """The script of a component, one module together with what all of them share."""
    return f"{_text('page.js')}\n{_text(name + '.js')}"


def style(name: str) -> str:
    """The style sheet of a component."""
    return _text(f"{name}.css")


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
