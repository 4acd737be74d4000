"""A page as a notebook shows it, and as `html_action="return"` hands it out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module

from ..components.standalone_page import framed

ACTIONS = ("view", "return")


@dataclass(frozen=True)
class HtmlPage:
    """One whole HTML page that needs no network, as text in ``data`` (as IPython's ``HTML`` has
    it); a notebook shows it in a frame ``height`` pixels high."""

    data: str
    title: str
    height: int

    def _repr_html_(self) -> str:
        return framed(self.data, title=self.title, height=self.height)


def require_action(html_action: str) -> None:
    """Refuse an unknown ``html_action`` before anything is drawn.

    Raises:
        ValueError: names the two there are.
    """
    if html_action not in ACTIONS:
        raise ValueError(f"html_action is 'view' or 'return'; got {html_action!r}.")


def acted(page: HtmlPage, html_action: str) -> HtmlPage | None:
    """Show a page in the notebook that runs, or hand it out.

    ``view`` gives None in IPython, as BertViz does, and the page itself elsewhere: marimo shows
    what a cell ends with.
    """
    if html_action == "return":
        return page
    shell = sys.modules.get("IPython")
    if shell is None or shell.get_ipython() is None:
        return page
    import_module("IPython.display").display(page)
    return None
