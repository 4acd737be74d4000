"""Report of all heads as one HTML page that works offline."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...components import Chip, ChipRow, spot, tokens_data
from ...components.js_texts import taught
from ...components.standalone_page import page
from ...core.given.facts import given_facts
from ...core.guesses import guess_html, guess_mark
from ...core.renamed import accept_old_keywords
from ...core.sites import MAPS, called
from ...core.tiles import LONG as LONG_TEXT
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import join_words, say
from ...metrics.attention.map_cells import is_tiled
from ...metrics.attention.map_difference import require_same_words
from ...metrics.attention.word_merging import produced_by_row, sentence_of
from ...metrics.output.answer_span import said_of_output
from ..numbers import manifest, whose
from ..paper.figure_file import HONEST
from .chosen_heads import Head, chosen, decided_first, most_decided, require_head
from .long_report import LongBook, Wanted, long_book
from .packed_heads import PRECISIONS, Tell, made_level
from .packed_heads import STEPS as WHOLE_STEPS
from .report_data import STEPS, Place, Run, book

MAX_PAGE_BYTES = (
    3_000_000  # bytes of a page; heads that do not fit are left out, and the page states it
)
LONG_PAGE_MB = 40.0  # of a page of a long run, which holds queries and keys
MOST_MB = 500  # a browser holds a page as one text
SPARE = 4_000  # bytes reserved for the texts that depend on the packed heads
LONG = 90  # letters of a title
EVERYTHING = ("chips", "atlas", "head")


@accept_old_keywords(tell="on_progress")
def report(
    trace: Trace,
    before: Trace | None = None,
    *,
    title: str = "",
    opened: Place | None = None,
    heads: Sequence[Head] | None = None,
    layers: Sequence[int] | None = None,
    max_mb: float | None = None,
    precision: str | None = None,
    on_progress: Tell | None = None,
) -> str:
    """Return one HTML page with all heads that works offline: atlas, maps and lines, linked.

    The page loads nothing from the network. All heads are there as small maps. As many heads as fit
    into ``max_mb`` have every weight: the open one first, then those of lowest entropy. The page
    lists their number. For a run with tiles of more than 1,024 tokens it holds queries and keys,
    and computes the visible cells.

    Args:
        trace: The run to show.
        before: Another run on the same tokens. The reader can switch between both and, up to 1,024
            tokens, to the change.
        title: Heading; if omitted, the model and the tokens.
        opened: Block, layer and head that is open at first; if omitted, the one of lowest entropy.
        heads: Heads to hold in full: block, layer and head of each, or layer and head.
        layers: Layers whose heads are all held in full.
        max_mb: Largest size of the page in millions of bytes; if omitted, 3, or 40 for a long run.
        precision: Number format of queries and keys of a long run: ``float32``, or ``int16`` (half
            the size: integers with a scale for each token). If omitted, float32, unless not even
            the open head fits.
        on_progress: Called with the number of packed heads, for a long run.

    Raises:
        LookupError: The trace has no weights, or not those of a named head.
        ValueError: The two runs have different tokens, or the named heads do not fit.
    """
    if max_mb is not None and not 0 < max_mb <= MOST_MB:
        raise ValueError(f"A page may have up to {MOST_MB:,} MB; got max_mb={max_mb:g}.")
    if precision not in (None, *PRECISIONS):
        raise ValueError(f"precision is one of {', '.join(PRECISIONS)}; got {precision!r}.")
    wanted = chosen(trace, heads, layers)
    place = opened or (wanted[0] if wanted else most_decided(trace, trace.maps[-1]))
    require_head(trace, place)
    title = title or _title(trace)
    every = tuple(dict.fromkeys([place, *wanted])) if wanted else ()
    if is_tiled(trace):
        most = max_mb or LONG_PAGE_MB
        return _long(trace, before, title, place, every, most, precision, on_progress)
    if precision is not None:
        raise ValueError(
            "precision is of runs that keep tiles of more than 1,024 tokens; the weights of "
            f"shorter ones are kept in steps of 1/{STEPS}."
        )
    return _short(trace, before, title, place, every, max_mb or MAX_PAGE_BYTES / 1e6)


def _short(
    trace: Trace,
    before: Trace | None,
    title: str,
    place: Place,
    every: Sequence[Place],
    most: float,
) -> str:
    """Return the page of a run with matrices."""
    runs = runs_of(trace, before)
    room = room_for(title, _body(title, trace, before, [""]), most)
    # Patches of a picture are no text to read.
    alone = trace.manifest.get("image") and not trace.source.ids
    parts = EVERYTHING[1:] if alone else EVERYTHING
    with taught():  # the page itself brings its texts along, once
        chips = _chips(trace)
    options: dict[str, Any] = {"parts": parts, "view": "map", "chips": chips}
    blob, kept = book(runs, every or decided_first(trace, place), room, **options)
    if every and kept < len(every):
        raise ValueError(
            f"Of the {len(every)} heads that were chosen {kept} fit into {most:g} MB. Allow more "
            "megabytes, or choose fewer heads or layers."
        )
    facts = [precision_words(before is not None), _left_out(trace, kept, bool(every), most)]
    return page(blob, title=title, body=_body(title, trace, before, facts))


def _long(
    trace: Trace,
    before: Trace | None,
    title: str,
    place: Place,
    every: Sequence[Place],
    most: float,
    precision: str | None,
    on_progress: Tell | None,
) -> str:
    """Return the page of a run with tiles, which computes its cells."""
    runs = runs_of(trace, before)[:2]  # the difference needs matrices
    if before is not None and not is_tiled(before):
        raise ValueError(
            'The other run keeps no tiles; trace both with keep=("tiles",), or leave it out.'
        )
    letters = len(page(b"", title=title, body=_body(title, trace, before, [""])).encode("utf-8"))
    wanted = Wanted(
        every or decided_first(trace, place),
        int(most * 1e6) - SPARE - letters,
        precision,
        bool(every),
    )
    options: dict[str, Any] = {"parts": EVERYTHING[1:], "view": "map"}
    found = long_book(runs, wanted, on_progress=on_progress or (lambda done: None), **options)
    facts = [
        *_long_precision(found, trace.map_shape(*place[:2])),
        _long_left_out(trace, found, bool(every), most),
        say("Lines and differences need a text of up to {most:,} tokens.", most=LONG_TEXT),
    ]
    body = _body(title, trace, before, facts)
    return page(found.blob, title=title, body=body, parts=found.letters)


def _long_precision(found: LongBook, shape: tuple[int, int]) -> Iterator[str]:
    """Yield sentences about the precision of the numbers of a long run's page."""
    if found.precision == "float32":
        yield say(
            "The page computes the weights from queries and keys in float32, as the model had "
            "them: they are those of the run, as float32 rounds."
        )
    else:
        yield say(
            "The page computes the weights from queries and keys in whole numbers of 16 bits with "
            "a scale for each token: a weight is off by at most {share:.2%} of itself, which is "
            "said where its digits would hide it.",
            share=found.within,
        )
    step = 2 ** made_level(shape)
    if step > 1:
        yield say(
            "Cells of {step} × {step} weights and more are kept in steps of 1/{steps} of the "
            "head's largest weight.",
            step=step,
            steps=WHOLE_STEPS,
        )


def _long_left_out(trace: Trace, found: LongBook, every: bool, most: float) -> str:
    heads = len(trace.heads)
    if len(found.kept) == heads:
        return ""
    words = {
        "kept": len(found.kept),
        "heads": heads,
        "most": f"{most:g}",
    }
    if every:
        return say(
            "It holds the cells of {kept} of {heads} heads, those that were chosen.", **words
        )
    return say(
        "It is kept below {most} MB: it holds the cells of {kept} of {heads} heads, the one that "
        "was open and those that look least widely.",
        **words,
    )


def runs_of(trace: Trace, before: Trace | None) -> list[Run]:
    """Return the runs that a reader can choose between.

    Raises:
        ValueError: The two runs have different tokens, or only one keeps tiles.
    """
    if before is None:
        return [Run(say("Now"), trace)]
    if is_tiled(trace) != is_tiled(before):
        raise ValueError(
            'One of the two runs keeps tiles, the other matrices; trace both with keep=("tiles",).'
        )
    for block in trace.maps:
        require_same_words(trace, before, block)
    both = [Run(say("Now"), trace), Run(say("Before"), before)]
    if is_tiled(trace):
        return both  # the difference needs matrices
    return [*both, Run(say("Difference"), trace, before)]


def room_for(title: str, body: str, most: float = MAX_PAGE_BYTES / 1e6) -> int:
    """Return the bytes of deflated data that fit on a page of ``most`` MB with these texts."""
    return letters_for(title, body, most) * 3 // 4  # four letters for three bytes


def letters_for(title: str, body: str, most: float) -> int:
    """Return the letters that fit on a page of ``most`` MB beside its texts and scripts."""
    return int(1e6 * most) - SPARE - len(page(b"", title=title, body=body).encode("utf-8"))


def precision_words(changes: bool) -> str:
    """Return a sentence about the precision of the numbers of a page."""
    if not changes:
        return say("Weights are kept in steps of 1/{steps}.", steps=STEPS)
    return say(
        "Weights are kept in steps of 1/{steps}, changes of them in steps of 2/{steps}.",
        steps=STEPS,
    )


def _title(trace: Trace) -> str:
    image = trace.manifest.get("image")
    words = say("a picture") if image and not trace.source.ids else sentence_of(_words(trace))
    short = words if len(words) <= LONG else f"{words[: LONG - 1]}…"
    return f"{trace.manifest.get('model', say('A model'))}: {short}"


def _words(trace: Trace) -> Tokens:
    """Return the source with the patches of a picture beside its text marked as special."""
    patches = set() if trace.patches is None else set(trace.patches.ravel().tolist())
    tokens = trace.source
    special = tuple(mark or n in patches for n, mark in enumerate(tokens.special))
    return replace(tokens, special=special)


def _left_out(trace: Trace, kept: int, every: bool, most: float) -> str:
    """Return a sentence about the heads that are not exact in a page; empty if all are."""
    heads = len(trace.heads)
    if kept == heads:
        return ""
    if every:
        return say(
            "It holds the exact weights of {kept} of {heads} heads, those that were chosen.",
            kept=kept,
            heads=heads,
        )
    return say(
        "This page is kept below {most} MB: it holds the exact weights of {kept} of {heads} heads, "
        "the one that was open and those that look least widely.",
        kept=kept,
        heads=heads,
        most=f"{most:g}",
    )


def _body(title: str, trace: Trace, before: Trace | None, said: Sequence[str]) -> str:
    """Return the escaped HTML body of the page."""
    told = [said_of_output(run) for run in (before, trace) if run is not None]
    facts = " ".join(filter(None, (" → ".join(filter(None, told)), *said, say(HONEST))))
    guessed = guess_html(trace, before)
    origin = json.dumps(manifest(trace, before, picture="report"), indent=2, default=str)
    return (
        f"<header><h1>{html.escape(title)}</h1>"
        f"<p>{html.escape(whose(trace, before, marked=False))}</p>{guessed}</header>"
        '<main id="tv-report"></main>'
        f"<footer><p>{html.escape(facts)}</p><p>{html.escape(_proof(trace))}</p>"
        f"<details><summary>{html.escape(say('Where this comes from'))}</summary>"
        f"<pre>{html.escape(origin)}</pre></details></footer>"
    )


def _proof(trace: Trace) -> str:
    """Return the capture report in a sentence."""
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
    text = say("Capture report amber: {facts}.", facts=join_words(said))
    if found.status == "green":
        text = say("Capture report green: {facts}.", facts=join_words(said))
    elif found.status == found.UNCHECKED:
        text = say("Capture not checked: {facts}.", facts=join_words(said))
    mark = guess_mark(trace.guesses)
    return f"{text} {mark}." if mark else text


def _chips(trace: Trace) -> dict[str, Any]:
    """Return the sentences as chips."""
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
    """Return the row and the column of a token; a decoder's rows belong to predicted tokens."""
    produces = produced_by_row(trace) is not None and (
        side == "target" or trace.maps == ("decoder",)
    )
    if not produces:
        return spot(side, token), spot(side, token)
    return (spot("produced", token - 1) if token else None), spot(side, token)


def heads_in_words(trace: Trace, blocks: Sequence[str], count: int = 3) -> str:
    """Return the heads of lowest entropy of some blocks as text, for screen readers."""
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
