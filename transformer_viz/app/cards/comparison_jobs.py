"""Jobs of the page Compare: two sides, each a question with edits, and their difference.

Plain functions of an engine, which import torch when they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ref

from ...core.interventions import Intervention
from ...core.trace import Trace
from ...i18n import say, spoken_language
from ..engine import trace_jobs
from ..engine.engine import Engine
from ..engine.query import DetailRequest, Question
from ..engine.task import Task

if TYPE_CHECKING:
    from pathlib import Path

    from ...checkpoints import Model
    from ...metrics.comparison.comparing import Comparison

CLEAN = Intervention().to_json()
MOST = 128  # tokens of a side: all heads are compared with all
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Side:
    """Side of a comparison: a question to a model, and the edits of its run as JSON."""

    question: Question
    edits: str = CLEAN


@dataclass(frozen=True)
class Asked:
    """Two sides; the target tokens are those of ``a`` or ``b``, or each side's ``own``."""

    a: Side
    b: Side
    holds: str = "a"
    view: str = "raw"


def compared(engine: Engine, asked: Asked, task: Task) -> Comparison:
    """Run both sides and compare their heads; the result is cached.

    Raises:
        ValueError: An input that a model rejects, sides without common parts, or a text that is too
            long.
        Abandoned: The task was cancelled.
    """
    models = [engine.model(side.question.model, task) for side in (asked.a, asked.b)]
    key = ("compared", *map(ref, models), asked, spoken_language())
    found: Comparison = engine.cache.get(key, lambda: _compared(engine, asked, models, task), task)
    return found


def _compared(engine: Engine, asked: Asked, models: list[Model], task: Task) -> Comparison:
    from ...metrics.comparison.comparing import compared as compare

    sides = {"a": asked.a, "b": asked.b}
    order = ("b", "a") if asked.holds == "b" else ("a", "b")
    ready = dict(zip(("a", "b"), models, strict=True))
    first = _run(engine, sides[order[0]], _own(engine, sides[order[0]], task), task)
    task.step(1, 3)
    held = _held(ready[order[0]], ready[order[1]], first)
    if asked.holds == "own":
        held = _own(engine, sides["b"], task)
    second = _run(engine, sides[order[1]], held, task)
    task.step(2, 3)
    runs = dict(zip(order, (first, second), strict=True))
    return compare([(runs["a"], runs["b"])], asked.view)


def _own(engine: Engine, side: Side, task: Task) -> Ids | None:
    """Return the ids of the model's output without edits, as its decoder reads them."""
    clean = engine.clean(side.question, DetailRequest(()), task).trace
    _refuse_long(clean)
    return None if clean.target is None else clean.target.ids or None


def _refuse_long(run: Trace) -> None:
    longest = max(len(run.source), len(run.target or ()))
    if longest > MOST:
        raise ValueError(
            say(
                "This text has {count:,} tokens, and this page compares all heads with all on at "
                "most {most}. Shorten it, or use transformer-viz compare.",
                count=longest,
                most=MOST,
            )
        )


def _held(ours: Model, theirs: Model, run: Trace) -> Ids | str | None:
    from ...inference.comparison.sides import held

    found = held(ours, theirs, run)
    return found if found is None or isinstance(found, str) else tuple(found)


def _run(engine: Engine, side: Side, held: Ids | str | None, task: Task) -> Trace:
    question = side.question
    picture = engine.shelf[question.model].pictures.get(question.picture)
    words = (question, picture, held, side.edits)
    found: Trace = engine.ask(question.model, watched_whole, *words, task=task)
    return found


def watched_whole(
    model: Model, question: Question, picture: Path | None, held: Ids | str | None, edits: str
) -> Trace:
    """Run the model once and keep all its maps."""
    words = trace_jobs.held_of(model, question, None, Intervention())
    if held is not None:
        words = words | {"target": held if isinstance(held, str) else list(held)}
    changes = Intervention.from_json(edits)
    return trace_jobs.traced(model, question, picture, words, changes, None, ("weights", "scores"))
