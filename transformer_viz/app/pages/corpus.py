"""Page Corpus: head measures over many sentences."""

from __future__ import annotations

from html import escape

import streamlit as st

from ...corpus.folder import AtlasFolder
from ...i18n import mark, numeral, say
from ...metrics.head_measures.registry import MEASURES
from ..corpus import opening, shown
from ..engine.engine import Engine
from ..page_template import notices_above
from ..session.state import state
from ..shell.guess_mark import guess_mark
from ..ui import layout
from ..ui.progress import Stopped
from ..ui.terms import terms
from ..ui.text_format import escape_markdown, spoken

QUESTION = mark("What does each head do over many sentences?")


def draw(engine: Engine) -> None:
    """Draw the page Corpus."""
    with notices_above(engine):
        _body(engine)


def _body(engine: Engine) -> None:
    layout.heading(escape(say(QUESTION)))
    found = _opened(engine)
    if found is None:
        layout.quiet(
            escape(
                say(
                    "An atlas holds, for every head, {count} measures over all sentences of a "
                    "file, how they are spread, and the sentences that show each best and "
                    "typically.",
                    count=len(MEASURES),
                )
            )
        )
        opening.choices(engine)
        return
    card = found.card
    with layout.row("center", spread=True, key="corpus-open"):
        said = say(
            "{model} on {count} sentences of {corpus}",
            model=card["model"],
            count=numeral(card["read"], ","),
            corpus=card["corpus"],
        )
        if card["refused"]:
            said += " " + say("({count} that it cannot read left out)", count=card["refused"])
        layout.heading(escape(said), 3, what="corpus")
        st.button(say("another atlas"), key="atlas-other", on_click=_close)
    guess_mark(card, name=shown.own_model(found, engine) or "")
    shown.card(found, engine)
    terms("head", "role", "chance", "interval", "entropy", "special token")


def _opened(engine: Engine) -> AtlasFolder | None:
    """Return the chosen atlas, or None after an error was shown."""
    try:
        return opening.chosen(engine)
    except Stopped:  # shows its own message and a button to resume
        pass
    except (ValueError, LookupError, OSError) as error:
        st.error(escape_markdown(spoken(error)))
    return None


def _close() -> None:
    state.corpus = ""
