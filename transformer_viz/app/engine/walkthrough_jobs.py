"""The runs behind Step inside: what is on the screen becomes one chain, and the sum of a number.

Torch is imported inside, when a run is really made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...core.interventions import Intervention
from ...core.sites import Site
from ...core.stages import Number, Terms, Walkthrough
from . import trace_jobs
from .query import Question
from .task import Task

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...core.trace import Trace
    from .engine import Engine

Held = tuple[tuple[str, tuple[int, ...]], ...]


def inside_of(
    engine: Engine,
    question: Question,
    before: Trace,
    changes: Intervention,
    site: Site,
    row: int,
    task: Task | None = None,
) -> Walkthrough:
    """The chain of one head for one query word, under the changes.

    Args:
        before: the clean run, to whose target words the chain is held.
        site: names a head.

    Raises:
        LookupError: a row that the sentence does not have; names those there are.
        ValueError: what a run refuses; says why.
        Abandoned: the task was given up.
    """
    model = engine.model(question.model, task)
    held: Held = ()
    if model.takes != "vectors":  # those are drawn again, from the question's seed
        found = trace_jobs.held_of(model, question, before, changes)
        held = tuple((name, tuple(ids)) for name, ids in found.items())
    picture = engine.shelf[question.model].pictures.get(question.picture)
    words = (question, picture, held, changes.to_json(), site, row)
    chain: Walkthrough = engine.ask(question.model, stepped, *words, task=task)
    return chain


def terms_of(
    engine: Engine, model: str, chain: Walkthrough, number: Number, task: Task | None = None
) -> Terms:
    """The sum behind one number of a chain.

    Raises:
        LookupError: a number that is no sum; says so.
        Abandoned: the task was given up.
    """
    opened: Terms = engine.ask(model, summed, chain, number, task=task)
    return opened


def stepped(
    model: Model,
    question: Question,
    picture: Path | None,
    held: Held,
    changes: str,
    site: Site,
    row: int,
) -> Walkthrough:
    """One run, and the chain of one head and row in it."""
    from ...walkthrough import step_inside

    intervention = Intervention.from_json(changes)
    options = dict(held) or trace_jobs.held_of(model, question, None, intervention)
    return step_inside(
        model,
        trace_jobs.source_of(model, question, picture),
        options.pop("target", None),
        site=site,
        row=row,
        intervention=intervention,
        **options,
    )


def summed(model: Model, chain: Walkthrough, number: Number) -> Terms:
    """The sum behind one number, from the model's weights."""
    from ...walkthrough import terms

    return terms(model, chain, number)
