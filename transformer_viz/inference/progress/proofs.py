"""Progress of a proof: the passes done and in all, and a stop that leaves the maps unproved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ...checkpoints.common.model import Model
from ..decoding.progress import Progress
from ..proof.program import KNOWN

T = TypeVar("T")
#: Called with the passes done and the passes in all; False stops the proof alone.
OnProgress = Callable[[int, int], bool | None]
LEAST = 2.0  # seconds of a proof from which it says how far it is
FACTOR = 2.0  # of a pass of the proof to one that nothing watches
MADE = 2  # passes that a proof takes over: the watched one and the unwatched one
FIRST, TWO_STACKS = 6, 7  # passes of a module's first proof
LATER = 3  # those where its laws are remembered


class ProofStopped(BaseException):
    """A proof that was stopped from outside: nothing that a pass catches."""


class ProofProgress:
    """Counts the passes of a proof and tells them where it takes long.

    The passes in all are those expected; there are more where a law fails and others are tried.

    Attributes:
        stopped: why there is no proof; empty where it went on to its end.
    """

    def __init__(self, model: Model, on_progress: OnProgress | None, seconds: float) -> None:
        """Expect as many passes as the module's laws need.

        Args:
            model: the model.
            on_progress: told of each pass of a long proof.
            seconds: of one pass that nothing watches.
        """
        first = TWO_STACKS if model.kind == "encoder-decoder" else FIRST
        self.done, self.of = MADE, LATER if KNOWN.get(model.module) else first
        self.on_progress, self.stopped = Progress(on_progress), ""
        self.begun = time.perf_counter()
        self.model = model
        self.long = FACTOR * seconds * (self.of - self.done) > LEAST

    def run(self, make: Callable[[Model], T]) -> T | None:
        """Return what ``make`` gives for the counted model; None where it was stopped.

        Raises:
            BaseException: what the callback raised.
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
        """Before a pass: tell how many are done."""
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
