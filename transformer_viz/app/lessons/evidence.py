"""Runs behind a station's question; the engine caches them for all users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.interventions import Intervention
from ...core.sites import MAPS, Site
from ...core.trace import Trace
from ...i18n import say
from ...lessons import Hidden, NotHere, Saying, Seen, Spot, Station
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import Answer, DetailRequest, Question, whole_maps
from ..engine.task import Task
from ..engine.why_jobs import deleted

if TYPE_CHECKING:
    from ...checkpoints import Model

HIDDEN = 2  # source words hidden together
MOST_HIDDEN = 64  # tokens; each word of the sentence is hidden separately
ORDERS = 6  # seeds to try until the order really differs


def maps_of(kind: Kind) -> tuple[str, ...]:
    """Return the maps that a model of this kind has."""
    both = ("encoder", "decoder", "cross")
    return both if kind.stacks == ("encoder", "decoder") else kind.stacks


def serves(station: Station, kind: Kind) -> bool:
    """Return True if a model of this kind can show a station."""
    reads = kind.takes == "text" and kind.gives == "words"
    writes = kind.writes or not (station.sayings or "decoder" in station.maps[:1])
    writes = writes and (kind.translates or not station.translates)
    return reads and writes and station.map_name(maps_of(kind)) is not None


def spot_of(
    engine: Engine, question: Question, station: Station, kind: Kind, task: Task | None = None
) -> tuple[Spot, Answer]:
    """Return the station's site in this sentence, and the clean run that contains it.

    Raises:
        ValueError: This sentence or model has no such site.
        Abandoned: The task was abandoned.
    """
    block = station.map_name(maps_of(kind))
    question = replace(question, target="") if station.free else question
    if block is None:
        raise NotHere(say("This model has no such attention; choose one that translates."))
    answer = engine.clean(question, DetailRequest(()), task)
    answer = engine.clean(question, whole_maps(answer.trace, block), task)
    return station.find(answer.trace, block), answer


def seen_of(
    engine: Engine, question: Question, station: Station, kind: Kind, task: Task | None = None
) -> Seen:
    """Return all runs that a station's question needs, without access to the session.

    Raises:
        ValueError: The station cannot use this sentence or model.
        Abandoned: The task was abandoned.
    """
    spot, answer = spot_of(engine, question, station, kind, task)
    question = replace(question, target="") if station.free else question
    seen = Seen(question.text, spot, answer.trace)
    own = DetailRequest((_site(spot),))
    if station.vectors:
        run = engine.clean(question, replace(own, vectors=True), task).trace
        seen = replace(seen, vectors=run.block(spot.map_name, spot.layer))
    changed = [
        engine.changed(question, answer, edits, own, task) for edits in station.experiments(seen)
    ]
    seen = replace(seen, changed=tuple(changed))
    if station.hides is not None:
        seen = replace(seen, hidden=_hidden(engine, question, station, answer.trace, task))
    if station.ranked:
        seen = replace(seen, costs=_costs(engine, question, answer, kind, task))
    return _with_sayings(engine, question, station, seen, task) if station.sayings else seen


def _costs(
    engine: Engine, question: Question, answer: Answer, kind: Kind, task: Task | None
) -> dict[Site, float]:
    """Return the cost of removing each head on this sentence; empty if it cannot be measured."""
    target = answer.trace.target if kind.translates else None
    item = question.text if target is None else (question.text, tuple(target.ids))
    try:
        found: dict[Site, float] = engine.ask(question.model, removed, item, task=task, long=True)
    except ValueError:  # heads cannot be separated: the question omits the costs
        return {}
    return found


def removed(model: Model, item: str | tuple[str, tuple[int, ...]]) -> dict[Site, float]:
    """Return the cost of mean-ablating each head on one sentence, in nats per token."""
    from ...inference.ablation.ranking import rank

    table = rank(model, [item]).table
    return {
        Site(row.stack, row.block, int(row.layer), int(row.head)): float(row.effect)
        for row in table.itertuples()
    }


def _hidden(
    engine: Engine, question: Question, station: Station, trace: Trace, task: Task | None
) -> Hidden | None:
    """Return a token's losses when the source words that each method ranks first are hidden.

    The result is None if the sentence has too few words, or too many to hide each.
    """
    assert station.hides is not None
    target, produced = trace.target, trace.produced
    if target is None or produced is None or len(trace.source) > MOST_HIDDEN:
        return None
    row = station.hides(trace)
    words = (question.text, tuple(target.ids), row, ())
    try:
        table = engine.ask(question.model, deleted, *words, task=task, stepped=True).table
    except ValueError:
        return None
    count = min(HIDDEN, int(table["hidden"].max()))
    losses = table[table["hidden"] == count].set_index("method")["loss"]
    return Hidden(produced.labels[row], count, {str(n): float(x) for n, x in losses.items()})


def _with_sayings(
    engine: Engine, question: Question, station: Station, seen: Seen, task: Task | None
) -> Seen:
    """Return the runs with texts that the model generates, also from reordered tokens."""
    ids = _mixed(engine, question, seen.clean)
    if ids is None:
        return seen
    said = tuple(_said(engine, question, saying, ids, task) for saying in station.sayings)
    return replace(seen, said=said, mixed=engine.text_of(question.model, ids))


def _said(
    engine: Engine, question: Question, saying: Saying, ids: tuple[int, ...], task: Task | None
) -> str:
    edits: Intervention = saying.edits
    if saying.mixed:
        return engine.free_ids(question, ids, edits, task)
    return engine.free(question, edits, task)


def _mixed(engine: Engine, question: Question, clean: Trace) -> tuple[int, ...] | None:
    """Return the sentence's tokens in another order, or None if it has no other."""
    orders = (engine.reordered(question, seed) for seed in range(ORDERS))
    return next((ids for ids in orders if ids != clean.source.ids), None)


def _site(spot: Spot) -> Site:
    return Site(*MAPS[spot.map_name], spot.layer)
