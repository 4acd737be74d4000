"""Surprisal of fixed tokens, and generated texts, under many edits: one small cached run each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...core.interventions import Intervention
from ...core.numerics import LOGIT
from ...i18n import say
from ...metrics.output.surprisal import held_bits
from ..engine import trace_jobs
from ..engine.query import Question
from ..engine.task import Task
from ..session.scene import Scene
from ..ui.progress import run_with_progress
from .bench import Bench

if TYPE_CHECKING:
    from ...checkpoints import Model

T = TypeVar("T")
Held = tuple[tuple[str, tuple[int, ...]], ...]


def wordless(scene: Scene) -> str | None:
    """Return a reason if the model has no probabilities of tokens or classes, else None."""
    if scene.before.produced is not None and scene.kind.unit == LOGIT:
        return say("This model gives a score, which has no probability that could become less.")
    if scene.before.produced is not None:
        return None
    return say(
        "This model gives no words and no classes, so nothing here can become less probable."
    )


def speechless(scene: Scene) -> str | None:
    """Return a reason if the model cannot generate text, or reads audio; else None."""
    if scene.kind.writes and scene.kind.takes == "audio":
        return say("This lab runs a text again and again, and this model hears; choose en-de.")
    if scene.kind.writes:
        return None
    return say(
        "This lab needs a model that writes one word after the other, and this one does not; "
        "choose en-de or en-lm."
    )


def costs(bench: Bench, changes: Sequence[Intervention], says: str) -> list[np.ndarray]:
    """Return the bits of each fixed token under each edit, ``[row]`` float64; see `held_bits`.

    Args:
        bench: Bench of the lab.
        changes: The edits of each run.
        says: Label of the progress bar.
    """
    scene = bench.scene
    picture = scene.engine.shelf[scene.question.model].pictures.get(scene.question.picture)

    def one(edits: Intervention, task: Task) -> np.ndarray:
        model = scene.engine.model(scene.question.model, task)
        held = trace_jobs.held_of(model, scene.question, scene.before, edits)
        words = (scene.question, picture, _packed(held), edits.to_json())
        found: np.ndarray = scene.engine.ask(scene.question.model, _bits, *words, task=task)
        return found

    return _each(bench, changes, one, "costs", says)


def texts(bench: Bench, changes: Sequence[Intervention], says: str) -> list[str]:
    """Return the text that the model generates under each edit."""
    scene = bench.scene

    def one(edits: Intervention, task: Task) -> str:
        return scene.engine.free(scene.question, edits, task)

    return _each(bench, changes, one, "texts", says)


def _each(
    bench: Bench,
    changes: Sequence[Intervention],
    one: Callable[[Intervention, Task], T],
    name: str,
    says: str,
) -> list[T]:
    """Return the results of ``one`` for each edit, in order, with a progress bar."""

    def work(task: Task) -> list[T]:
        found = []
        for number, edits in enumerate(changes):
            task.step(number, len(changes))
            found.append(one(edits, task))
        return found

    about = (bench.scene.question, tuple(edits.to_json() for edits in changes))
    return run_with_progress(
        work, key=f"lab-{bench.lab}-{name}", label=says, about=about, where=bench.where
    )


def shown(text: str) -> str:
    """Return a generated text, or a placeholder if it is empty."""
    return text or say("(no word, only marks)")


def _packed(held: trace_jobs.Held) -> Held:
    return tuple((name, tuple(int(i) for i in ids)) for name, ids in sorted(held.items()))


def _bits(
    model: Model, question: Question, picture: Path | None, held: Held, edits: str
) -> np.ndarray:
    """Return the tokens' bits of one teacher-forced pass under edits; discard the rest."""
    words = {name: list(ids) for name, ids in held}
    changes = Intervention.from_json(edits)
    found = held_bits(trace_jobs.traced(model, question, picture, words, changes, (), ()))
    found.setflags(write=False)
    return found
