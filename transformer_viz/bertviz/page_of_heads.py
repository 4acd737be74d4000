"""Standalone page with an overview of all heads next to one of them as lines or as a map."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from ..components.atlas import atlas_height
from ..components.standalone_page import page
from ..core.given.facts import given_facts
from ..core.guesses import guess_html
from ..core.trace import Trace
from ..i18n import say
from ..views.export.html_report import heads_in_words, precision_words, room_for
from ..views.export.report_data import Place, Run, book
from .shown import HtmlPage

BELOW = 680  # pixels of the opened head below the overview


def page_of_heads(
    trace: Trace,
    runs: Sequence[Run],
    places: Sequence[Place],
    *,
    title: str,
    view: str,
    overlaid: Sequence[tuple[int, int]] = (),
    notes: Sequence[str] = (),
    theme: str = "",
) -> HtmlPage:
    """Return the page.

    Args:
        trace: The whole run, described by the footer.
        runs: Parts that the user can select.
        places: Heads that the page contains, the opened one first.
        title: Title of the page.
        view: ``lines`` or ``map``, at first.
        overlaid: Layer and head of those drawn over the opened one.
        notes: Notes below the picture.
        theme: ``light`` or ``dark``; by default that of the browser.
    """

    def body(kept: str) -> str:
        said = (
            *notes,
            heads_in_words(trace, trace.maps),
            precision_words(False),
            kept,
            *given_facts(trace),
        )
        words = html.escape(" ".join(filter(None, said)))
        guessed = guess_html(trace)
        return f'<main id="tv-report"></main><footer>{guessed}<p>{words}</p></footer>'

    options: dict[str, Any] = {
        "parts": ["atlas", "head"],
        "view": view,
        "overlaid": [list(one) for one in overlaid],
    }
    blob, kept = book(runs, places, room_for(title, body("0" * 200)), trace.maps, **options)
    left = ""
    if kept < len(trace.heads):
        left = say(
            "The page holds the exact weights of {kept} of {heads} heads.",
            kept=kept, heads=len(trace.heads),
        )  # fmt: skip
    content = page(blob, title=title, body=body(left), theme=theme)
    return HtmlPage(content, title, atlas_height(trace, trace.maps) + BELOW)
