"""The tiny models that are compared: one recipe, one choice changed."""

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
    """One tiny model on the class's sentence.

    ``bleus`` are those of its config.json: its own, and of the same training with other seeds
    (empty: not measured); ``text`` is what it writes by itself, ``trace`` the run over those words.
    """

    name: str
    parameters: int
    bleus: tuple[float, ...]
    text: str
    trace: Trace

    @property
    def bleu(self) -> float | None:
        """The mean over its trainings."""
        return sum(self.bleus) / len(self.bleus) if self.bleus else None

    @property
    def score(self) -> str:
        """That mean, with the least and the most where there are several; empty: not measured."""
        if not self.bleus:
            return ""
        spread = f" ({min(self.bleus):.1f}–{max(self.bleus):.1f})" if len(self.bleus) > 1 else ""
        return f"{self.bleu:.1f}{spread}"


def trainings(models: Iterable[Tiny | None]) -> int:
    """How often each of the models that are here was trained and measured, at least."""
    return min((len(model.bleus) for model in models if model), default=0)


def reads_english(scene: Scene) -> str | None:
    """Why the class's input is nothing that the tiny models can translate."""
    if scene.kind.takes != "text" or not scene.kind.spelled:
        return say(
            "This lab gives one English sentence to several tiny models. The chosen model does "
            "not read text: choose one that does, such as en-de."
        )
    return None


def translation(bench: Bench, name: str, changes: Intervention) -> Tiny:
    """A tiny model's own translation of the class's sentence, under changes.

    Raises:
        LookupError: the model is not in this box; says so.
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
    """The same of several; None for one that is not here.

    Raises:
        LookupError: none is here.
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
