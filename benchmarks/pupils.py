"""A class: pupils open the shared link within a minute, type a sentence each, and move a slider.

Every pupil has its own sentence, head and temperatures. All that comes to it is kept, and compared
afterwards with what the model says of that very sentence and step in this process.
"""

from __future__ import annotations

import random
import re
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

import numpy as np
from playwright.sync_api import Browser

import transformer_viz as tv
from benchmarks.memory import growth, resident, server_of, workers_of
from benchmarks.pupil import Pupil
from benchmarks.report import Budget, Row, Section
from benchmarks.slider import SHOWN, begin
from benchmarks.visits import visitor
from tests.support.component_stage import decoded
from transformer_viz.app.session.url_state import DEFAULTS
from transformer_viz.components.edit_sliders import TEMPERATURE
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention

SLOW, GROWN = 1.5, 60  # seconds and megabytes, DESIGN section 8
EVERY, REST = 2.0, 0.3  # seconds from move to move, and until the hand rests and Python is told
FREE, CLOSE = 4, 1e-6  # of so many steps one translation is checked; how near weights must be
LEAST = 2  # moves of each pupil, however slow the machine is
ARRIVING = 60.0  # seconds in which all of them open the link
WHO = ("Tom", "Mary", "My brother", "The old man", "Our teacher", "She")
WHAT = (
    *("likes coffee without sugar.", "is reading a long book.", "went home after the rain."),
    *("wanted to buy a new car.", "can't find the key."),
)
CPU = re.compile(r"(transformer_viz_cpu|process_cpu)_seconds_total\b")
WORK = re.compile(r'\bwork="(\w+)"')
SHARED = {"block": "cross", "layer": "1", "head": "3"}  # the link that the teacher shares


@dataclass(frozen=True, eq=False)
class Step:
    """One move of one pupil, and what it was shown of it."""

    state: dict[str, Any]
    seconds: float
    frame: dict[str, bytes]
    told: float
    head: np.ndarray
    after: str


@dataclass
class Visit:
    """What one pupil met."""

    number: int
    opened: float = 0.0
    typed: float = 0.0
    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class Class:
    """What all of them met, the one with a real browser, and the server's memory meanwhile."""

    visits: list[Visit]
    painted: list[float] = field(default_factory=list)  # seconds, of the one with a browser
    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    each: list[float] = field(default_factory=list)  # megabytes of each worker, at the end
    #: Moves that were over, and CPU seconds of the server by work, at the first and the last look.
    computed: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        return [step for visit in self.visits for step in visit.steps]

    @property
    def errors(self) -> list[str]:
        return [error for visit in self.visits for error in visit.errors]


def sentence_of(number: int) -> str:
    """A sentence that no other pupil of the class types."""
    return f"{WHO[number % len(WHO)]} {WHAT[number // len(WHO) % len(WHAT)]}"


def lesson(browser: Browser, url: str, pupils: int, seconds: float) -> Class:
    """The class at work: one pupil with a real browser, all others without."""
    start = time.monotonic()
    arriving = min(ARRIVING, seconds / 3)
    end = start + arriving + seconds
    met = Class([Visit(number) for number in range(pupils - 1)])
    threads = [
        threading.Thread(
            target=_works, args=(visit, url, start + arriving * visit.number / pupils, end)
        )
        for visit in met.visits
    ]
    watch = threading.Thread(target=_watch, args=(met, url, start + arriving, end))
    for thread in (*threads, watch):
        thread.start()
    met.painted = _sees(browser, url, end)
    for thread in (*threads, watch):
        thread.join()
    return met


def _watch(met: Class, url: str, begin: float, end: float) -> None:
    """Write down what the server holds in memory and has computed, all its workers together."""
    processes, began = workers_of(server_of(url)), time.monotonic()
    while time.monotonic() < end:
        met.seconds.append(time.monotonic() - began)
        each = [resident(process) for process in processes]
        met.memory.append(sum(each))
        met.each = each
        if not met.computed and time.monotonic() > begin:  # all have come
            met.computed.append((len(met.steps), computed(url)))
        time.sleep(1)
    met.computed.append((len(met.steps), computed(url)))


def computed(url: str) -> dict[str, float]:
    """CPU seconds of a server by work, and in ``all``; of several workers added up."""
    found: dict[str, float] = {}
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            told = CPU.match(line)
            if told:
                work = WORK.search(line)
                name = work[1] if work else "all"
                found[name] = found.get(name, 0.0) + float(line.rpartition(" ")[2])
    return found


def _works(visit: Visit, url: str, start: float, end: float) -> None:
    """One pupil: opens the link when it has come, types, and moves the slider until the end."""
    time.sleep(max(0.0, start - time.monotonic()))
    try:
        pupil = Pupil(url)
    except OSError as error:
        visit.errors.append(f"pupil {visit.number} was not let in: {error}")
        return
    try:
        visit.opened = pupil.open(SHARED)
        visit.typed = pupil.type(sentence_of(visit.number))
        for value in _values(visit.number):
            if time.monotonic() > end and len(visit.steps) >= LEAST:
                break
            next_move = time.monotonic() + EVERY
            visit.steps.append(_moves(pupil, visit.number, value))
            time.sleep(max(0.0, next_move - time.monotonic()))
    except Exception as error:  # a benchmark reports what went wrong and goes on with the others
        visit.errors.append(f"pupil {visit.number}: {type(error).__name__}: {error}")
    visit.errors += [f"pupil {visit.number} was told: {words}" for words in pupil.seen.alerts]
    with suppress(OSError):
        pupil.end()


def _values(number: int) -> Iterator[float]:
    """Temperatures that a hand moves through, other ones for each pupil, hardly one twice."""
    draw = random.Random(number)
    while True:
        yield round(draw.uniform(0.2, 5), 3)


def _moves(pupil: Pupil, number: int, value: float) -> Step:
    """One step of the slider: its live frame, and then what the page answers to it."""
    stop = TEMPERATURE.write(value)
    seq = int(pupil.slider["seq"]) + 1
    seconds, frame = pupil.frame(stop, seq)
    time.sleep(REST)
    told = pupil.tell(stop, seq + 1)
    head = pupil.seen.parts["head"][1]["weights"]
    return Step(_state(number, value), seconds, frame, told, head, pupil.seen.after)


def _state(number: int, value: float) -> dict[str, Any]:
    """The link after that move, as the pupil's own browser would hold it."""
    block, layer, head = SHARED["block"], int(SHARED["layer"]), int(SHARED["head"])
    edits = TEMPERATURE.moved(Intervention(), Place(block, layer, head, "head"), value)
    own = {"text": sentence_of(number), "edits": edits.to_json(), "model": "en-de"}
    return DEFAULTS | own | {"block": block, "layer": layer, "head": head}


def _sees(browser: Browser, url: str, end: float) -> list[float]:
    """The pupil with a real browser: seconds from a key to both pictures on the screen."""
    page = visitor(browser)
    begin(page, f"{url}/?{_query()}")
    draw = random.Random(1)
    while time.monotonic() < end or not page.evaluate(SHOWN):
        page.keyboard.press(draw.choice(("ArrowLeft", "ArrowRight")))
        page.wait_for_timeout(1000 * EVERY)
    found = page.evaluate(SHOWN)
    page.context.close()
    return [max(step["atlas"], step["head"]) / 1000 for step in found]


def _query() -> str:
    return "&".join(f"{name}={text}" for name, text in SHARED.items())


class Truth:
    """What the model says of a sentence under a temperature, run here for one pupil at a time."""

    def __init__(self) -> None:
        self.model = tv.load("en-de")
        self._clean: dict[str, tuple[list[int], tuple[int, ...]]] = {}

    def head(self, state: Mapping[str, Any]) -> np.ndarray:
        """The opened head ``[query, key]`` of the changed run over the clean run's words."""
        if state["text"] not in self._clean:
            self._clean[state["text"]] = self._held(state["text"])
        target, produced = self._clean[state["text"]]
        held: Any = {"target": target, "produced": produced, "keep": ("weights",)}
        changes = Intervention.from_json(state["edits"])
        now = tv.trace(self.model, state["text"], intervention=changes, **held)
        layer: np.ndarray = now.attention(state["block"], layer=state["layer"])
        return layer[state["head"]]

    def _held(self, text: str) -> tuple[list[int], tuple[int, ...]]:
        best = tv.translate(self.model, text, beam=DEFAULTS["beam"])[0]
        ids = best.ids[:-1] if best.finished else best.ids
        target = [*self.model.tokenizer.target_ids(""), *ids]
        clean = tv.trace(self.model, text, target=target)
        assert clean.produced is not None
        return target, clean.produced.ids

    def free(self, state: Mapping[str, Any]) -> str:
        """What the changed model writes when nobody holds its words."""
        changes = Intervention.from_json(state["edits"])
        beam = DEFAULTS["beam"]
        return tv.translate(self.model, state["text"], beam=beam, intervention=changes)[0].text


def mixed(steps: Sequence[Step], truth: Truth) -> list[str]:
    """What pupils were shown otherwise than their own sentences and steps give.

    Every frame, and the page's every own answer, is compared cell by cell with a run of its own;
    the free translation of every fourth step word by word.
    """
    found = []
    for number, step in enumerate(steps):
        wanted = truth.head(step.state)
        frame = decoded(step.frame["head"])[1]["weights"]
        found += [
            f"{what} of “{step.state['text']}” {step.state['edits']}"
            for what, shown in (("frame", frame), ("answer", step.head))
            if not same(shown, wanted)
        ]
        words = [word for word in step.after.split() if word != "…"]  # a mark where some are gone
        if number % FREE == 0 and words != truth.free(step.state).split():
            found.append(f"translation {step.after!r} of “{step.state['text']}”")
    return found


def same(shown: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether a map on a screen is this head; in cross-attention no cell is masked."""
    return shown.shape == wanted.shape and bool(np.abs(shown - wanted).max() <= CLOSE)


def slow(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return (
        quantiles(times, n=20, method="inclusive")[-1]
        if len(times) > 1
        else max(times, default=0.0)
    )


def section(
    met: Class,
    wrong: Sequence[str],
    pupils: int,
    seconds: float,
    workers: int = 1,
    compared: int | None = None,
) -> Section:
    """What the results say about the class."""
    frames = [step.seconds for step in met.steps]
    answers = [step.told for step in met.steps]
    opened = [visit.opened for visit in met.visits if visit.opened]
    typed = [visit.typed for visit in met.visits if visit.typed]
    notes = (
        f"{pupils} pupils open a shared link (cross, L1 H3) within "
        f"{min(ARRIVING, seconds / 3):.0f} s, type a sentence each, and move the temperature every "
        f"{EVERY:g} s for {seconds:.0f} s: the live frame of the step, and {REST:g} s later the "
        "page's own answer with the free translation. All but one are raw websocket clients with "
        "the requests of a browser; one is a real Chromium, from key to paint. Clients and server "
        f"share one machine. Of {len(met.steps)} moves, hardly a temperature twice, "
        f"{len(met.steps) if compared is None else compared} were compared with runs of that "
        "sentence and temperature in another process: the frame, the answer's map, and the free "
        f"translation of every {FREE}th."
    )
    table: list[Row] = [("what", "times", "p50", "p95", "slowest")]
    for name, times in (
        ("move to frame", frames),
        ("move to paint, in the browser", met.painted),
        ("hand at rest to the page's whole answer", answers),
        ("link to the whole page", opened),
        ("sentence to the whole page", typed),
    ):
        if times:
            found = (median(times), slow(times), max(times))
            table.append((name, str(len(times)), *(f"{t:.2f} s" for t in found)))
    held = f"{met.memory[0]:.0f} MB to {met.memory[-1]:.0f} MB, most {max(met.memory):.0f} MB"
    table.append(("server, resident", str(len(met.memory)), held, "", ""))
    if workers > 1:
        each = " and ".join(f"{one:.0f} MB" for one in met.each)
        table.append(("of it each worker, at the end", str(workers), each, "", ""))
    table += cost(met)
    budgets = [
        Budget("move to frame, p95", slow(frames), SLOW, " s"),
        Budget("errors", len(met.errors), 0),
        Budget("frames and answers that are another's", len(wrong), 0),
        Budget("growth of the server's memory", growth(met.memory), GROWN, " MB"),
    ]
    title = "Soak: a class" if workers == 1 else f"Soak: a class before {workers} workers"
    return Section(title, notes, table, budgets)


def cost(met: Class) -> list[Row]:
    """CPU milliseconds of the server for each move, and for what; the clock of its threads."""
    if len(met.computed) < 2 or met.computed[0][0] == met.computed[-1][0]:
        return []
    (moves, before), (later, after) = met.computed[0], met.computed[-1]
    each = {n: 1000 * (s - before.get(n, 0.0)) / (later - moves) for n, s in after.items()}
    whole = each.pop("all", 0.0)
    split = ", ".join(f"{name} {each[name]:.0f} ms" for name in sorted(each))
    return [("server, CPU of a move", str(later - moves), f"{whole:.0f} ms: {split}", "", "")]
