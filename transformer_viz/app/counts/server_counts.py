"""Counters of this process since its start, and the log line of each run."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from ... import settings
from ...core.version import __version__
from .families import Asked, exposition

BEGAN = time.time()
REGISTRY = CollectorRegistry()
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper bounds of buckets


def _histogram(name: str, about: str, labels: tuple[str, ...] = ()) -> Histogram:
    return Histogram(name, about, labels, buckets=SECONDS, registry=REGISTRY)


VISITORS = Gauge("transformer_viz_visitors", "Visits that are open now.", registry=REGISTRY)
VISITS = Counter("transformer_viz_visits_total", "Visits that were opened.", registry=REGISTRY)
FRAMES = _histogram("transformer_viz_frame_seconds", "Seconds to a live frame of a slider.")
FRAMES_ENDED = Counter(
    "transformer_viz_frames_total",
    "Live frames by how they ended: made, abandoned for a newer one, refused, failed.",
    ("outcome",),
    registry=REGISTRY,
)
ANSWERS = _histogram("transformer_viz_answer_seconds", "Seconds to a page's whole answer.")
RUNS = Counter(
    "transformer_viz_runs_total",
    "Runs of models, by the function that ran and by how they ended: done, refused, abandoned, "
    "failed. What the cache holds is no run.",
    ("run", "outcome"),
    registry=REGISTRY,
)
RUN_SECONDS = _histogram("transformer_viz_run_seconds", "Seconds that runs computed.", ("run",))
WAITED = _histogram("transformer_viz_wait_seconds", "Seconds that runs waited for their turn.")
REFUSALS = Counter(
    "transformer_viz_refusals_total",
    "Refusals by their reason: a strange host, a frame, an input that a page had to explain, "
    "more than a visitor may ask.",
    ("reason",),
    registry=REGISTRY,
)
COMPUTED = Counter(
    "transformer_viz_cpu_seconds_total",
    "CPU seconds of threads by what they did: frames, searches made together, other runs, pages; "
    "loop is the thread that speaks with the browsers.",
    ("work",),
    registry=REGISTRY,
)
for _reason in ("host", "frame", "input", "limit"):
    REFUSALS.labels(_reason)  # shown as 0 before the first

_loop_seconds = 0.0  # counted CPU seconds of the event loop's thread
_loop_lock = threading.Lock()


def process(proc: str = "/proc") -> list[CollectorRegistry | Asked]:
    """Return the collectors of any process: memory, CPU seconds, start, open files, threads.

    Without a ``proc`` file system there are CPU seconds, start and threads only.
    """
    registry = CollectorRegistry()
    ProcessCollector(proc=proc, registry=registry)
    threads = Asked("process_threads", "Threads.", ask=lambda: {(): threading.active_count()})
    if os.path.exists(f"{proc}/self/stat"):
        return [registry, threads]
    return [
        Asked("process_cpu_seconds_total", "CPU seconds.", ask=lambda: {(): time.process_time()}),
        Asked("process_start_time_seconds", "Unix time of the start.", ask=lambda: {(): BEGAN}),
        threads,
    ]


def _limits() -> dict[tuple[str, ...], float]:
    numbers = (one for one in settings.SETTINGS if one.least is not None)
    return {(one.variable.removeprefix(settings.PREFIX).lower(),): one.number for one in numbers}


ALL: list[CollectorRegistry | Asked] = [
    REGISTRY,
    Asked(
        "transformer_viz_limit",
        "The settings that are numbers: limits of this server.",
        ("setting",),
        ask=_limits,
    ),
    Asked(
        "transformer_viz_info",
        "Which version runs, in which process.",
        ("version", "process"),
        ask=lambda: {(__version__, str(os.getpid())): 1.0},
    ),
    *process(),
]


def text(*more: Asked) -> str:
    """Return all families, and further ones of the caller, in the exposition format."""
    global _loop_seconds
    clock, main = getattr(time, "pthread_getcpuclockid", None), threading.main_thread().ident
    if clock is not None and main is not None:  # not on every system
        with _loop_lock:
            now = time.clock_gettime(clock(main))
            COMPUTED.labels("loop").inc(now - _loop_seconds)
            _loop_seconds = now
    return exposition([*ALL, *more])


@contextmanager
def computing(work: str) -> Iterator[None]:
    """Count the CPU seconds of this thread within the block under this kind of work.

    Nested blocks are counted twice.
    """
    began = time.thread_time()
    try:
        yield
    finally:
        COMPUTED.labels(work).inc(time.thread_time() - began)


class Run:
    """Run of a model; call `began` when its turn has come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = time.perf_counter()
        self.turn: float | None = None

    def began(self) -> None:
        """Record the end of its wait."""
        self.turn = time.perf_counter()
        WAITED.observe(self.turn - self.asked)

    def ended(self, outcome: str) -> None:
        """Count the run, and write its log line if the log is on."""
        now = time.perf_counter()
        turn = now if self.turn is None else self.turn
        RUNS.labels(self.name, outcome).inc()
        if self.turn is not None:
            RUN_SECONDS.labels(self.name).observe(now - turn)
        if settings.RUN_LOG.on:
            log(run=self.name, outcome=outcome, wait=turn - self.asked, seconds=now - turn)


@contextmanager
def counted(run: Callable[..., Any], given_up: type[BaseException]) -> Iterator[Run]:
    """Count a run and its outcome.

    Args:
        run: The function that runs; its name is the only information recorded.
        given_up: Exception raised when the run was abandoned.
    """
    function = getattr(run, "func", run)  # of a functools.partial
    found = Run(getattr(function, "__name__", "run").lstrip("_"))
    try:
        yield found
    except given_up:
        found.ended("abandoned")
        raise
    except (ValueError, LookupError, OSError):
        found.ended("refused")
        raise
    except BaseException:
        found.ended("failed")
        raise
    found.ended("done")


def log(**what: Any) -> None:
    """Write one line to stderr: a JSON object with time, process, numbers and names of the app.

    Seconds are rounded to milliseconds.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {name: round(one, 3) if isinstance(one, float) else one for name, one in what.items()}
    line = json.dumps({"time": now, "process": os.getpid(), **told})
    print(line, file=sys.stderr, flush=True)
