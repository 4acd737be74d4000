"""Scene of a page: the clean run, the changed one, and the selected head."""

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

HAND = 0.5  # seconds of rest after which a control counts as released
KEPT = mark("What the page shows is of the run before the change, but for the opened map.")


@dataclass(frozen=True, eq=False)
class Scene:
    """The clean run, the changed one (equal without edits), the selection and the view options.

    A scene holds everything that a view needs, so that views query nothing else.

    Attributes:
        awaited: True if the run with these changes is not made yet; ``now`` is an earlier run.
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
        """True if its maps exist as tiles only."""
        return tuple(self.now.manifest.get("keep", ())) == LONG

    @property
    def of_its_run(self) -> Scene:
        """Scene with the edits of the run it shows, for statements about that run."""
        return replace(self, changes=self.now.intervention, awaited=False) if self.awaited else self

    @property
    def most(self) -> float:
        """Largest weight of the head in both runs, so that both use one colour scale."""
        place = self.place
        both = (t.block(place.map_name, place.layer).weights for t in (self.before, self.now))
        return max(float(weights[place.head].max()) for weights in both) or 1.0

    @property
    def shown(self) -> tuple[Trace, Trace | None]:
        """Run to draw, and run to subtract from it."""
        compare = self.look.compare if self.changes else "now"
        return (
            self.before if compare == "before" else self.now,
            self.before if compare == "difference" else None,
        )

    def inside(self, row: int, task: Task | None = None) -> Walkthrough:
        """Return the chain of the selected head for one query token, in the current run.

        Raises:
            LookupError: The sentence has no such row; the message lists the rows.
            ValueError: A run refused; the message gives the reason.
            Abandoned: The task was abandoned.
        """
        site = Site(*MAPS[self.place.map_name], self.place.layer, self.place.head)
        run = self.question, self.before, self.changes
        return inside_of(self.engine, *run, site, row, task)

    def terms(self, chain: Walkthrough, number: Number, task: Task | None = None) -> Terms:
        """Return the sum behind one number of such a chain.

        Raises:
            LookupError: The number is no sum.
            Abandoned: The task was abandoned.
        """
        return terms_of(self.engine, self.question.model, chain, number, task)


def detail_request(place: Place, look: Look, long: bool = False) -> DetailRequest:
    """Return the request for data shown in full: the opened layer, and those of overlaid heads.

    Args:
        long: True if the page can show a text of more tokens than most pages accept.
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
    """Return the scene for given arguments. It reads no session, so any thread may call it.

    Args:
        long: As in `detail_request`.

    Raises:
        ValueError: The model cannot take the sentence or an edit; the message gives the reason.
        Abandoned: The task was abandoned.
    """
    detail = detail_request(place, seen, long)
    answer = engine.clean(question, detail, task)
    now = engine.changed(question, answer, changes, detail, task) if changes else answer.trace
    return Scene(engine, question, answer, now, place, changes, kind, seen)


def scene_of(
    engine: Engine, question: Question, kind: Kind, where: DeltaGenerator, long: bool = False
) -> Scene:
    """Return the scene of the session, after the runs it needs.

    The selection from the link is clamped to the model's layers and heads.

    Args:
        long: As in `detail_request`.
        where: Container that shows the progress.

    Raises:
        ValueError: The model cannot take the sentence or an edit; the message gives the reason.
        Stopped: The user stopped the run.
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
    answer = _clean(engine, question, detail, where)  # the link may have named another layer
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
    """Return the run with the edits of a scene.

    Raises:
        Stopped: The user stopped it.
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
    """Return the last run of a long text in this session if cached, else the clean run."""
    view = private.live and private.live.view
    if view is None or view.question != scene.question or view.now is None:
        return scene.before
    return view.now_run or scene.before


def follow(scene: Scene, where: DeltaGenerator) -> None:
    """Make the run that a page was drawn without, and draw the page again.

    A user who stops it keeps the page as it is. A further move of the control ends the run too.

    Raises:
        ValueError: The model cannot take an edit; the message gives the reason.
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
        except Abandoned:  # the control moves on; another page run follows when it rests
            time.sleep(HAND)
    # Kept until it is drawn, since the engine's cache may have evicted it by then.
    private.followed = (scene.question, scene.changes, detail), made
    rerun()


def _clean(
    engine: Engine, question: Question, detail: DetailRequest, where: DeltaGenerator
) -> Answer:
    """Return the clean run; the stored one needs no model."""
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
    """Return the message shown while the model of this session is loaded."""
    return say("Loading {model} ...", model=engine.shelf[st.session_state["model"]].called)


def _clamp_place(trace: Trace) -> None:
    """Clamp block, layer, head and stack to this model; report unusable values of a link."""
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
    """Remove masks at positions that do not exist, and report those of a link."""
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
