"""The runs behind Step inside: what is on the screen becomes one chain, and the sum of a number.

Torch is imported inside, when a run is really made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..core.interventions import Intervention
from ..core.sites import MAPS, Site
from ..core.stages import Inside, Number, Terms
from . import runs
from .question import Question
from .scene import Scene
from .task import Task

if TYPE_CHECKING:
    from ..checkpoints import Model

Held = tuple[tuple[str, tuple[int, ...]], ...]


def inside_of(scene: Scene, row: int, task: Task | None = None) -> Inside:
    """The chain of the chosen head for one query word, in the run that the screen shows now.

    The target is held as in that run, so weights and scores are those of ``scene.now``.

    Raises:
        LookupError: a row that the sentence does not have; names those there are.
        ValueError: what a run refuses; says why.
        Abandoned: the task was given up.
    """
    engine, question, place = scene.engine, scene.question, scene.place
    model = engine.model(question.model, task)
    held: Held = ()
    if model.takes != "vectors":  # those are drawn again, from the question's seed
        found = runs.held_of(model, question, scene.before, scene.changes)
        held = tuple((name, tuple(ids)) for name, ids in found.items())
    site = Site(*MAPS[place.block], place.layer, place.head)
    picture = engine.shelf[question.model].pictures.get(question.picture)
    words = (question, picture, held, scene.changes.to_json(), site, row)
    chain: Inside = engine.ask(question.model, stepped, *words, task=task)
    return chain


def terms_of(scene: Scene, chain: Inside, number: Number, task: Task | None = None) -> Terms:
    """The sum behind one number of a chain.

    Raises:
        LookupError: a number that is no sum; says so.
        Abandoned: the task was given up.
    """
    opened: Terms = scene.engine.ask(scene.question.model, summed, chain, number, task=task)
    return opened


def stepped(
    model: Model,
    question: Question,
    picture: Path | None,
    held: Held,
    changes: str,
    site: Site,
    row: int,
) -> Inside:
    """One run, and the chain of one head and row in it."""
    from ..inside import step_inside

    intervention = Intervention.from_json(changes)
    words = dict(held) or runs.held_of(model, question, None, intervention)
    return step_inside(
        model,
        runs.source_of(model, question, picture),
        words.pop("target", None),
        site=site,
        row=row,
        intervention=intervention,
        **words,
    )


def summed(model: Model, chain: Inside, number: Number) -> Terms:
    """The sum behind one number, from the model's weights."""
    from ..inside import terms

    return terms(model, chain, number)
