"""Which word looks at which?"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from ...components.lines import MOST_HEADS, lines_height
from ...components.standalone_page import framed, page
from ...core.given.facts import given_facts
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import join_words, say
from ...metrics import describe_row
from ...metrics.attention.map_cells import cells, refuse_lines
from ..html.picture import Picture, noted
from .chosen_heads import most_decided
from .html_report import room_for, runs_of
from .report_data import book

AROUND = 300  # pixels for the controls above and the text below


def lines(
    trace: Trace,
    block: str,
    heads: Sequence[tuple[int, int]] | None = None,
    *,
    before: Trace | None = None,
) -> Picture:
    """Return heads as lines between query and key tokens; for notebooks, offline.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        heads: Layer and head of those to draw, at most eight; if omitted, the one of lowest
            entropy.
        before: Another run on the same tokens; the reader can switch to it, or to the change.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: No head or more than eight, or runs with different tokens.
    """
    chosen = list(dict.fromkeys(heads if heads is not None else [most_decided(trace, block)[1:]]))
    if not 1 <= len(chosen) <= MOST_HEADS:
        raise ValueError(f"Lines show one to {MOST_HEADS} heads at once; got {len(chosen)}.")
    refuse_lines(trace)
    first = cells(trace, block, *chosen[0])
    heads_named = join_words(f"L{layer} H{head}" for layer, head in chosen)
    title = say("{block} {heads} as lines", block=called(block), heads=heads_named)
    body = '<main id="tv-report"></main>'
    options: dict[str, Any] = {
        "parts": ["head"],
        "view": "lines",
        "overlaid": [list(one) for one in chosen[1:]],
    }
    places = [(block, *one) for one in chosen]
    blob, _ = book(runs_of(trace, before), places, room_for(title, body), **options)
    row = int(first.weights.max(axis=1).argmax())
    said = (
        f"{title}. {describe_row(first.weights[row], first.rows.labels[row], first.columns.labels)}"
    )
    said = " ".join((said, *given_facts(trace)[:1]))
    height = lines_height(block, len(first.rows), len(first.columns)) + AROUND
    frame = framed(page(blob, title=title, body=body), title=title, height=height)
    return noted(f"{frame}<p>{html.escape(said)}</p>", said, trace, before)
