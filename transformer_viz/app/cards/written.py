"""What the model writes, before and after a change, in lines that stand above the pictures."""

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
LONG = 150  # letters; what is longer needs more than a line


def written(scene: Scene) -> DeltaGenerator:
    """The lines as they are known at once; gives the place that `written_freely` fills in."""
    lines = _sentences(scene)
    return st.html(lines) if lines else st.empty()


def written_freely(
    scene: Scene, place: DeltaGenerator, waiting: DeltaGenerator
) -> Callable[[], None] | None:
    """What fills in what the model writes when nobody holds its words; None where that is known.

    It takes as long as the model writes, so a page does it when all else stands.
    """
    if not scene.kind.writes:
        return None
    return lambda: _follow_up(scene, place, waiting)


def _follow_up(scene: Scene, place: DeltaGenerator, waiting: DeltaGenerator) -> None:
    """The sentence of the changed model when nobody holds its words, put where it belongs."""
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
    place.html(_sentences(scene, before, after))  # in its place, so that nothing moves


def _nothing() -> str:
    return f" <i>{say(NOTHING)}</i>"


def _instead(before: str, words: str) -> tuple[str, str]:
    """What is shown where a sentence was to come: of both, if not even the first one came."""
    return words if before == "…" else before, f"<i>{escape(words)}</i>"


def freely(scene: Scene, changes: Intervention, where: DeltaGenerator) -> str:
    """What the model says under these changes when nobody holds its words."""
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
    """The lines as HTML: what is held and what is said, before and after the change.

    Dots stand for what is still being written. ``after`` is HTML, its new words marked.
    """
    said = lead(scene) if not scene.kind.translates else ""
    first = f'<p{model_words(scene.engine)} class="tv-lead">{said}</p>' if said else ""
    lines = _lines(scene, before, after) if scene.kind.writes else ""
    return first + lines + _unsure(scene)


def model_words(engine: Engine) -> str:
    """Attributes of an element with words of the model: not to be translated, their language."""
    return f' translate="no" lang="{escape(visit.word_languages(engine)[1])}"'


def _unsure(scene: Scene) -> str:
    """A line where the model's own words are less probable than those for everyday sentences."""
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
