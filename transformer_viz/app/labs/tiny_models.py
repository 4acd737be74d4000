"""Tiny models for comparison: one recipe, with one choice changed in each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...core.interventions import Intervention
from ...core.trace import Trace
from ...i18n import say
from ..session.scene import Scene
from . import jobs
from .bench import Bench

LABS = "labs/"


@dataclass(frozen=True, eq=False)
class Tiny:
    """A tiny model and its run on the scene's sentence.

    Attributes:
        name: Name of the model.
        parameters: Number of parameters.
        bleus: BLEU of this model and of trainings with other seeds, from its config.json; empty if
            not measured.
        text: Its greedy translation.
        trace: The run on that translation.
    """

    name: str
    parameters: int
    bleus: tuple[float, ...]
    text: str
    trace: Trace

    @property
    def bleu(self) -> float | None:
        """Mean BLEU over the trainings, or None."""
        return sum(self.bleus) / len(self.bleus) if self.bleus else None

    @property
    def score(self) -> str:
        """Mean BLEU as text, with the range of several trainings; empty if not measured."""
        if not self.bleus:
            return ""
        spread = f" ({min(self.bleus):.1f}–{max(self.bleus):.1f})" if len(self.bleus) > 1 else ""
        return f"{self.bleu:.1f}{spread}"


def trainings(models: Iterable[Tiny | None]) -> int:
    """Return the smallest number of measured trainings among the models that are present."""
    return min((len(model.bleus) for model in models if model), default=0)


def reads_english(scene: Scene) -> str | None:
    """Return a reason if the tiny models cannot translate the scene's input, else None."""
    if scene.kind.takes != "text" or not scene.kind.spelled:
        return say(
            "This lab gives one English sentence to several tiny models. The chosen model does "
            "not read text: choose one that does, such as en-de."
        )
    return None


def translation(bench: Bench, name: str, changes: Intervention) -> Tiny:
    """Return a tiny model and its translation of the scene's sentence under edits.

    Raises:
        LookupError: The model is not bundled.
    """
    engine, text = bench.scene.engine, bench.scene.question.text
    try:
        config: dict[str, Any] = engine.shelf[LABS + name].config
    except LookupError as error:
        raise LookupError(
            say("The tiny model {name} is not in this box.", name=LABS + name)
        ) from error
    says = say("Asking {name} ...", name=LABS + name)
    words = (text, changes.to_json())
    written, trace, parameters = bench.ask(LABS + name, jobs.own_run, *words, says=says)
    bleus = (config.get("bleu"), *config.get("bleu_seeds", ()))
    measured = tuple(bleu for bleu in bleus if bleu is not None)
    return Tiny(name, parameters, measured, written, trace)


def translations(
    bench: Bench, names: tuple[str, ...], changes: Intervention
) -> tuple[Tiny | None, ...]:
    """Return several tiny models as `translation` does; None for one that is not bundled.

    Raises:
        LookupError: No model is bundled.
    """
    found: list[Tiny | None] = []
    for name in names:
        try:
            found.append(translation(bench, name, changes))
        except LookupError:
            found.append(None)
    if not any(found):
        raise LookupError(
            say("The tiny models of this lab are not in this box: pretrained/labs/ lacks them.")
        )
    return tuple(found)
