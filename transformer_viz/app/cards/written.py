"""Output of the model, before and after a change, in lines above the pictures."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.interventions import Intervention
from ...i18n import mark, say
from ...metrics.output.surprisal import certainty
from ..engine.engine import Engine
from ..render.headline import lead
from ..session import visit
from ..session.scene import Scene
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import changed_words, ending, spoken

NOTHING = mark("nothing: the model ends at once")
RUNS = {
    "held": mark("held"),
    "now": mark("now"),
    "before": mark("before"),
    "after": mark("after"),
}
LONG = 150  # letters; longer texts need several lines


def written(scene: Scene) -> DeltaGenerator:
    """Draw the lines known so far; return the container that `written_freely` fills."""
    lines = _sentences(scene)
    return st.html(lines) if lines else st.empty()


def written_freely(
    scene: Scene, place: DeltaGenerator, waiting: DeltaGenerator
) -> Callable[[], None] | None:
    """Return a function that decodes freely and fills in the output; None if not needed.

    It takes as long as the model writes, so a page calls it after everything else.
    """
    if not scene.kind.writes:
        return None
    return lambda: _follow_up(scene, place, waiting)


def _follow_up(scene: Scene, place: DeltaGenerator, waiting: DeltaGenerator) -> None:
    """Decode freely with the changed model, and fill in the result."""
    continues = scene.kind.continues
    if not (scene.changes or scene.question.target or continues):
        return
    before, after = scene.answer.text, "…"
    try:
        if scene.question.target or continues:
            before = "…"
            before = freely(scene, Intervention(), waiting)
        if scene.changes:
            said = freely(scene, scene.changes, waiting)
            gap = " " if continues and said != said.lstrip() else ""
            after = gap + changed_words(before, said) if said else _nothing()
    except Stopped:
        before, after = _instead(before, say("stopped"))
    except (ValueError, LookupError) as error:
        before, after = _instead(before, spoken(error))
    place.html(_sentences(scene, before, after))  # in its container, so that nothing moves


def _nothing() -> str:
    return f" <i>{say(NOTHING)}</i>"


def _instead(before: str, words: str) -> tuple[str, str]:
    """Return replacements for missing sentences; for both if the first one is missing too."""
    return words if before == "…" else before, f"<i>{escape(words)}</i>"


def freely(scene: Scene, changes: Intervention, where: DeltaGenerator) -> str:
    """Decode freely with these changes, and return the text."""
    return run_with_progress(
        lambda task: scene.engine.free(scene.question, changes, task),
        key="free-changed" if changes else "free-clean",
        label=say("Going on with the text ...")
        if scene.kind.continues
        else say("Writing freely ...")
        if scene.kind.takes == "audio"
        else say("Translating freely ..."),
        about=(scene.question, changes.to_json()),
        where=where,
    )


def _sentences(scene: Scene, before: str = "…", after: str = "…") -> str:
    """Return the lines as HTML: target and output, before and after the change.

    Dots mark unfinished output. ``after`` is HTML, with its new words marked.
    """
    said = lead(scene) if not scene.kind.translates else ""
    first = f'<p{model_words(scene.engine)} class="tv-lead">{said}</p>' if said else ""
    lines = _lines(scene, before, after) if scene.kind.writes else ""
    return first + lines + _unsure(scene)


def model_words(engine: Engine) -> str:
    """Return attributes of an element with model output: its language, and no translation."""
    return f' translate="no" lang="{escape(visit.word_languages(engine)[1])}"'


def _unsure(scene: Scene) -> str:
    """Return a warning if the output is less probable than for everyday sentences."""
    shelved = scene.engine.shelf.get(scene.question.model)
    limit = None if shelved is None else shelved.config.get("sure_from")
    produced = scene.before.produced
    if not isinstance(limit, float) or produced is None or scene.question.target:
        return ""
    sure = certainty(produced.probability)
    if sure >= limit:
        return ""
    told = say(
        "The model is not sure of this: its pieces had a probability of {sure:.0%} "
        "(geometric mean). For 95 of 100 everyday sentences it is {limit:.0%} or more. "
        "It may not know these words.",
        sure=sure,
        limit=limit,
    )
    return f'<p class="tv-unsure" role="note">{escape(told)}</p>'


def _lines(scene: Scene, before: str, after: str) -> str:
    held, changed = bool(scene.question.target), bool(scene.changes)
    if not (held or scene.kind.continues):
        before = scene.answer.text
    said = escape(before) or _nothing()
    lines = [
        ("held", escape(scene.answer.text), held),
        ("now", said, not changed),
        ("before", said, changed),
        ("after", after, changed),
    ]
    whose = model_words(scene.engine)
    start = f'<span{whose} class="tv-start">{escape(ending(scene.question.text))}</span>'
    start = start if scene.kind.continues else ""
    answer = ' data-what="translation"' if scene.kind.translates else ""
    answers = {"held"} if held else {"now", "before"}
    spans = "".join(
        f'<span class="tv-quiet">{say(RUNS[name])}</span>'
        f"<span{answer if name in answers else ''}>{start}"
        f'<span{whose} data-what="{name}">{text}</span></span>'
        for name, text, shown in lines
        if shown
    )
    long = " tv-long" if max(len(before), len(scene.answer.text)) > LONG else ""
    room = " tv-held" if held else ""
    return f'<div class="tv-sentence tv-written{long}{room}">{spans}</div>'
