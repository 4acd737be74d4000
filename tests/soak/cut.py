"""A worker killed in the middle of a lesson, and what each of its pupils met.

Which process it is, the app itself tells: the metric `transformer_viz_info` has the number of each
worker and its process. Whoever was cut connects anew as a browser does; its link says the rest.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import parse_qsl

import numpy as np

from benchmarks.pupil import Pupil
from benchmarks.report import Budget, Row
from transformer_viz.app.balancer.caddy import COOKIE

INFO = re.compile(r"transformer_viz_info\{(.*)\} ")
LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, eq=False)
class Cut:
    """What one pupil met whose worker died.

    ``seconds`` from its death until the page had answered again; ``shown`` and ``link`` are the
    temperature that stood on the screen before and that of the link afterwards, ``head`` the map
    that the page then showed; ``text`` the sentence of the link. ``head`` is None where the page
    had asked for nothing, and still showed what it had.
    """

    number: int
    seconds: float
    shown: float | None
    link: float | None
    text: str
    head: np.ndarray | None
    again: bool  # whether the move on its way had to be told a second time


@dataclass
class Death:
    """The worker that is killed, and who was with it."""

    after: float  # seconds, on the clock of `time.monotonic`
    worker: str = ""
    process: int = 0
    at: float = 0.0
    dead: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)


def processes(url: str) -> dict[str, int]:
    """The process of each worker, by its number, as the app tells it."""
    found = {}
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            told = INFO.match(line)
            labels = dict(LABEL.findall(told[1])) if told else {}
            if labels.get("worker", "").isdecimal():
                found[labels["worker"]] = int(labels["process"])
    return found


def kill(url: str, death: Death) -> None:
    """Kill a worker when its time has come: the one that is named, or else the first."""
    time.sleep(max(0.0, death.after - time.monotonic()))
    try:
        known = processes(url)
        death.worker = death.worker or min(known)
        death.process = known[death.worker]
        death.at = time.monotonic()
        os.kill(death.process, signal.SIGKILL)
        death.dead.set()
    except (OSError, LookupError, ValueError) as error:
        death.errors.append(f"no worker was killed: {type(error).__name__}: {error}")


def worker_of(pupil: Pupil) -> str:
    """Return the name that the cookie has for the worker that a pupil is with."""
    return pupil.headers.get("Cookie", "").rpartition(f"{COOKIE}=")[2].partition(";")[0]


def link_of(pupil: Pupil) -> tuple[str, float | None]:
    """The sentence and the temperature that a pupil's link says."""
    said = dict(parse_qsl(pupil.query))
    edits = json.loads(said["edits"])["edits"] if "edits" in said else []
    values = [float(edit["value"]) for edit in edits if edit["kind"] == "temperature"]
    return said.get("text", ""), values[0] if values else None


def rows(cuts: Sequence[Cut], pupils: int, unlike: Sequence[str]) -> list[Row]:
    """The lines of a table about a death."""
    if not cuts:
        return []
    times = sorted(cut.seconds for cut in cuts)
    told = sum(cut.again for cut in cuts)
    return [
        ("pupils whose worker was killed", str(len(cuts)), f"of {pupils - 1}", "", ""),
        (
            *("killed to the next whole answer", str(len(times)), f"{median(times):.2f} s"),
            *(f"{np.quantile(times, 0.95):.2f} s", f"{times[-1]:.2f} s"),
        ),
        ("moves on their way, told again", str(told), "", "", ""),
        ("screens that were not of their link", str(len(unlike)), "", "", ""),
    ]


def lost(cuts: Sequence[Cut]) -> list[str]:
    """Whose link does not say, after all, what stood on the screen before."""
    return [
        f"pupil {cut.number} had {cut.shown} on the screen, and {cut.link} afterwards"
        for cut in cuts
        if cut.shown != cut.link
    ]


def budgets(cuts: Sequence[Cut], unlike: Sequence[str]) -> list[Budget]:
    """That nobody loses anything."""
    return [
        Budget("cut pupils who lost something", len(lost(cuts)), 0),
        Budget("cut pupils who saw another state than their link's", len(unlike), 0),
    ]
