"""What a lab is: a question, what one may predict, an experiment, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..session.scene import Scene
    from .bench import Bench


def serves_all(scene: Scene) -> str | None:
    """For labs that any model can serve."""
    return None


@dataclass(frozen=True)
class Lab:
    """One lab; see `frame` for the contract, and how the page goes through it.

    ``name`` stands in the link; ``title``, ``question`` and ``options`` are English texts, marked
    for translation; ``experiment`` draws the controls and the live measurement, and gives back
    what was found; ``answer`` says which option that bears out (from 0; None: neither);
    ``reveal`` draws what it means; ``lacks`` is a sentence why a scene's model cannot serve.
    """

    name: str
    title: str
    question: str
    options: tuple[str, ...]
    experiment: Callable[[Bench], Any]
    answer: Callable[[Any], int | None]
    reveal: Callable[[Bench, Any], None]
    lacks: Callable[[Scene], str | None] = serves_all
