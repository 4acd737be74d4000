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
from typing import Any

import numpy as np
from playwright.sync_api import Browser
from websockets.exceptions import ConnectionClosed

import transformer_viz as tv
from benchmarks.memory import resident, server_of, workers_of
from benchmarks.pupil import Pupil
from benchmarks.slider import SHOWN, begin
from benchmarks.visits import visitor
from tests.soak import cut
from tests.soak.cut import Cut, Death
from tests.support.component_stage import decoded
from transformer_viz.app.session.url_state import DEFAULTS
from transformer_viz.components.edit_sliders import TEMPERATURE
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention

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
    seconds: float  # 0 where the worker was killed before it gave the frame
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
    cuts: list[Cut] = field(default_factory=list)


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

    death: Death | None = None

    @property
    def errors(self) -> list[str]:
        dead = self.death.errors if self.death else []
        return [*(error for visit in self.visits for error in visit.errors), *dead]

    @property
    def cuts(self) -> list[Cut]:
        return [one for visit in self.visits for one in visit.cuts]


def sentence_of(number: int) -> str:
    """A sentence that no other pupil of the class types."""
    return f"{WHO[number % len(WHO)]} {WHAT[number // len(WHO) % len(WHAT)]}"


def lesson(browser: Browser, url: str, pupils: int, seconds: float, kill: bool = False) -> Class:
    """The class at work: one pupil with a real browser, all others without.

    The server stands there when they come: each worker has its model. With ``kill`` one of them is
    killed in the middle, with whoever is with it.
    """
    _until_ready(url)
    start = time.monotonic()
    arriving = min(ARRIVING, seconds / 3)
    end = start + arriving + seconds
    met = Class([Visit(number) for number in range(pupils - 1)])
    met.death = Death(start + arriving + seconds / 2) if kill else None
    threads = [
        threading.Thread(
            target=_works,
            args=(visit, url, start + arriving * visit.number / pupils, end, met.death),
        )
        for visit in met.visits
    ]
    watch = threading.Thread(target=_watch, args=(met, url, start + arriving, end))
    if met.death is not None:
        threads.append(threading.Thread(target=cut.kill, args=(url, met.death)))
    for thread in (*threads, watch):
        thread.start()
    met.painted = _sees(browser, url, end)
    for thread in (*threads, watch):
        thread.join()
    return met


def _until_ready(url: str) -> None:
    """Wait until every worker has loaded its model."""
    while True:
        with suppress(OSError), urllib.request.urlopen(f"{url}/ready", timeout=60) as answer:
            told = re.match(r"(\d+) of (\d+)", answer.read().decode())
            if told is None or told[1] == told[2]:
                return
        time.sleep(0.2)


def _watch(met: Class, url: str, begin: float, end: float) -> None:
    """Write down what the server holds in memory and has computed, all its workers together."""
    server, began = server_of(url), time.monotonic()
    while time.monotonic() < end:
        met.seconds.append(time.monotonic() - began)
        each = []
        for process in workers_of(server):
            with suppress(OSError, LookupError):  # it was killed just now
                each.append(resident(process))
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


def _works(visit: Visit, url: str, start: float, end: float, death: Death | None) -> None:
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
        shown = None  # the temperature that stands on the screen
        for value in _values(visit.number):
            if time.monotonic() > end and len(visit.steps) >= LEAST:
                break
            next_move = time.monotonic() + EVERY
            shown = _moves_on(pupil, visit, value, shown, death)
            time.sleep(max(0.0, next_move - time.monotonic()))
    except Exception as error:  # a benchmark reports what went wrong and goes on with the others
        visit.errors.append(f"pupil {visit.number}: {type(error).__name__}: {error}")
    visit.errors += [f"pupil {visit.number} was told: {words}" for words in pupil.seen.alerts]
    with suppress(OSError):
        pupil.end()


def _moves_on(
    pupil: Pupil, visit: Visit, value: float, shown: float | None, death: Death | None
) -> float:
    """One step of the slider, however often the server breaks off; gives what is shown now.

    A page whose worker died connects anew. Where it was waiting for the answer to a move, the
    slider tells that move again to the server that goes on (`slider.js`, `isUnheard`).
    """
    try:
        visit.steps.append(_moves(pupil, visit.number, value))
        return value
    except (ConnectionClosed, ConnectionError):
        if death is None or not death.dead.wait(1.0):
            raise
    waited = pupil.waits
    pupil.again()
    shown = value if waited else shown
    text, link = cut.link_of(pupil)
    again = waited and link != value
    if again:
        pupil.tell(TEMPERATURE.write(value), int(pupil.slider["seq"]) + 1)
        text, link = cut.link_of(pupil)
    seconds = time.monotonic() - death.at
    head = pupil.seen.parts["head"][1]["weights"]
    visit.cuts.append(Cut(visit.number, seconds, shown, link, text, head, again))
    return link if link is not None else value


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


def unlike(cuts: Sequence[Cut], truth: Truth) -> list[str]:
    """Who was shown anything else than the own link says, after the worker had died."""
    return [
        f"pupil {one.number} saw another map than that of “{one.text}” at {one.link}"
        for one in cuts
        if one.text != sentence_of(one.number)
        or one.head is None
        or not same(one.head, truth.head(_state(one.number, one.link or 1.0)))
    ]


def same(shown: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether a map on a screen is this head; in cross-attention no cell is masked."""
    return shown.shape == wanted.shape and bool(np.abs(shown - wanted).max() <= CLOSE)
