"""What does every head look like at a glance?"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from ...components.atlas import atlas_height
from ...components.standalone_page import framed, page
from ...core.given.facts import given_facts
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import join_words, say
from ...metrics.attention.map_cells import is_tiled
from ..html.picture import Picture, noted
from .chosen_heads import decided_first, most_decided, require_head
from .html_report import heads_in_words, letters_for, room_for, runs_of
from .long_report import Wanted, long_book
from .report_data import Place, book

LONG_MB = 10.0  # of the page that a long run makes in a notebook, queries and keys included
BELOW = 640  # pixels for the opened head, where it stands below the atlas


def atlas(
    trace: Trace,
    blocks: Sequence[str] | str | None = None,
    *,
    before: Trace | None = None,
    opened: Place | None = None,
) -> Picture:
    """Return all heads as small maps with the open one beside them; for notebooks, offline.

    For a long run, the page holds the queries and keys of as many heads as fit into 10 MB.

    Args:
        trace: The run to show.
        blocks: Any of ``encoder``, ``decoder`` and ``cross``; if omitted, all of them.
        before: Another run on the same tokens; the reader can switch to it, or to the change.
        opened: Block, layer and head that is open at first; if omitted, the one of lowest entropy.

    Raises:
        LookupError: The trace lacks a map, or its weights were not kept.
        ValueError: The two runs have different tokens.
    """
    chosen = (blocks,) if isinstance(blocks, str) else tuple(blocks or trace.maps)
    place = opened or most_decided(trace, chosen[-1])
    require_head(trace, place)
    title = say("All heads: {blocks}", blocks=join_words(map(called, chosen)))
    body = '<main id="tv-report"></main>'
    places = [one for one in decided_first(trace, place) if one[0] in chosen]
    options: dict[str, Any] = {"parts": ["atlas", "head"], "view": "map"}
    runs, parts = runs_of(trace, before), []
    if is_tiled(trace):
        wanted = Wanted(places, letters_for(title, body, LONG_MB))
        found = long_book(runs, wanted, chosen, **options)
        blob, parts = found.blob, found.letters
    else:
        blob, _ = book(runs, places, room_for(title, body), blocks=chosen, **options)
    said = " ".join((f"{title}. {heads_in_words(trace, chosen)}", *given_facts(trace)[:1]))
    content = page(blob, title=title, body=body, parts=parts)
    frame = framed(content, title=title, height=atlas_height(trace, chosen) + BELOW)
    return noted(f"{frame}<p>{html.escape(said)}</p>", said, trace, before)
