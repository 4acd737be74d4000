"""Page Why this word: several attributions of one output token to the input."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from ... import views
from ...components import Picked
from ...core.numerics import LOGIT
from ...i18n import mark, numeral, say, spoken_language
from ...views.charts.curves import Curve
from ...views.html.word_answers import WordValues, direct_table, lens_table, word_answers
from ..cards import token_chips
from ..cards.dock import dock
from ..cards.downloads import table_files
from ..cards.plotly_chart import chart
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..engine.why_jobs import METHODS, OVER_WORDS, Answers, Deleted, Ids, Text, answers, deleted
from ..page_template import show
from ..render.outcome_html import class_names
from ..render.why_verdict import verdict
from ..session import notices, visit, widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import explained, run_with_progress
from ..ui.terms import terms
from ..ui.text_format import escape_markdown

QUESTION = mark("What had the input to do with this word?")
#: Question for models whose output is not text.
SCORES = {
    "classes": mark("What had the input to do with this score?"),
    "tags": mark("What had the input to do with this tag?"),
    "spans": mark("What had the input to do with this answer?"),
}
TITLES = {
    "weights": mark("Raw weights"),
    "rollout": mark("Rollout"),
    "contribution": mark("Contributions"),
    "gradient": mark("Gradient × attention"),
    "removal": mark("Removal"),
    "lens": mark("What each layer would have said (logit lens)"),
    "logits": mark("Who wrote the logit directly?"),
    "random": mark("by chance, mean of 20 orders"),
}
#: Number format and unit of each method.
UNITS = {
    "weights": ("{:.3f}", mark("of the row")),
    "rollout": ("{:.3f}", mark("of the row")),
    "contribution": ("{:.3f}", mark("of the row")),
    "gradient": ("{:.3f}", mark("(no unit)")),
    "removal": ("{:.2f}", mark("nats")),
}
LOGITS = mark("logits")
#: Choices for a model that marks an answer span.
ENDS = (mark("start of the answer"), mark("end of the answer"))
MOST_TOKENS = 256  # of source and target; each needs a run

#: Text or pair of texts, fixed target or class, index of the word, masked positions.
Asked = tuple[Text, Ids | int | None, int, Ids]


def draw(engine: Engine) -> None:
    """Draw the page Why this word."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    asked = _asked(scene)
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[-1], _lit(scene, asked), "column")
    written = token_chips.sentences(scene, rows, lambda chip: _pick(scene, chip))
    layout.heading(escape(say(SCORES.get(scene.kind.gives, QUESTION))))
    refused = _lacks(scene)
    if refused or asked is None:
        st.info(refused or say("This output has no word that could be asked about."))
    else:
        with explained():
            _explained(scene, asked)
    return written_freely(scene, written, dock(scene, live=False, comparing=False))


def _lacks(scene: Scene) -> str | None:
    """Return a reason if the model or text cannot be used, with an alternative; else None."""
    kind = scene.kind
    if kind.takes != "text" or kind.eyes:
        return say(
            "This page asks about the words of one text, and the model at hand reads something "
            "else. Choose a model that reads one text, such as en-de; tv.explain serves the others."
        )
    if kind.fills and not scene.question.masked:
        return say("This model guesses what stands behind a mask: click a word above to mask it.")
    tokens = len(scene.before.source) + len(scene.before.target or ())
    if tokens > MOST_TOKENS:
        return say(
            "This text and its output have {count} tokens, and each is hidden once; the page asks "
            "about at most {most}. Shorten the text, or use transformer-viz explain.",
            count=tokens,
            most=MOST_TOKENS,
        )
    return None


def _asked(scene: Scene) -> Asked | None:
    """Return the question of the session, with the chosen word clamped to the valid range."""
    kind, before = scene.kind, scene.before
    text: Text = scene.question.text
    masked = scene.question.masked
    if kind.pairs and scene.question.second:
        text = (scene.question.text, scene.question.second)
    if kind.gives == "classes":
        if state.chosen is not None:
            notices.clamp_index("chosen", len(class_names(scene)), mark("class"))
        return text, state.chosen, 0, ()
    if kind.gives == "spans":
        notices.clamp_index("answer", len(ENDS), mark("word"))
        return text, None, state.answer, ()
    if kind.fills:
        if not masked:
            return None
        if state.answer not in masked:
            state.answer = masked[0]
        return text, None, state.answer, masked
    rows = before.source if before.target is None else before.target
    if not len(rows):
        return None
    target = None if before.target is None else tuple(before.target.ids)
    notices.clamp_index("answer", len(rows), mark("word"))
    return text, target, state.answer, ()


def _lit(scene: Scene, asked: Asked | None) -> int:
    """Return the index of the chip to highlight (one after the word's row), or -1 for none."""
    if asked is None or scene.kind.gives in ("classes", "spans"):
        return -1
    return asked[2] if scene.kind.fills else asked[2] + 1


def _pick(scene: Scene, chip: Picked) -> None:
    """Choose the clicked output word (callback)."""
    if scene.kind.gives == "spans":
        return
    if scene.kind.fills:
        token_chips.toggle_mask(scene.before.source)(chip)
    elif scene.before.target is None or chip.side == "target":
        widget_sync.choose(answer=max(0, chip.token - 1))


def _explained(scene: Scene, asked: Asked) -> None:
    found = _answered(scene, asked)
    _choice(scene, asked, found)
    said = verdict(found)
    if said:
        st.html(said)
    st.html(word_answers([_column(found, method) for method in OVER_WORDS]))
    layout.quiet(
        escape(
            say(
                "Five questions, not five answers to one: where they differ, none is wrong. The "
                "deletion curve below is the judge they share. Each column has its own scale; "
                "marks such as the start are greyed."
            )
        )
    )
    _deletion(scene, asked)
    for method, made in (
        ("lens", lambda table: lens_table(table, found.word)),
        ("logits", direct_table),  # one column per head, so it needs the full width
    ):
        with st.container(border=True, key=f"card-why-{method}"):
            _below(found, method, made)
    _take(found)
    names = ("weight", "rollout", "contribution", "gradient x attention", "hidden word")
    terms(*names, *(() if found.unit == LOGIT else ("nat",)), "logit", "residual stream")


def _answered(scene: Scene, asked: Asked) -> Answers:
    language = spoken_language()  # the worker thread has no session
    found: Answers = run_with_progress(
        lambda task: scene.engine.ask(
            scene.question.model, answers, *asked, language, task=task, stepped=True
        ),
        key="why",
        label=say("Asking one method after the other ..."),
        about=(scene.question.model, asked),
    )
    return found


def _choice(scene: Scene, asked: Asked, found: Answers) -> None:
    """Draw the word in question with its probability, and a select box for another."""
    said = say("“{word}”", word=found.word)
    if found.probability is not None:
        said += " " + say("probability {share}", share=numeral(found.probability, ".1%"))
    elif found.value is not None:
        said += " " + say("score {score:.3f}", score=found.value)
    if scene.changes:
        said += " · " + say("of the clean run: changes have no part in it")
    with layout.row("center", gap="medium", key="why-word"):
        st.html(f'<p class="tv-say" data-what="why-word">{escape(said)}</p>', width="content")
        words = _words(scene)
        if len(words) > 1:
            notices.rewrite_widget("answer")
            st.selectbox(
                say("the word in question"),
                list(words),
                key="answer",
                format_func=words.__getitem__,
                label_visibility="collapsed",
                width=layout.NAME_WIDTH,
            )
        _choose_class(scene)
        _offer_least_sure(scene, asked)
    if not scene.kind.fills and scene.kind.gives not in ("classes", "spans"):
        layout.quiet(escape(say("Click a word of the output above, or choose it here.")))


def _choose_class(scene: Scene) -> None:
    """Draw a select box for another class, label or output."""
    names = class_names(scene)
    if scene.kind.gives != "classes" or len(names) < 2:
        return
    scored = scene.kind.unit == LOGIT
    st.selectbox(
        say("class"),
        range(len(names)),
        index=None,
        key="chosen",
        format_func=names.__getitem__,
        placeholder=names[0] if scored else say("the most probable"),
        label_visibility="collapsed",
        width=layout.NAME_WIDTH,
    )


def _offer_least_sure(scene: Scene, asked: Asked) -> None:
    """Draw a button that chooses the least probable word."""
    produced = scene.before.produced
    judged = scene.kind.gives in ("classes", "spans") or scene.kind.unit == LOGIT
    if scene.kind.fills or judged or produced is None:
        return
    least = int(produced.probability.argmin())
    if len(produced.labels) < 2 or least == asked[2]:
        return
    st.button(
        say("the least sure word: “{word}”", word=escape_markdown(produced.labels[least])),
        key="why-least-sure",
        on_click=widget_sync.choose,
        kwargs={"answer": least},
    )


def _words(scene: Scene) -> dict[int, str]:
    """Return the words that can be chosen, by index."""
    before = scene.before
    if scene.kind.gives == "classes":
        return {}
    if scene.kind.gives == "spans":
        return {n: say(end) for n, end in enumerate(ENDS)}
    if scene.kind.fills:
        return {n: before.source.labels[n] for n in scene.question.masked}
    rows = before.source if before.target is None else before.target
    labels = rows.labels if before.produced is None else before.produced.labels
    return dict(enumerate(labels))


def _column(found: Answers, method: str) -> WordValues:
    form, unit = UNITS[method]
    if method == "removal" and found.unit == LOGIT:
        form, unit = "{:.3f}", LOGITS
    one = found.found.get(method)
    if one is None:
        return WordValues(method, say(TITLES[method]), "", missing=found.refused[method])
    caption = one.caption + _complete(one.complete)
    return WordValues(method, say(TITLES[method]), caption, one.values, form, say(unit))


def _complete(error: float | None) -> str:
    if error is None:
        return ""
    return " " + say("Measured: the sum misses by {error}.", error=f"{max(error, 1e-9):.0e}")


def _below(found: Answers, method: str, made: Callable[[pd.DataFrame], str]) -> None:
    layout.heading(escape(say(TITLES[method])), 3)
    one = found.found.get(method)
    if one is None:
        layout.quiet(escape(found.refused[method]))
        return
    st.html(f'<div data-what="why-{method}">{made(one.values)}</div>')
    layout.quiet(escape(one.caption + _complete(one.complete)))


def _deletion(scene: Scene, asked: Asked) -> None:
    """Draw the deletion curve if its expander is open."""
    folded = st.expander(
        say("Who names the words that matter? The deletion curve"),
        key="why-deletion",
        on_change="rerun",
    )
    if not folded.open:
        return
    with folded, explained():
        found: Deleted = run_with_progress(
            lambda task: scene.engine.ask(
                scene.question.model, deleted, *asked, task=task, stepped=True
            ),
            key="why-deleted",
            label=say("Hiding words ..."),
            about=(scene.question.model, asked, "deleted"),
        )
        question = say(
            "What does the word lose when the words that a method names first are hidden?"
        )
        if (found.table["unit"] == LOGIT).all():
            question = say("What does the score lose when the words a method names are hidden?")
        chart("why-curve", question, lambda: _curve(found.table))
        table_files(found.table, found.card, "deletion")


def _curve(table: pd.DataFrame) -> Any:
    """Return a chart with one line per method, and chance with the band of its orders."""
    lines = []
    for method, part in table.groupby("method", sort=False):
        if method == "random":
            continue
        lines.append(Curve(say(TITLES[str(method)]), part["hidden"], part["loss"]))
    chance = table[table["method"] == "random"]
    for column, name in (
        ("loss", say(TITLES["random"])),
        ("low", say("chance, 2.5 %")),
        ("high", say("chance, 97.5 %")),
    ):
        lines.append(Curve(name, chance["hidden"], chance[column], dashed=True))
    return views.curves(
        lines,
        say("source words hidden"),
        say("score that is lost, logits")
        if (table["unit"] == LOGIT).all()
        else say("nats that the word loses"),
        say(
            "Higher sooner is better. Removal was measured with these very runs, so with one word "
            "hidden no other can be above it."
        ),
        dark=visit.dark(),
    )


def _take(found: Answers) -> None:
    """Draw all numbers, and a download with the card of the measurement."""
    panel = layout.unfolding(say("all numbers"), "why-numbers")
    if panel is None:
        return
    parts = [
        one.values.assign(method=method) for method in METHODS if (one := found.found.get(method))
    ]
    numbers = pd.concat(parts, ignore_index=True)
    numbers = numbers[["method", *(name for name in numbers.columns if name != "method")]]
    card = dict(next(iter(found.found.values())).card)
    card |= {"method": list(found.found), "word": found.word}
    with panel:
        st.dataframe(numbers, hide_index=True, key="why-table", height=280)
        table_files(numbers, card, "why")
