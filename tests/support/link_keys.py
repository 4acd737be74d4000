"""docs/link-keys.md, from the tuples of pages and keys: `python -m tests.support.link_keys`."""

from __future__ import annotations

from tests.support.paths import ROOT
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_edits import CLEAN
from transformer_viz.app.session.url_state import KEYS, Key

PATH = ROOT / "docs" / "link-keys.md"
HEAD = """# Link keys

Written by `python -m tests.support.link_keys`; do not edit. `http://localhost:8501/norms?layer=1`
opens Norms with layer 1. A missing key has its default. An invalid value is ignored with a warning.
Changed configuration values of a model are in another key, `set`.
"""


def text() -> str:
    """The whole page, as Markdown."""
    return "\n".join(
        [
            HEAD,
            *("| page | address | what it answers |", "|---|---|---|"),
            *(f"| {page.title} | `/{page.path}` | {page.question} |" for page in PAGES),
            "",
            *("| key | default | what it is |", "|---|---|---|"),
            *(f"| `{key.name}` | {_default(key)} | {_cell(key.means)} |" for key in KEYS),
            "",
        ]
    )


def _default(key: Key) -> str:
    """The default as the link would say it."""
    written = "" if key.default in (None, (), "", CLEAN) else key.write(key.default)
    return f"`{_cell(written)}`" if written else ""


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
