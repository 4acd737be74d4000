"""The cache of runs: bounded in bytes, least recently used goes first, made once for everybody."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from transformer_viz.app.engine.task import WAITING, Abandoned, Task
from transformer_viz.app.engine.trace_cache import SMALL, Cache, size_of

LONG = 20  # seconds after which a test that hangs gives up


def put(cache: Cache, key: Any, size: int, visitor: str | None = None) -> np.ndarray:
    """Have the cache make a value of so many bytes."""
    task = (Task(visitor),) if visitor else ()
    return cache.get(key, lambda: np.zeros(size, np.uint8), *task)


def kept(cache: Cache, keys: Any) -> list[Any]:
    return [key for key in keys if key in cache]


def test_size_counts_arrays_wherever_they_are() -> None:
    one, two = np.zeros(1000, np.uint8), np.zeros(2000, np.uint8)
    assert size_of(two) == 2000 + SMALL
    assert size_of({"a": [one, (two,)]}) >= 3000
    assert size_of(pd.DataFrame({"x": np.zeros(1000)})) >= 8000


def test_least_recently_used_goes_first_and_the_bound_holds() -> None:
    cache = Cache(limit=3500)
    for name in "abc":
        put(cache, name, 800)
    cache.get("a", lambda: pytest.fail("a is there"))
    put(cache, "d", 800)
    assert kept(cache, "abcd") == ["a", "c", "d"] and len(cache) == 3
    assert cache.size <= cache.limit


def test_of_large_values_the_two_used_last_stay_beside_the_others() -> None:
    cache = Cache(limit=2000)
    put(cache, "small", 700)
    put(cache, "clean", 9000)
    for n in range(5):  # a slider moves: each run is compared with the clean one
        cache.get("clean", lambda: pytest.fail("clean is there"))
        assert put(cache, n, 8000).nbytes == 8000
        assert n in cache and n - 1 not in cache and "small" in cache
        assert cache.size <= cache.limit + 9000 + 8000 + 2 * SMALL
    for name in "abc":
        put(cache, name, 700)
    assert kept(cache, ["small", *"abc", "clean", 4]) == ["b", "c", "clean", 4]
    assert len(cache) == 4


def test_a_visitor_evicts_its_own_runs() -> None:
    """A flood of frames put out the clean runs of a class, each of which was searched anew."""
    cache = Cache(limit=20_000)
    pupils = [f"{pupil} {n}" for pupil in ("a", "b", "c") for n in range(4)]
    for key in pupils:
        put(cache, key, 1000, key[0])
    for n in range(200):
        put(cache, n, 1000, "flood")
        assert cache.size <= cache.limit
    assert kept(cache, pupils) == pupils and kept(cache, range(200)) == list(range(196, 200))
    # The pair of a visitor with large runs is spared.
    cache = Cache(limit=20_000)
    for name in ("clean", "older", "changed"):
        put(cache, name, 5000, "large")
    cache.get("clean", lambda: pytest.fail("clean is there"))
    for n in range(8):
        put(cache, n, 1000, "small")
    assert kept(cache, ("clean", "older", "changed")) == ["clean", "changed"]
    assert kept(cache, range(8)) == list(range(8))
    # Where all have but a pair, the oldest goes.
    cache = Cache(limit=4000)
    for n in range(5):
        put(cache, n, 900, f"visitor {n}")
    assert kept(cache, range(5)) == [2, 3, 4]


def test_an_error_is_not_kept() -> None:
    cache = Cache()

    def fail() -> np.ndarray:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        cache.get("a", fail)
    assert put(cache, "a", 1000).nbytes == 1000


def test_visitors_who_ask_at_once_share_one_computation() -> None:
    cache, made = Cache(), []

    def make() -> np.ndarray:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return np.zeros(1000, np.uint8)

    with ThreadPoolExecutor(8) as pool:
        found = [one.result() for one in [pool.submit(cache.get, "a", make) for _ in range(8)]]
    assert len(made) == 1 and all(one is found[0] for one in found)


def test_a_waiting_visitor_makes_a_run_that_another_abandons() -> None:
    cache, began, end, task = Cache(), threading.Event(), threading.Event(), Task()

    def abandoned() -> str:
        began.set()
        end.wait(LONG)
        raise Abandoned

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", abandoned)
        assert began.wait(LONG)
        second = pool.submit(cache.get, "a", lambda: "made", task)
        while not task.words:
            time.sleep(0.005)
        assert task.words == WAITING
        end.set()
        with pytest.raises(Abandoned):
            first.result(LONG)
        assert second.result(LONG) == "made" and "a" in cache and not task.words


def test_a_visitor_who_gives_up_leaves_the_run_of_another_alone() -> None:
    cache, began, end, task = Cache(), threading.Event(), threading.Event(), Task()
    task.abandon()

    def slow() -> str:
        began.set()
        end.wait(LONG)
        return "made"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, "a", slow)
        assert began.wait(LONG)
        with pytest.raises(Abandoned):
            cache.get("a", lambda: pytest.fail("it is being made"), task)
        end.set()
        assert first.result(LONG) == "made" and "a" in cache
