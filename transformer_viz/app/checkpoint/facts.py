"""Facts of a checkpoint, its capture report, and its contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from ...core.sites import called
from ...i18n import mark, numeral, say
from ..cards.plotly_chart import chart
from ..session import visit
from ..shell.guess_mark import guess_span
from ..ui import layout

if TYPE_CHECKING:
    from ...inference.findings import Finding
    from ...inference.inspection import Inspection

GUESSED = "guessed"  # mark of a green finding with guessed config values
MARKS = {
    "green": ("✓", mark("as it should be")),
    "amber": ("!", mark("look at this")),
    "unchecked": ("?", mark("not checked")),
    GUESSED: ("✓", mark("as it should be, with guessed values")),
}
#: Labels of kinds, inputs and outputs of models.
KINDS = (
    *(mark("encoder-decoder"), mark("encoder-only"), mark("decoder-only")),
    *(mark("text"), mark("image"), mark("vectors"), mark("words"), mark("classes")),
    *(mark("audio"), mark("tags")),  # a class for each word or frame
    mark("spans"),
)
UNPROVED = mark(
    "The report proves what the model did with these values; it cannot prove the values. The form "
    "below settles them."
)
GUESSES = mark("Guessed: {values}. The form below settles them.")
BY_SIZE = mark("Taken by its size, as its name does not tell the side: {files}.")
ROWS = mark(
    "In maps of a decoder each row is named after the token it writes (trace.produced), and each "
    "column of its self-attention after the token it reads (trace.target; of one stack "
    "trace.source)."
)
ROLES = (mark("padding"), mark("start"), mark("end"), mark("mask"))
WRITTEN = ("start", "end")  # special tokens of the target's vocabulary
SPECIAL_IDS = {"padding": "pad_id", "start": "bos_id", "end": "eos_id"}


def head(found: Inspection, called: str) -> None:
    """Draw the facts in two lines, and the notes.

    Args:
        found: Inspection of the model.
        called: Display name of the model, with its overrides.
    """
    title = " " + layout.quiet_span(escape(found.title)) if found.title else ""
    layout.heading(f"{escape(called)}{title}", what="checkpoint")
    size = f", {numeral(found.size / 1e6, ',.1f')} MB" if found.size else ""
    types = found.file_dtype or found.dtype
    if types != found.dtype:
        types = say("{type} in the file, computed in {other}", type=types, other=found.dtype)
    facts = [
        say("layout {layout}", layout=found.layout),
        say(
            "{kind}: takes {taken}, gives {given}",
            kind=say(found.kind),
            taken=say(found.takes),
            given=say(found.gives),
        ),
        say("{count:,} parameters", count=found.parameters) + size,
        types,
        f"sha256 {found.hash[:12]}" if found.hash else "",
        *found.unwrapped,
    ]
    spans = "".join(f"<span>{escape(fact)}</span>" for fact in facts if fact)
    st.html(f'<div class="tv-facts" data-what="facts">{spans}</div>')
    for note in found.notes:
        st.html(f'<p class="tv-note">{_sign("amber")} {escape(_shown(note))}</p>')


def _shown(note: str) -> str:
    """Return a note in the user's language, with the remedy on this page if known."""
    from ...checkpoints.common.provenance import guesses_of_note
    from ...checkpoints.vocabularies.by_size import sides_of_note

    sides, guesses = sides_of_note(note), guesses_of_note(note)
    if sides:
        named = ", ".join(f"{file} ({say(side)})" for side, file in sides.items())
        return say(BY_SIZE, files=named)
    return say(GUESSES, values=guesses) if guesses else note


def rows_named(kind: str) -> None:
    """Explain the row labels of a decoder's maps, for models with a decoder."""
    if kind != "encoder-only":
        layout.quiet(escape(say(ROWS)))


def trust(findings: Sequence[Finding], guesses: Mapping[str, Any] | None = None) -> None:
    """Draw the capture report: its findings with their marks, and folded details.

    Args:
        findings: The findings.
        guesses: Config entries that no file states, and that no report proves.
    """
    with st.container(border=True, key="card-trust"):
        question = say("Is what you will see what the model did?")
        layout.heading(question)
        if guesses:
            st.html(f'<p class="tv-note">{guess_span(guesses)} {escape(say(UNPROVED))}</p>')
        for number, finding in enumerate(findings):
            status = GUESSED if guesses and finding.status == "green" else finding.status
            said = layout.quiet_span(escape(say("(with guessed values)")))
            said = said if status == GUESSED else ""
            st.html(
                f'<p class="tv-say" data-what="finding-{number}" data-status="{finding.status}">'
                f"{_sign(status)} {escape(finding.sentence)} {said}</p>"
            )
        details = [line for finding in findings for line in finding.details]
        if details:
            title = say("Every place that was found or checked ({count})", count=len(details))
            with st.expander(title):
                st.html("".join(_details(finding) for finding in findings))


def _sign(status: str) -> str:
    sign, words = MARKS[status][0], say(MARKS[status][1])
    return f'<span class="tv-mark tv-{status}" role="img" aria-label="{words}">{sign}</span>'


def _details(finding: Finding) -> str:
    return f'<ul class="tv-details">{_items(finding.details)}</ul>' if finding.details else ""


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def contents(found: Inspection) -> None:
    """Draw the parameters, the vocabulary, and the text of the model card."""
    with st.container(border=True, key="card-parameters"):
        chart(
            "parameters",
            say("Where in the model are its parameters?"),
            lambda: _bars(found),
        )
    with st.container(border=True, key="card-vocabulary"):
        _vocabulary(found)
    if found.card or found.licence:
        with st.container(border=True, key="card-card"):
            layout.heading(say("What do its makers say?"))
            if found.licence:
                st.html(f'<pre class="tv-card-text">{escape(found.licence)}</pre>')
            if found.card:
                with st.expander(say("The first lines of its card")):
                    st.html(f'<pre class="tv-card-text">{escape(found.card)}</pre>')


def _bars(found: Inspection) -> Any:
    from ...views.charts.parameters import (
        parameters,  # imports plotly, which no other page needs at once
    )

    return parameters(block_table(found), dark=visit.dark())


def block_table(found: Inspection) -> pd.DataFrame:
    """Return a row for each block: position of its bar, kind, and number of parameters."""
    rows = [
        (
            say(block.block)
            if block.layer is None
            else f"{called(block.stack or '')} L{block.layer}",
            block.block,
            block.count,
        )
        for block in found.blocks
    ]
    return pd.DataFrame(rows, columns=["place", "block", "parameters"])


def _vocabulary(found: Inspection) -> None:
    if found.takes == "text" or (found.takes == "audio" and not found.labels):
        layout.heading(say("What does its vocabulary hold?"))
        st.html(_words(found))
    elif not found.labels:
        layout.heading(say("What does it read?"))
        said = say("It reads {taken}: no vocabulary.", taken=say(found.takes))
        layout.quiet(escape(said))
    if found.labels:
        question = say("Which {count} classes does it know?", count=len(found.labels))
        layout.heading(question)
        st.html(f'<div class="tv-pieces">{_pieces(found.labels[:40])}</div>')


def _words(found: Inspection) -> str:
    vocabulary = found.vocabulary
    special = ", ".join(_special(found, *one) for one in vocabulary.special)
    marks = say("; special: {pieces}", pieces=special) if special else ""
    if vocabulary.typed:
        said = say("No vocabulary is in use for the source: its tokens are typed as numbers")
        if vocabulary.size:
            said = say(
                "No vocabulary is in use for the source: {count:,} tokens are typed as numbers",
                count=vocabulary.size,
            )
        said = say("{said}.", said=said + marks)
        return layout.quiet_span(escape(said))
    said = say("{count:,} pieces, these from all over", count=vocabulary.size)
    return (
        f'<div class="tv-pieces">{_pieces(vocabulary.sample)}</div><span class="tv-quiet">'
        f"{escape(said + marks)}</span>"
    )


def _special(found: Inspection, role: str, token: int, piece: str) -> str:
    """Return a special token with its id, its vocabulary, and the mark of a guess."""
    where = [str(token)]
    if found.vocabulary.two and role in WRITTEN:
        where.append(say("in the target's list"))
    if SPECIAL_IDS.get(role) in (found.guessed or {}):
        where.append(say("guess"))
    return f"{say(role)} {piece} ({', '.join(where)})"


def _pieces(words: Iterable[str]) -> str:
    return "".join(f"<code>{escape(word)}</code>" for word in words)
