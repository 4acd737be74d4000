"""What is on the screen: the clean run, the changed one, and the selected head."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.editing.edit_controls import Place
from ...core.interventions import Intervention
from ...core.sites import MAPS, Site, called
from ...core.stages import Number, Terms, Walkthrough
from ...core.trace import Trace
from ...i18n import join_words, mark, say
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import Answer, DetailRequest, Question, whole_layer
from ..engine.task import Abandoned, Task
from ..engine.trace_jobs import LONG
from ..engine.walkthrough_jobs import inside_of, terms_of
from ..ui import layout
from ..ui.progress import Stopped, rerun, run_with_progress
from . import changes, notices, view_options
from .keys import private
from .url_state import DEFAULTS
from .view_options import Look

HAND = 0.5  # seconds after which a hand that moved on and came back has rested
KEPT = mark("What the page shows is of the run before the change, but for the opened map.")


@dataclass(frozen=True, eq=False)
class Scene:
    """What is on the screen: the clean run, the changed one (the same while nothing is), where,
    and how it looks. All that a picture needs, so that pictures ask nobody else.

    ``awaited``: the run with these changes is not made yet, and ``now`` is the one before them.
    """

    engine: Engine
    question: Question
    answer: Answer
    now: Trace
    place: Place
    changes: Intervention
    kind: Kind
    look: Look
    awaited: bool = False

    @property
    def before(self) -> Trace:
        return self.answer.trace

    @property
    def is_long(self) -> bool:
        """Whether there are only tiles of its maps."""
        return tuple(self.now.manifest.get("keep", ())) == LONG

    @property
    def of_its_run(self) -> Scene:
        """The scene with the changes that its run was made with: what may be said of that."""
        return replace(self, changes=self.now.intervention, awaited=False) if self.awaited else self

    @property
    def most(self) -> float:
        """The head's largest weight in both runs, so that both are coloured alike."""
        place = self.place
        both = (t.block(place.map_name, place.layer).weights for t in (self.before, self.now))
        return max(float(weights[place.head].max()) for weights in both) or 1.0

    @property
    def shown(self) -> tuple[Trace, Trace | None]:
        """The run to draw, and the one to subtract from it."""
        compare = self.look.compare if self.changes else "now"
        return (
            self.before if compare == "before" else self.now,
            self.before if compare == "difference" else None,
        )

    def inside(self, row: int, task: Task | None = None) -> Walkthrough:
        """The chain of the selected head for one query word, in the run that is shown now.

        Raises:
            LookupError: a row that the sentence does not have; names those there are.
            ValueError: what a run refuses; says why.
            Abandoned: the task was given up.
        """
        site = Site(*MAPS[self.place.map_name], self.place.layer, self.place.head)
        run = self.question, self.before, self.changes
        return inside_of(self.engine, *run, site, row, task)

    def terms(self, chain: Walkthrough, number: Number, task: Task | None = None) -> Terms:
        """The sum behind one number of such a chain.

        Raises:
            LookupError: a number that is no sum; says so.
            Abandoned: the task was given up.
        """
        return terms_of(self.engine, self.question.model, chain, number, task)


def detail_request(place: Place, look: Look, long: bool = False) -> DetailRequest:
    """What of a run the pictures show in full: the opened layer, and those of overlaid heads.

    ``long``: the page can show a text of more tokens than most pages take.
    """
    layers = (place.layer, *(layer for layer, _ in look.overlay if look.view == "lines"))
    sites = tuple(whole_layer(place.map_name, layer).sites[0] for layer in dict.fromkeys(layers))
    return DetailRequest(sites, look.view == "qk", long)


def scene_at(
    engine: Engine,
    question: Question,
    kind: Kind,
    place: Place,
    changes: Intervention,
    seen: Look,
    task: Task | None = None,
    *,
    long: bool = False,
) -> Scene:
    """The scene of a visitor who looks at this; asks nothing of the visit, so any thread may.

    ``long`` is that of `detail_request`.

    Raises:
        ValueError: a sentence or an edit that the model cannot take; says why.
        Abandoned: the task was given up.
    """
    detail = detail_request(place, seen, long)
    answer = engine.clean(question, detail, task)
    now = engine.changed(question, answer, changes, detail, task) if changes else answer.trace
    return Scene(engine, question, answer, now, place, changes, kind, seen)


def scene_of(
    engine: Engine, question: Question, kind: Kind, where: DeltaGenerator, long: bool = False
) -> Scene:
    """Run what has to be run. The selection from the link is fitted to what the model has.

    Args:
        long: that of `detail_request`.
        where: a container that shows how far it is.

    Raises:
        ValueError: a sentence or an edit that the model cannot take; says why.
        Stopped: the visitor stopped the run.
    """
    detail = detail_request(changes.place(), view_options.look(), long)
    answer = _clean(engine, question, detail, where)
    _clamp_place(answer.trace)
    question = _clamp_masks(answer.trace, question)
    changes.drop_misfits(answer.trace, kind)
    place, edits = changes.place(), changes.intervention()
    view_options.clamp_view_options(answer.trace, place.map_name, replace(question, masked=()))
    seen = view_options.look()
    detail = detail_request(place, seen, long)
    answer = _clean(engine, question, detail, where)  # the link may have named another one
    made = Scene(engine, question, answer, answer.trace, place, edits, kind, seen)
    if not edits:
        return made
    followed, private.followed = private.followed, None
    if followed is not None and followed[0] == (question, edits, detail):
        return replace(made, now=followed[1])
    if made.is_long and not engine.has_changed(question, edits, detail):
        return replace(made, now=_last_run(made), awaited=True)
    return replace(made, now=_changed(made, where))


def _changed(scene: Scene, where: DeltaGenerator) -> Trace:
    """The run with the changes of a scene.

    Raises:
        Stopped: the visitor stopped it.
    """
    engine, question, answer, edits = scene.engine, scene.question, scene.answer, scene.changes
    detail = detail_request(scene.place, scene.look, scene.is_long)
    live = private.live

    def work(task: Task) -> Trace:
        if scene.awaited:
            live.following = task
        return engine.changed(question, answer, edits, detail, task)

    return run_with_progress(
        work,
        key="changed",
        label=say("Running the changed model ..."),
        about=(question, edits.to_json()),
        where=where,
    )


def _last_run(scene: Scene) -> Trace:
    """What this visit saw last of a long text, as long as the engine keeps it; else the clean
    run."""
    view = private.live and private.live.view
    if view is None or view.question != scene.question or view.now is None:
        return scene.before
    return view.now_run or scene.before


def follow(scene: Scene, where: DeltaGenerator) -> None:
    """Make the run that a page was drawn without, and draw the page again; a visitor who stops it
    keeps the page as it is, and reads what it shows. A hand that moves on ends it too.

    Raises:
        ValueError: an edit that the model cannot take; says why.
    """
    detail = detail_request(scene.place, scene.look, scene.is_long)
    made = None
    while made is None:
        try:
            made = _changed(scene, where)
        except Stopped:
            with where:
                layout.quiet(say(KEPT))
            return
        except Abandoned:  # the hand moves on; the page ends here when it rests elsewhere
            time.sleep(HAND)
    # Held until it is drawn: others may have put it out of the engine's memory by then.
    private.followed = (scene.question, scene.changes, detail), made
    rerun()


def _clean(
    engine: Engine, question: Question, detail: DetailRequest, where: DeltaGenerator
) -> Answer:
    """The clean run; the stored one answers without a model."""
    stored = engine.example(question, detail)
    if stored is not None:
        return stored
    return run_with_progress(
        lambda task: engine.clean(question, detail, task),
        key="clean-run",
        label=say("Running the model ...") if engine.ready(question.model) else loading(engine),
        about=question,
        where=where,
    )


def loading(engine: Engine) -> str:
    """What is said while the model of this visit is being loaded."""
    return say("Loading {model} ...", model=engine.shelf[st.session_state["model"]].called)


def _clamp_place(trace: Trace) -> None:
    """Bring block, layer, head and stack to what this model has; what a link named is told."""
    state = st.session_state
    private.maps = trace.maps
    if state["block"] not in trace.maps:
        if state["block"] != DEFAULTS["block"]:
            notices.about_link(
                say(
                    "This model has no {block} attention; it has {blocks}.",
                    block=called(state["block"]),
                    blocks=join_words(map(called, trace.maps)),
                )
            )
        state["block"] = trace.maps[-1]
    stacks = tuple(dict.fromkeys(MAPS[name][0] for name in trace.maps))
    if state["stack"] not in stacks:
        state["stack"] = stacks[0]
    if len(stacks) == 1:
        state["reach"] = "both"
    layers, heads = trace.thumbnail(state["block"]).shape[:2]
    notices.clamp_index("layer", layers, mark("layer"))
    notices.clamp_index("head", heads, mark("head"))


def _clamp_masks(trace: Trace, question: Question) -> Question:
    """Masks are at tokens that there are; a link may have named others."""
    kept = tuple(place for place in question.masked if place < len(trace.source))
    if kept == question.masked:
        return question
    notices.about_link(
        say(
            "In the link, masked names token {token}; there are 0 to {last}.",
            token=question.masked[len(kept)],
            last=len(trace.source) - 1,
        )
    )
    st.session_state["masked"] = kept
    return replace(question, masked=kept)
