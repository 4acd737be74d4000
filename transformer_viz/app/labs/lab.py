"""Type of a lab: a question, options to predict, an experiment, and an explanation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..session.scene import Scene
    from .bench import Bench


def serves_all(scene: Scene) -> str | None:
    """Return None: the lab accepts any model."""
    return None


@dataclass(frozen=True)
class Lab:
    """A lab; `lab_page` documents the contract and the order of the steps.

    Attributes:
        name: Name in the link.
        title, question, options: English texts, marked for translation.
        experiment: Draws the controls and the live measurement, and returns the result.
        answer: Returns the index of the option that the result supports, or None if it decides
            nothing.
        reveal: Draws the explanation.
        lacks: Returns a reason if a scene's model cannot be used, else None.
    """

    name: str
    title: str
    question: str
    options: tuple[str, ...]
    experiment: Callable[[Bench], Any]
    answer: Callable[[Any], int | None]
    reveal: Callable[[Bench, Any], None]
    lacks: Callable[[Scene], str | None] = serves_all
