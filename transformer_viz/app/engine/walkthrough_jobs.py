"""Runs of the page Step inside: the chain of one head and row, and the sum of a number.

Torch is imported inside, when a run is made.
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
    """Return the chain of one head for one query token, under the changes.

    Args:
        before: The clean run, whose target tokens are held fixed.
        site: Site with a head.

    Raises:
        LookupError: The sentence has no such row; the message lists the rows.
        ValueError: A run refused; the message gives the reason.
        Abandoned: The task was abandoned.
    """
    model = engine.model(question.model, task)
    held: Held = ()
    if model.takes != "vectors":  # vectors are drawn again from the question's seed
        found = trace_jobs.held_of(model, question, before, changes)
        held = tuple((name, tuple(ids)) for name, ids in found.items())
    picture = engine.shelf[question.model].pictures.get(question.picture)
    words = (question, picture, held, changes.to_json(), site, row)
    chain: Walkthrough = engine.ask(question.model, stepped, *words, task=task)
    return chain


def terms_of(
    engine: Engine, model: str, chain: Walkthrough, number: Number, task: Task | None = None
) -> Terms:
    """Return the sum behind one number of a chain.

    Raises:
        LookupError: The number is no sum.
        Abandoned: The task was abandoned.
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
    """Run the model once and return the chain of one head and row."""
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
    """Return the sum behind one number, from the model's weights."""
    from ...walkthrough import terms

    return terms(model, chain, number)
