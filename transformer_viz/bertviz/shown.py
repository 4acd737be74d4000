"""HTML pages shown in a notebook, or returned with `html_action="return"`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module

from ..components.standalone_page import framed

ACTIONS = ("view", "return")


@dataclass(frozen=True)
class HtmlPage:
    """A complete HTML page that needs no network.

    ``data`` is its text, as in IPython's ``HTML``. A notebook shows it in a frame ``height`` pixels
    high.
    """

    data: str
    title: str
    height: int

    def _repr_html_(self) -> str:
        return framed(self.data, title=self.title, height=self.height)


def require_action(html_action: str) -> None:
    """Raise if ``html_action`` is unknown, before anything is drawn.

    Raises:
        ValueError: The message names both actions.
    """
    if html_action not in ACTIONS:
        raise ValueError(f"html_action is 'view' or 'return'; got {html_action!r}.")


def acted(page: HtmlPage, html_action: str) -> HtmlPage | None:
    """Show a page in the current notebook, or return it.

    ``view`` returns None in IPython, as BertViz does, and the page elsewhere: marimo shows the last
    value of a cell.
    """
    if html_action == "return":
        return page
    shell = sys.modules.get("IPython")
    if shell is None or shell.get_ipython() is None:
        return page
    import_module("IPython.display").display(page)
    return None
