"""Who runs the shards of a plan: a loop, several processes, or Ray. The result is the same.

A shard is run at least once and its part written under one name, so a shard that is run twice
leaves the same part. What is there is not run again.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.common.model import Model
from .merging import merge
from .parts import finished, write_part
from .plan import Plan, Shard, model_hash

ENGINES = ("local", "ray")
TRIES = 3  # pools that may break one after another without a part more

#: Hears how many sentences of how many are done.
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Done:
    """What a worker hands back: which shard, how many sentences, and seconds of work."""

    shard: int
    sentences: int
    refused: int
    forward: float
    statistics: float
    written: float


class Scanner:
    """A worker: holds the model, and turns the number of a shard into its part."""

    def __init__(
        self,
        plan: Plan,
        corpus: str,
        folder: str,
        model: Model | str,
        words: dict[str, Any] | None = None,
    ):
        """Open the model, if it came as a path, and see that it is that of the plan.

        Raises:
            ValueError: it is another one.
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

    def __call__(self, number: int, tell: Callable[[int], None] | None = None) -> Done:
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
            tell=tell,
        )
        begin = time.perf_counter()
        write_part(self.folder, self.plan, shard, scanned)
        took = time.perf_counter() - begin
        refused = len(scanned.refused)
        return Done(number, scanned.sentences, refused, scanned.forward, scanned.statistics, took)


def run(
    plan: Plan,
    corpus: str | Path,
    folder: Path,
    model: Model,
    *,
    path: str = "",
    words: dict[str, Any] | None = None,
    workers: int = 1,
    engine: str = "local",
    address: str | None = None,
    tell: Tell | None = None,
) -> list[Done]:
    """Make the parts that lack, then the atlas.

    Args:
        model: as this process has it; workers open ``path`` with the config ``words``.
        workers: processes, or actors of Ray.
        engine: ``local`` or ``ray``; the latter at ``address``, or on this machine.

    Raises:
        ValueError: parts that do not belong there, workers that end again and again, no Ray.
    """
    there = finished(folder, plan)
    lacking = [shard for shard in plan.shards if shard.number not in there]
    before = sum(shard.count for shard in plan.shards if shard.number in there)
    given = (plan, str(Path(corpus).resolve()), str(folder.resolve()))
    if engine == "ray":
        from .ray_engine import scanned

        found = scanned(given, path, words or {}, lacking, workers, address)
    elif workers > 1 and len(lacking) > 1:
        found = _pooled(given, path, words or {}, lacking, min(workers, len(lacking)))
    else:
        found = _looped(Scanner(*given, model), lacking, before, tell, plan.sentences)
    done = []
    for one in found:
        done.append(one)
        before += plan.shards[one.shard].count
        if tell is not None:
            tell(before, plan.sentences)
    merge(folder, plan)
    return done


def _looped(
    scanner: Scanner, shards: Sequence[Shard], before: int, tell: Tell | None, total: int
) -> Iterator[Done]:
    for shard in shards:
        start = before
        hear = None if tell is None else lambda n, start=start: tell(start + n, total)
        yield scanner(shard.number, hear)
        before += shard.count


_worker: Scanner | None = None  # of this process


def _begin(*given: Any) -> None:
    global _worker
    _worker = Scanner(*given)


def _work(number: int) -> Done:
    assert _worker is not None
    return _worker(number)


def _pooled(
    given: tuple[Plan, str, str],
    path: str,
    words: dict[str, Any],
    shards: Sequence[Shard],
    workers: int,
) -> Iterator[Done]:
    """Several processes; those that are killed are replaced, and what they had begun run again."""
    open_shards, left = {shard.number for shard in shards}, TRIES
    context = multiprocessing.get_context("spawn")  # a forked copy of torch's threads may hang
    while open_shards:
        count = len(open_shards)
        try:
            with ProcessPoolExecutor(workers, context, _begin, (*given, path, words)) as pool:
                jobs = [pool.submit(_work, number) for number in sorted(open_shards)]
                for job in as_completed(jobs):
                    one = job.result()
                    open_shards.discard(one.shard)
                    yield one
        except BrokenProcessPool as error:
            left = TRIES if len(open_shards) < count else left - 1
            if not left:
                raise ValueError(
                    f"Workers ended {TRIES} times without finishing a part: they were killed, or "
                    "the memory did not suffice. Finished parts are kept; the same command with "
                    "fewer --workers goes on."
                ) from error
