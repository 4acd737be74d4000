"""Page Swap: activation patching between two sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import streamlit as st

from ...core.numerics import LOGIT, MULTI_LABEL, REGRESSION
from ...i18n import join_words, mark, say
from ..cards import swap_grids, token_chips
from ..cards.dock import dock
from ..cards.downloads import table_files
from ..cards.swap_grids import Asked, with_second
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..engine.swap_jobs import Compared, Grid, compared
from ..page_template import show
from ..session import widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import FIRST_TEXT
from ..ui import layout
from ..ui.progress import explained, run_with_progress
from ..ui.terms import terms
from ..ui.text_format import changed_words

QUESTION = mark("Which part of the run carries the difference between two sentences?")
#: Variants of frequently used sentences.
VARIANTS = {
    FIRST_TEXT: FIRST_TEXT.replace("tired", "wide"),
    FIRST_TEXT.replace("tired", "wide"): FIRST_TEXT,
}
WHAT = {
    "heads": mark("What a head gives"),
    "patterns": mark("Where a head looks"),
    "stream": mark("A place of the stream"),
}
SAID = {
    "heads": mark(
        "One head at a time gives what it gives in the other sentence, at all words; the rest of "
        "the run is this sentence's."
    ),
    "patterns": mark(
        "One head at a time looks where it looks in the other sentence, and mixes what this "
        "sentence has there."
    ),
    "stream": mark(
        "At one word, behind one layer, the residual stream is that of the other sentence; the "
        "rest of the run is this sentence's."
    ),
}
OTHER, PAIR = "swap-other", "swap-pair"  # widget keys of the typed texts
SEPARATOR = ","
TYPED = 400  # characters
MOST_PLACES = 256  # tokens of source and target, which are patched one by one


def draw(engine: Engine) -> None:
    """Draw the page Swap."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[0], -1, "column")
    written = token_chips.sentences(scene, rows, lambda chip: None)
    layout.heading(escape(say(QUESTION)))
    refused = _lacks(scene)
    if refused:
        st.info(refused)
    else:
        with explained():
            _experiment(scene)
    return written_freely(scene, written, dock(scene, live=False, comparing=False))


def _lacks(scene: Scene) -> str | None:
    """Return a reason if the model cannot be used, with an alternative; else None."""
    kind = scene.kind
    if kind.takes != "text" or kind.eyes:
        return say(
            "This page compares two sentences, and the model at hand reads something else. Choose "
            "a model that reads one text, such as en-de; Explore shows its heads meanwhile."
        )
    if kind.gives == "vectors":
        return say(
            "A swap is read off at a pair of output words, and the model at hand says none. Choose "
            "a model that writes, fills in or judges; Explore shows its heads meanwhile."
        )
    if kind.fills and not scene.question.masked:
        return say("This model guesses what stands behind a mask: click a word above to mask it.")
    return None


def _experiment(scene: Scene) -> None:
    other, pair, what = _choices(scene)
    if other == scene.question.text:
        st.info(
            say(
                "Both sentences are the same now. Change a word of the other one: what the model "
                "makes of the two should differ."
            )
        )
        return
    found = _compared(scene, other, pair)
    _runs(scene, other, found)
    if abs(found.leads[0] - found.leads[1]) < 1e-3 and found.unit == LOGIT:
        st.info(
            say(
                "The score is equal in both runs, so there is no difference whose carrier could "
                "be looked for. Change the other sentence."
            )
        )
        return
    if abs(found.leads[0] - found.leads[1]) < 1e-3:
        st.info(
            say(
                "The pair is equally probable in both runs, so there is no difference whose "
                "carrier could be looked for. Name another pair, or change the other sentence."
            )
        )
        return
    asked = Asked(scene, what, other, found)
    if what == "patterns" and found.lone:
        raise ValueError(
            say(
                "Where heads look can be swapped only between sentences of as many tokens, and "
                "{words} has no counterpart here. Choose “What a head gives”, or another sentence.",
                words=_quoted(found.lone),
            )
        )
    _grids(asked)
    nat = () if found.unit == LOGIT else ("nat",)
    terms("swap", "head", "residual stream", *nat, "logit", "cross-attention")


def _choices(scene: Scene) -> tuple[str, tuple[str, ...] | None, str]:
    """Draw the controls; return the other sentence, the typed word pair or None, and the kind."""
    text = scene.question.text
    if private.swapped_about not in ("", text):  # the variant belongs to another sentence
        state.other = state.between = ""
    private.swapped_about = text
    other = state.other or variant(text, scene.kind.examples)
    widget_sync.show({OTHER: other, PAIR: state.between})
    with layout.row("bottom", gap="medium", key="swap-choices"):
        st.text_input(
            say("the other sentence"),
            key=OTHER,
            max_chars=TYPED,
            on_change=_typed,
            args=(OTHER, "other"),
            width=560,
        )
        st.text_input(
            say("pair of words"),
            key=PAIR,
            max_chars=80,
            on_change=_typed,
            args=(PAIR, "between"),
            placeholder=say("where the outputs part"),
            help=say("Two words with a comma between, of this output and of the other's."),
            width=220,
        )
    st.segmented_control(
        say("what is taken from the other run"),
        list(WHAT),
        key="swapped",
        format_func=lambda what: say(WHAT[what]),
        required=True,
    )
    words = [word.strip() for word in state.between.split(SEPARATOR)]
    if not state.between.strip():
        return other, None, state.swapped
    if len(words) == 1 and scene.kind.task in (MULTI_LABEL, REGRESSION):
        return other, (words[0],), state.swapped
    if len(words) != 2 or not all(words):
        raise ValueError(
            say(
                "The pair is two words with a comma between, such as “es, sie”; “{typed}” is none.",
                typed=state.between,
            )
        )
    return other, (words[0], words[1]), state.swapped


def variant(text: str, examples: Sequence[str] = ()) -> str:
    """Return a sentence that differs from a text by one word, or the text itself if none is known.

    Args:
        text: The source text.
        examples: The model's own example texts.
    """
    others = [example for example in examples if example != text]
    if text in examples and others:
        return " ".join((*text.split()[:-1], others[0].split()[-1]))
    return VARIANTS.get(text, text)


def _typed(widget: str, name: str) -> None:
    """Store a typed text (callback), unless the browser repeats an overwritten value."""
    text = " ".join(str(st.session_state[widget]).split())
    widget_sync.moved(widget, lambda: setattr(state, name, text))


def _compared(scene: Scene, other: str, pair: tuple[str, ...] | None) -> Compared:
    from ...inference.patching.output_words import SameOutputs

    question, produced = scene.question, scene.before.produced
    own = tuple(produced.ids) if scene.kind.translates and produced is not None else None
    texts = (question.text, other)
    words = (*(with_second(question, text) for text in texts), own, question.beam, pair)
    words = (*words, question.masked)
    try:
        found: Compared = run_with_progress(
            lambda task: scene.engine.ask(
                question.model, compared, *words, task=task, stepped=True
            ),
            key="swap-compared",
            label=say("Running both sentences ..."),
            about=words,
        )
    except SameOutputs as error:
        raise ValueError(
            say(
                "Both sentences have the same output. Name a pair of words, or change the other "
                "sentence."
            )
        ) from error
    return found


def _runs(scene: Scene, other: str, found: Compared) -> None:
    """Draw both clean runs: source, generated text, and the probabilities of the pair."""
    text, (own, theirs) = scene.question.text, found.outputs
    titles = (say("this sentence: 0"), say("the other one: 1"))
    read = (escape(text), changed_words(text, other))
    written = (escape(own), changed_words(own, theirs))
    for number, column in enumerate(st.columns(2)):
        with column.container(border=True, height="stretch", key=f"card-run-{number}"):
            layout.heading(escape(titles[number]), 3)
            st.html(_run(found, number, read[number], written[number] if own or theirs else ""))
    place = f"{found.before} ▢".strip()
    told = []
    if found.tagged:
        told.append(say("Asked about the class of “{word}”.", word=found.tagged))
    if scene.kind.gives == "spans":
        told.append(say("Asked where the answer starts."))
    if own or theirs:
        told.append(say("Asked at ▢ in “{text}”, which both runs hold.", text=place))
    if found.lone:
        told.append(
            say(
                "Without a counterpart in the other sentence, and so left as they are: {words}.",
                words=_quoted(found.lone),
            )
        )
    if scene.changes:
        told.append(say("Both runs are clean: the changes below are not in these numbers."))
    if told:
        layout.quiet(escape(" ".join(told)))


def _run(found: Compared, number: int, read: str, written: str) -> str:
    """Return a run as HTML: source, generated text, the pair's probabilities and lead."""
    pair = " · ".join(
        say("“{word}”", word=escape(word)) + f" {chance:.3f}"
        for word, chance in zip(found.words, found.chances[number], strict=True)
    )
    lead = say("lead of “{word}”: {nats:+.2f} nats", word=found.words[0], nats=found.leads[number])
    if len(found.words) == 1 or found.unit == LOGIT:
        unit = say("logits") if found.unit == LOGIT else say("nats")
        lead = say("measured: {value:+.3f} {unit}", value=found.leads[number], unit=unit)
    said = f'<p class="tv-say" data-what="writes-{number}">{written}</p>' if written else ""
    return (
        f'<p class="tv-quiet" data-what="reads-{number}">{read}</p>{said}'
        f'<p data-what="pair-{number}">{pair} · {escape(lead)}</p>'
    )


def _quoted(words: tuple[str, ...]) -> str:
    return join_words(say("“{word}”", word=word) for word in words)


def _grids(asked: Asked) -> None:
    """Draw each grid as soon as it is measured, then the strongest patches."""
    layout.quiet(
        escape(
            say(SAID[asked.what])
            + " "
            + say("Click a cell to keep its swap as a change: text and maps follow on all pages.")
        )
    )
    found: dict[str, Grid] = {}
    parts = sorted(asked.parts, key=lambda part: part != "cross")  # largest effects first
    places_of = len(asked.compared.source) + len(asked.compared.target or ())
    if asked.what == "stream" and places_of > MOST_PLACES:
        raise ValueError(
            say(
                "These sentences have {count} tokens, each with a place behind every layer; the "
                "page swaps places of at most {most}. Choose “What a head gives”, shorten them, or "
                "use transformer-viz swap.",
                count=places_of,
                most=MOST_PLACES,
            )
        )
    with st.container(key="pictures-swap"):
        stream = asked.what == "stream"
        places = [st.container() for _ in parts] if stream else st.columns(len(parts))
    for place, part in zip(places, parts, strict=True):
        with place.container(border=True, height="stretch", key=f"card-swap-{part}"):
            found[part] = swap_grids.grid(asked, part)
            swap_grids.picture(asked, part, found[part])
    with st.container(border=True, key="card-strongest"):
        swap_grids.strongest(asked, found)
        layout.quiet(
            escape(
                say(
                    "One swap at a time: what several parts carry together, or each carries for "
                    "the other, shows in none of them alone, and the numbers need not sum to 1."
                )
            )
        )
        _take(asked, found)


def _take(asked: Asked, found: dict[str, Grid]) -> None:
    """Draw all numbers, and a download with the card of the measurement."""
    panel = layout.unfolding(say("all numbers"), "swap-numbers")
    if panel is None:
        return
    numbers = swap_grids.table(asked, found)
    card = dict(next(iter(found.values())).card) | {"swaps": len(numbers)}
    with panel:
        st.dataframe(numbers, hide_index=True, key="swap-table", height=280)
        table_files(numbers, card, f"swap-{asked.what}")
