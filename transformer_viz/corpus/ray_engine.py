"""Engine on a cluster, by Ray Data: actors that hold the model process numbers of shards.

Parts are written by the actors, so the folder, the corpus and the model are on a disk that all
nodes share. Ray repeats the work of a lost node; this is harmless, since a part has one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .plan import Plan, Shard
from .worker import Done, Scanner


class RayScanner:
    """Adapter of `Scanner` for Ray Data: a batch of numbers in, results out."""

    def __init__(self, *given: Any):
        self.scanner = Scanner(*given)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        done = [self.scanner(int(number)) for number in batch["id"]]
        return {name: [getattr(one, name) for one in done] for name in Done.__dataclass_fields__}


def scanned(
    given: tuple[Plan, str, str],
    path: str,
    words: dict[str, Any],
    shards: Sequence[Shard],
    workers: int,
    address: str | None,
) -> Iterator[Done]:
    """Yield results as they arrive.

    Raises:
        ValueError: Ray is not installed, or there is no cluster at the address.
    """
    if not shards:
        return
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "--engine ray needs Ray, which is not installed; get it with "
            "pip install 'transformer_viz[cluster]'."
        ) from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        except (ConnectionError, ValueError) as error:
            raise ValueError(f"There is no Ray cluster at {address!r} ({error}).") from error
    ray.data.DataContext.get_current().enable_progress_bars = False
    numbers = [{"id": shard.number} for shard in shards]
    found = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
        RayScanner,
        fn_constructor_args=(*given, path, words),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, workers)),
        num_cpus=1,
        num_gpus=1 if given[0].device == "cuda" else 0,
    )
    for row in found.iter_rows():
        yield Done(**{name: row[name] for name in Done.__dataclass_fields__})
