"""All heads beside one of them as lines or as a map, on a page of its own."""

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

BELOW = 680  # pixels for the opened head, where it stands below the overview


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
    """The page.

    Args:
        trace: the whole run, of which the words below speak.
        runs: what the reader chooses between.
        places: the heads that are held, the opened one first.
        title: of the page.
        view: ``lines`` or ``map``, at first.
        overlaid: layer and head of those laid over the opened one.
        notes: what must be said beside the picture.
        theme: ``light`` or ``dark``; left out, as the reader has it.
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
