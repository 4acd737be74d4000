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

LONG_MB = 10.0  # of the page inside a notebook that a long run makes, queries and keys included
BELOW = 640  # pixels for the opened head, where it stands below the atlas


def atlas(
    trace: Trace,
    blocks: Sequence[str] | str | None = None,
    *,
    before: Trace | None = None,
    opened: Place | None = None,
) -> Picture:
    """All heads as small pictures, the opened one beside them; for notebooks, without network.

    Of a long run the queries and keys of as many heads come along as fit into 10 MB.

    Args:
        trace: the run to show.
        blocks: one or more of ``encoder``, ``decoder`` and ``cross``; left out, all of them.
        before: another run over the same words; then both and what changed can be chosen.
        opened: block, layer and head that is open at first; left out, the most decided one.

    Raises:
        LookupError: a map that the trace lacks, or weights that were not kept.
        ValueError: the two runs speak about different words.
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
