"""Images beside a text: image tokens of a vision-language model and their position in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Seen:
    """Image as read by a language model.

    Attributes:
        grid: Rows and columns of its patches.
        names: Names of its tokens: patches as ``image 3,5``, after tokens without a patch.
        shown: Image given to the model, uint8 ``[height, width, 3]``.
        inputs: ``inputs(batch)`` returns keyword arguments of the module's call for a batch with
            this image in each text: the output of vision tower and projector.
    """

    grid: tuple[int, int]
    names: tuple[str, ...]
    shown: np.ndarray
    inputs: Callable[[int], dict[str, Any]]

    @property
    def before(self) -> int:
        """Number of image tokens before the first patch."""
        return len(self.names) - self.grid[0] * self.grid[1]


@dataclass(frozen=True, eq=False)
class Eyes:
    """Image input of a model that reads an image beside its text.

    Attributes:
        token: Id of an image placeholder in the text.
        look: ``look(picture)`` runs the vision tower.
        worded: ``worded(text, count)`` returns the text with ``count`` placeholders, where the text
            marks the position or else at the position used in training.
        framed: ``framed(ids, count)`` does the same for ids.
        leads: True if the image comes before even the start token.
    """

    token: int
    look: Callable[[Any], Seen]
    worded: Callable[[str, int], str]
    framed: Callable[[Sequence[int], int], list[int]]
    leads: bool = False
