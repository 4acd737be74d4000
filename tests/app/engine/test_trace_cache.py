"""The cache of runs: bounded in bytes, least recently used goes first, made once for everybody."""

from __future__ import annotations

import threading
import time

import numpy as np
import pandas as pd
import pytest

from transformer_viz.app.engine.task import Task
from transformer_viz.app.engine.trace_cache import SMALL, Cache, size_of


def _kilobytes(count: int) -> np.ndarray:
    return np.zeros(count * 1000, np.uint8)


def test_size_counts_arrays_wherever_they_are() -> None:
    assert size_of(_kilobytes(3)) == 3000 + SMALL
    assert size_of({"a": [_kilobytes(1), (_kilobytes(2),)]}) >= 3000
    assert size_of(pd.DataFrame({"x": np.zeros(1000)})) >= 8000


def test_least_recently_used_goes_first_and_the_bound_holds() -> None:
    cache = Cache(limit=3500)
    for name in "abc":
        cache.get(name, lambda: _kilobytes(1)[:800])
    cache.get("a", lambda: pytest.fail("a is there"))
    cache.get("d", lambda: _kilobytes(1)[:800])
    assert "b" not in cache and "a" in cache and "d" in cache
    assert cache.size <= cache.limit and len(cache) == 3


def test_of_large_values_the_two_used_last_stay_beside_the_others() -> None:
    cache = Cache(limit=2000)
    cache.get("small", lambda: _kilobytes(1)[:700])
    cache.get("clean", lambda: _kilobytes(9))
    for n in range(5):  # a slider moves: each run is compared with the clean one
        cache.get("clean", lambda: pytest.fail("clean is there"))
        assert cache.get(n, lambda: _kilobytes(8)).nbytes == 8000
        assert n in cache and n - 1 not in cache and "small" in cache
        assert cache.size <= cache.limit + 9000 + 8000 + 2 * SMALL
    for name in "abc":
        cache.get(name, lambda: _kilobytes(1)[:700])
    assert "small" not in cache and "a" not in cache and "b" in cache and "c" in cache
    assert "clean" in cache and 4 in cache and len(cache) == 4


def test_who_fills_it_loses_and_nobody_else() -> None:
    """A flood of frames put out the clean runs of a class, each of which was searched anew."""
    cache, flood = Cache(limit=20_000), Task("flood")
    kept = {f"{pupil} {n}": Task(pupil) for pupil in ("a", "b", "c") for n in range(4)}
    for key, task in kept.items():
        cache.get(key, lambda: _kilobytes(1), task)
    for n in range(200):
        cache.get(n, lambda: _kilobytes(1), flood)
        assert cache.size <= cache.limit
    assert all(key in cache for key in kept)
    assert [n for n in range(200) if n in cache] == list(range(200 - 4, 200))


def test_the_pair_of_a_visitor_with_large_runs_is_spared() -> None:
    cache = Cache(limit=20_000)
    for name in ("clean", "older", "changed"):
        cache.get(name, lambda: _kilobytes(5), Task("large"))
    cache.get("clean", lambda: pytest.fail("clean is there"))
    for n in range(8):
        cache.get(n, lambda: _kilobytes(1), Task("small"))
    assert "older" not in cache and "clean" in cache and "changed" in cache
    assert [n for n in range(8) if n in cache] == list(range(8))


def test_where_all_have_but_a_pair_the_oldest_goes() -> None:
    cache = Cache(limit=4000)
    for n in range(5):
        cache.get(n, lambda: _kilobytes(1)[:900], Task(f"visitor {n}"))
    assert [n for n in range(5) if n in cache] == [2, 3, 4]


def test_an_error_is_not_kept() -> None:
    cache = Cache()

    def fail() -> np.ndarray:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        cache.get("a", fail)
    assert cache.get("a", lambda: _kilobytes(1)).nbytes == 1000


def test_visitors_who_ask_at_once_share_one_computation() -> None:
    cache, made = Cache(), []

    def make() -> np.ndarray:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return _kilobytes(1)

    found: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.get("a", make))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(found) == 8
    assert all(one is found[0] for one in found)
