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
from ..html.picture import Picture
from .chosen_heads import decided_first, most_decided
from .html_report import heads_in_words, room_for, runs_of
from .report_data import Place, book

BELOW = 640  # pixels for the opened head, where it stands below the atlas


def atlas(
    trace: Trace,
    blocks: Sequence[str] | str | None = None,
    *,
    before: Trace | None = None,
    opened: Place | None = None,
) -> Picture:
    """All heads as small pictures, the opened one beside them; for notebooks, without network.

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
    trace.block(place[0], place[1])
    title = say("All heads: {blocks}", blocks=join_words(map(called, chosen)))
    body = '<main id="tv-report"></main>'
    places = [one for one in decided_first(trace, place) if one[0] in chosen]
    options: dict[str, Any] = {"parts": ["atlas", "head"], "view": "map"}
    room = room_for(title, body)
    blob, _ = book(runs_of(trace, before), places, room, blocks=chosen, **options)
    said = " ".join((f"{title}. {heads_in_words(trace, chosen)}", *given_facts(trace)[:1]))
    content = page(blob, title=title, body=body)
    frame = framed(content, title=title, height=atlas_height(trace, chosen) + BELOW)
    return Picture(f"{frame}<p>{html.escape(said)}</p>", said)
