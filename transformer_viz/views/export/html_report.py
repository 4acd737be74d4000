"""What did all heads do, on one page to send around?"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...components import Chip, ChipRow, spot, tokens_data
from ...components.js_texts import taught
from ...components.standalone_page import page
from ...core.given.facts import given_facts
from ...core.sites import MAPS, called
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import join_words, say
from ...metrics.attention.map_difference import require_same_words
from ...metrics.attention.word_merging import REPEATED
from ..numbers import manifest, whose
from ..paper.figure_file import HONEST
from .report_data import STEPS, Place, Run, book, decided_first

MAX_PAGE_BYTES = (
    3_000_000  # bytes of a page; heads that do not fit are left out, and the page says so
)
SPARE = 4_000  # of them for the words that are known only when the heads are packed
LONG = 90  # letters of a title
BEFORE_MARK = re.compile(r" ([.,;:!?…])")  # a mark stands close to the word before it
EVERYTHING = ("chips", "atlas", "head")


def report(
    trace: Trace, before: Trace | None = None, *, title: str = "", opened: Place | None = None
) -> str:
    """One HTML page with all heads, that works offline: atlas, maps, lines, linked as in the app.

    It asks no network for anything, and stays below 3 MB: where all weights do not fit, those of
    the opened head and of the most decided ones are kept, and the page says so.

    Args:
        trace: the run to show.
        before: another run over the same words; then the reader can switch between both and what
            changed.
        title: stands above; left out, the model and the words.
        opened: block, layer and head that is open at first; left out, the most decided one.

    Raises:
        LookupError: no weights were kept in the trace, or not those of ``opened``.
        ValueError: the two runs speak about different words.
    """
    runs = runs_of(trace, before)
    place = opened or most_decided(trace, trace.maps[-1])
    trace.block(place[0], place[1])  # says what is there where this is not
    title = title or _title(trace)
    room = room_for(title, _body(title, trace, before, 0))
    # Patches of a picture are no words to read.
    alone = trace.manifest.get("image") and not trace.source.ids
    parts = EVERYTHING[1:] if alone else EVERYTHING
    with taught():  # the whole brings its texts along, once
        chips = _chips(trace)
    options: dict[str, Any] = {"parts": parts, "view": "map", "chips": chips}
    blob, kept = book(runs, decided_first(trace, place), room, **options)
    return page(blob, title=title, body=_body(title, trace, before, kept))


def runs_of(trace: Trace, before: Trace | None) -> list[Run]:
    """What a reader can choose between.

    Raises:
        ValueError: the two runs speak about different words.
    """
    if before is None:
        return [Run(say("Now"), trace)]
    for block in trace.maps:
        require_same_words(trace, before, block)
    return [
        Run(say("Now"), trace),
        Run(say("Before"), before),
        Run(say("Difference"), trace, before),
    ]


def most_decided(trace: Trace, block: str) -> Place:
    """The head of a block that looks least widely, of those whose weights were kept."""
    kept = {attention.site.layer for attention in trace.blocks(block)}
    stack, kind = MAPS[block]
    mine = trace.heads[(trace.heads["stack"] == stack) & (trace.heads["block"] == kind)]
    mine = mine[mine["layer"].isin(kept)]
    best = mine.loc[mine["entropy"].idxmin()]
    return block, int(best["layer"]), int(best["head"])


def room_for(title: str, body: str) -> int:
    """How many bytes of deflated data fit on a page with these words."""
    whole = len(page(b"", title=title, body=body).encode("utf-8"))
    return (MAX_PAGE_BYTES - SPARE - whole) * 3 // 4  # four letters for three bytes


def precision(changes: bool) -> str:
    """How exact the numbers of a page are, in a sentence."""
    if not changes:
        return say("Weights are kept in steps of 1/{steps}.", steps=STEPS)
    return say(
        "Weights are kept in steps of 1/{steps}, changes of them in steps of 2/{steps}.",
        steps=STEPS,
    )


def _title(trace: Trace) -> str:
    image = trace.manifest.get("image")
    words = say("a picture") if image and not trace.source.ids else _sentence(_words(trace))
    short = words if len(words) <= LONG else f"{words[: LONG - 1]}…"
    return f"{trace.manifest.get('model', say('A model'))}: {short}"


def _words(trace: Trace) -> Tokens:
    """The source without the patches of a picture that stands beside its words."""
    patches = set() if trace.patches is None else set(trace.patches.ravel().tolist())
    tokens = trace.source
    special = tuple(mark or n in patches for n, mark in enumerate(tokens.special))
    return replace(tokens, special=special)


def _sentence(tokens: Tokens) -> str:
    """The words of a sentence, without marks and without the numbers of repeated ones."""
    words: dict[int, str] = {}
    for label, word, special in zip(tokens.labels, tokens.words, tokens.special, strict=True):
        if not special:
            words[word] = words.get(word, "") + REPEATED.sub("", label)
    return BEFORE_MARK.sub(r"\1", " ".join(words.values()))


def _body(title: str, trace: Trace, before: Trace | None, kept: int) -> str:
    """The words of the page; everything in them is escaped here."""
    heads = len(trace.heads)
    missing = say(
        "This page is kept below 3 MB: it holds the exact weights of {kept} of {heads} heads, the "
        "one that was open and those that look least widely.",
        kept=kept,
        heads=heads,
    )
    parts = (precision(before is not None), missing if kept != heads else "", say(HONEST))
    facts = " ".join(filter(None, parts))
    origin = json.dumps(manifest(trace, before, picture="report"), indent=2, default=str)
    return (
        f"<header><h1>{html.escape(title)}</h1><p>{html.escape(whose(trace, before))}</p></header>"
        '<main id="tv-report"></main>'
        f"<footer><p>{html.escape(facts)}</p><p>{html.escape(_proof(trace))}</p>"
        f"<details><summary>{html.escape(say('Where this comes from'))}</summary>"
        f"<pre>{html.escape(origin)}</pre></details></footer>"
    )


def _proof(trace: Trace) -> str:
    """The capture report in a sentence."""
    found = trace.report
    if found.given:
        return " ".join(given_facts(trace))
    checked = [error for error in found.rebuilt.values() if error is not None]
    said = [
        say("{count} places found", count=len(found.sites)),
        say("rows sum to 1 within {error:.0e}", error=found.row_sum_error),
    ]
    if checked:
        said.append(
            say("outputs of blocks rebuilt from the weights within {error:.0e}", error=max(checked))
        )
    if found.output_difference:
        apart = found.output_difference
        said.append(say("watched and unwatched output differ by {error:.0e}", error=apart))
    elif found.output_difference is not None:
        said.append(say("watched and unwatched output agree"))
    if found.status == "green":
        return say("Capture report green: {facts}.", facts=join_words(said))
    return say("Capture report amber: {facts}.", facts=join_words(said))


def _chips(trace: Trace) -> dict[str, Any]:
    """The sentences."""
    sides = [("source", trace.source)]
    if trace.target is not None:
        sides.append(("target", trace.target))
    rows = [
        ChipRow(
            "text" if trace.target is None else side,
            [
                Chip(text, row=0, column=0, mark=special, lights=_lights(trace, side, token))
                for token, (text, special) in enumerate(
                    zip(tokens.labels, tokens.special, strict=True)
                )
            ],
        )
        for side, tokens in sides
    ]
    return tokens_data(rows, dark=False)


def _lights(trace: Trace, side: str, token: int) -> tuple[str | None, str | None]:
    """The row and the column that stand for a token: a decoder's rows are what they produce."""
    produces = trace.produced is not None and (side == "target" or trace.maps == ("decoder",))
    if not produces:
        return spot(side, token), spot(side, token)
    return (spot("produced", token - 1) if token else None), spot(side, token)


def heads_in_words(trace: Trace, blocks: Sequence[str], count: int = 3) -> str:
    """The most decided heads of some blocks, for those who cannot see them."""
    stacks = {MAPS[block]: block for block in blocks}
    table = trace.heads.sort_values("entropy", kind="stable")
    named = [
        say(
            "{block} L{layer} H{head} ({entropy:.2f} bits)",
            block=called(stacks[row.stack, row.block]),
            layer=row.layer,
            head=row.head,
            entropy=row.entropy,
        )
        for row in table.itertuples()
        if (row.stack, row.block) in stacks
    ]
    return say(
        "{count} heads; those that look least widely: {heads}.",
        count=len(named),
        heads=join_words(named[:count]),
    )
