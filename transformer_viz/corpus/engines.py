"""Engines that run the shards of a plan: a loop, several processes, or Ray, with equal results.

A shard runs at least once and its part has one file name, so a repeated shard leaves the same part.
Existing parts are not computed again.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ..checkpoints.common.model import Model
from .merging import merge
from .parts import finished
from .plan import Plan, Shard
from .worker import Done, Scanner

ENGINES = ("local", "ray")
TRIES = 3  # consecutive broken pools without a new part before an error

#: Progress callback with the sentences done and all sentences.
Tell = Callable[[int, int], None]


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
    on_progress: Tell | None = None,
) -> list[Done]:
    """Compute the missing parts, then the atlas.

    Args:
        model: Model of this process; workers load ``path`` with the config values ``words``.
        workers: Number of processes, or of Ray actors.
        engine: ``local`` or ``ray``; the latter at ``address``, or on this machine.

    Raises:
        ValueError: Foreign parts, workers that crash repeatedly, or no Ray.
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
        found = _looped(Scanner(*given, model), lacking, before, on_progress, plan.sentences)
    done = []
    for one in found:
        done.append(one)
        before += plan.shards[one.shard].count
        if on_progress is not None:
            on_progress(before, plan.sentences)
    merge(folder, plan)
    return done


def _looped(
    scanner: Scanner, shards: Sequence[Shard], before: int, on_progress: Tell | None, total: int
) -> Iterator[Done]:
    for shard in shards:
        start = before
        hear = None if on_progress is None else lambda n, start=start: on_progress(start + n, total)
        yield scanner(shard.number, hear)
        before += shard.count


_worker: Scanner | None = None  # scanner of this process


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
    """Yield results of several processes; killed ones are replaced, and their shards run again."""
    open_shards, left = {shard.number for shard in shards}, TRIES
    context = multiprocessing.get_context("spawn")  # forked threads of torch may hang
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
