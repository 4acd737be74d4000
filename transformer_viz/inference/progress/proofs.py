"""Progress of a proof: passes done and in all, and a stop that leaves the maps unproved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ...checkpoints.common.model import Model
from ..decoding.progress import Progress
from ..proof.program import KNOWN

T = TypeVar("T")
#: Called with the number of passes done and in all; False stops only the proof.
OnProgress = Callable[[int, int], bool | None]
LEAST = 2.0  # seconds from which a proof reports progress
FACTOR = 2.0  # duration of a proof pass relative to a plain pass
MADE = 2  # passes made before the proof: the captured one and the plain one
FIRST, TWO_STACKS = 6, 7  # passes of a module's first proof
LATER = 3  # passes when its laws are known


class ProofStopped(BaseException):
    """Stop request during a proof; derives from BaseException, so no pass catches it."""


class ProofProgress:
    """Pass counter of a proof, which reports progress if the proof takes long.

    The total is an estimate; it grows if a law fails and others are tried.

    Attributes:
        stopped: Reason for a missing proof; empty if it was completed.
    """

    def __init__(self, model: Model, on_progress: OnProgress | None, seconds: float) -> None:
        """Estimate the number of passes from the module's laws.

        Args:
            model: The model.
            on_progress: Called before each pass of a long proof.
            seconds: Duration of a plain pass.
        """
        first = TWO_STACKS if model.kind == "encoder-decoder" else FIRST
        self.done, self.of = MADE, LATER if KNOWN.get(model.module) else first
        self.on_progress, self.stopped = Progress(on_progress), ""
        self.begun = time.perf_counter()
        self.model = model
        self.long = FACTOR * seconds * (self.of - self.done) > LEAST

    def run(self, make: Callable[[Model], T]) -> T | None:
        """Return the result of ``make`` for the counted model; None if it was stopped.

        Raises:
            BaseException: The callback's exception.
        """
        try:
            return make(self._counted())
        except ProofStopped:
            if self.on_progress.error is not None:
                raise self.on_progress.error from None
            self.stopped = f"The proof was stopped after {self.done} of {self.of} passes."
            return None

    def _counted(self) -> Model:
        """Return the model with its forward passes counted."""
        calls = self.model.calls

        def forward(*inputs: Any, **named: Any) -> Any:
            self._step()
            return calls.forward(*inputs, **named)

        counted = replace(calls, forward=forward).standing_in(calls.on)
        return replace(self.model, calls=counted)

    def _step(self) -> None:
        """Report progress before a pass."""
        self.of = max(self.of, self.done + 1)
        self.long = self.long or time.perf_counter() - self.begun > LEAST
        if self.long:
            try:
                go_on = self.on_progress(self.done, self.of)
            except BaseException:
                raise ProofStopped from None
            if go_on is False:
                raise ProofStopped
        self.done += 1
