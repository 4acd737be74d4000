"""A picture beside a text: what a model of both makes of it, and where it stands in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Seen:
    """A picture as a language model sees it.

    ``grid`` are the rows and columns of its patches and ``names`` those of the tokens that stand
    for it (``image 3,5``, and before them what has no place on the picture); ``shown`` is what the
    model was given, uint8 ``[height, width, 3]``; ``inputs(batch)`` are the words of the module's
    call for a batch in which each text has this picture: what the model's own eyes and projector
    made of it.
    """

    grid: tuple[int, int]
    names: tuple[str, ...]
    shown: np.ndarray
    inputs: Callable[[int], dict[str, Any]]

    @property
    def before(self) -> int:
        """How many of its tokens stand before the first patch."""
        return len(self.names) - self.grid[0] * self.grid[1]


@dataclass(frozen=True, eq=False)
class Eyes:
    """How a model reads a picture beside its text.

    ``look(picture)`` runs its eyes; ``worded(text, count)`` is a text with ``count`` places for the
    picture's tokens, where the text names the place or else where the model was trained with it;
    ``token`` is the id of such a place, and ``framed(ids, count)`` the same for ids; ``leads``: the
    picture stands before even the start token.
    """

    token: int
    look: Callable[[Any], Seen]
    worded: Callable[[str, int], str]
    framed: Callable[[Sequence[int], int], list[int]]
    leads: bool = False
