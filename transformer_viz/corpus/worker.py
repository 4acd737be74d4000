"""Worker of an engine: it holds a model and converts shard numbers to parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.common.model import Model
from .parts import write_part
from .plan import Plan, model_hash


@dataclass(frozen=True)
class Done:
    """Result of a worker: the shard, its numbers of sentences, and seconds of work."""

    shard: int
    sentences: int
    refused: int
    forward: float
    statistics: float
    written: float


class Scanner:
    """A worker with a model that computes the part of a shard."""

    def __init__(
        self,
        plan: Plan,
        corpus: str,
        folder: str,
        model: Model | str,
        words: dict[str, Any] | None = None,
    ):
        """Load the model, if given as a path, and check that it is that of the plan.

        Raises:
            ValueError: It is another model.
        """
        self.plan, self.corpus, self.folder = plan, corpus, Path(folder)
        if isinstance(model, str):
            from ..checkpoints import load

            model = load(model, device=plan.device, **(words or {}))
        if model_hash(model) != plan.model_hash:
            raise ValueError(
                f"The weights of {model.name!r} are not those of the plan (SHA-256 "
                f"{model_hash(model)[:12]} and {plan.model_hash[:12]})."
            )
        self.model = model

    def __call__(self, number: int, on_progress: Callable[[int], None] | None = None) -> Done:
        """Scan one shard and write its part."""
        from ..inference.corpus.scan import scan

        shard = self.plan.shards[number]
        scanned = scan(
            self.model,
            self.plan.items(shard, self.corpus),
            view=self.plan.view,
            seed=self.plan.seed,
            copying_every=self.plan.copying_every,
            with_weights=number == 0,
            on_progress=on_progress,
        )
        begin = time.perf_counter()
        write_part(self.folder, self.plan, shard, scanned)
        took = time.perf_counter() - begin
        refused = len(scanned.refused)
        return Done(number, scanned.sentences, refused, scanned.forward, scanned.statistics, took)
