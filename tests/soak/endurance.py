"""A day in short: visitors of every kind come and go for hours; what the server holds stays flat.

    python -m tests.soak.endurance [--seconds 10800] [--seed 1]

Pupils move sliders, others open odd links, bring sound and broken checkpoints, ask for too many
frames, or break off in the middle of a run. Meanwhile and afterwards the server's memory, open
files, threads, processes and temporary files are read, and after an hour or more
benchmarks/RESULTS.md tells.

What stays afterwards is expected to be this: the nursery, for each model of a stranger that is kept
(at most ``MODELS_KEPT``) the process of its tokenizer with a folder and a descriptor, and three
descriptors of Streamlit's for each visit of the last two minutes, which it lets go of when a later
visit ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.memory import resident, server_of
from benchmarks.pupil import Pupil
from benchmarks.report import Budget, Row, Section, write
from tests.fuzz import mutators, seeds, texts
from tests.support.browser import running_app
from transformer_viz import settings
from transformer_viz.components.edit_sliders import TEMPERATURE
from transformer_viz.core.interventions import Intervention, Temperature

HOUR = 3600.0  # seconds; a shorter day is not written down
EVERY = 10.0  # seconds from reading to reading
CALM = 200.0  # seconds after the last visitor, in which visits and what they held are let go of
LETS_GO = 5.0  # seconds after a visit until what it held is gone
THINKS = 1.0  # seconds between what one visitor does
GROWN, FILES, THREADS = 60, 12, 6  # megabytes, open files and threads by which it may grow
SMALL = ("ours", "gpt2", "bert", "nanogpt", "vit")  # checkpoints that are brought
LONG = "We can't go home before it stops raining, and " * 9
FILLING = 30  # runs of the long sentence, 9.4 megabytes each: more than the cache may hold
LINK = {"block": "cross", "layer": "1", "head": "3"}
READING = ("megabytes", "files", "threads", "processes", "temporary")


@dataclass
class Reading:
    """What the server and the processes below it hold at one moment."""

    seconds: float
    megabytes: float  # of the server itself
    files: int  # that it has open, connections too
    threads: int
    processes: int  # below it
    temporary: int  # files and folders in its temporary folder

    def __str__(self) -> str:
        words = (f"{name} {getattr(self, name):.0f}" for name in READING)
        return f"{self.seconds:.0f} s: {', '.join(words)}"


@dataclass
class Day:
    """What visitors did and what was read; ``left`` are processes and files that outlived it."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    before: Reading | None = None
    after: Reading | None = None
    kept: int = 0  # processes of tokenizers, one for each model of a stranger that stays loaded
    left: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def below(process: int) -> list[int]:
    """All processes that a process and those below it have started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(words[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def works_in(process: int, place: Path) -> bool:
    """Whether a process has its own folder below the server's temporary one, as tokenizers do."""
    with contextlib.suppress(OSError):
        return Path(os.readlink(f"/proc/{process}/cwd")).is_relative_to(place)
    return False


def read(process: int, place: Path, began: float) -> Reading:
    """What the server holds now."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    threads = next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:"))
    return Reading(
        time.monotonic() - began,
        resident(process),
        len(os.listdir(f"/proc/{process}/fd")),
        int(threads),
        len(below(process)),
        sum(1 for _ in place.rglob("*")),
    )


# ---- the visitors -------------------------------------------------------------------------------


@dataclass
class Scenery:
    """What visitors find: the app, and a folder whose checkpoints are changed all the time."""

    url: str
    folder: Path
    known: list[seeds.Seed]


Act = Callable[[Scenery, random.Random], None]


@contextlib.contextmanager
def visit(scenery: Scenery, **link: str) -> Iterator[Pupil]:
    """A visit with a link, for as long as it is wanted."""
    pupil = Pupil(scenery.url)
    try:
        pupil.open(LINK | link)
        yield pupil
    finally:
        pupil.end()


def learns(scenery: Scenery, draw: random.Random) -> None:
    """Types a sentence and moves the temperature a few times."""
    words = ("The", "old", "dog", "cat", "sees", "a", "house", "and", "runs", "home")
    with visit(scenery) as pupil:
        pupil.type(" ".join(draw.choices(words, k=draw.randint(3, 9))) + ".")
        for _ in range(draw.randint(1, 5)):
            value = TEMPERATURE.write(round(draw.uniform(0.2, 5), 3))
            seq = int(pupil.slider["seq"]) + 1
            pupil.frame(value, seq)
            pupil.tell(value, seq + 1)
            time.sleep(THINKS)


def follows(scenery: Scenery, draw: random.Random) -> None:
    """Opens a link that says anything."""
    link = texts.query(b"text=The cat sat.&beam=2&layer=1&block=cross&zoom=0-3,1-2", draw)
    plain = {k.encode(errors="replace").decode(): v.encode(errors="replace").decode()
             for k, v in link.items()}  # fmt: skip
    with visit(scenery, **plain):
        time.sleep(THINKS)


def brings(scenery: Scenery, draw: random.Random) -> None:
    """Opens a checkpoint of its own, which is sound every third time."""
    seed = draw.choice(scenery.known)
    files = seed.files
    if draw.randrange(3):
        files = mutators.changed(files, [one.files for one in scenery.known], draw)
    place = Path(tempfile.mkdtemp(dir=scenery.folder))
    try:
        for name, content in files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        opened = place / seed.opened if seed.opened in files else place
        with visit(scenery, model=f"path:{opened}"):
            time.sleep(THINKS)
    finally:
        shutil.rmtree(place)


def breaks_off(scenery: Scenery, draw: random.Random) -> None:
    """Asks for a long translation and leaves in the middle of it."""
    pupil = Pupil(scenery.url)
    late = threading.Timer(draw.uniform(0.5, 4), pupil.socket.close)
    late.start()
    text = " ".join(str(draw.randrange(10**6)) for _ in range(12))
    with contextlib.suppress(Exception):  # the line was cut, by itself
        pupil.open(LINK | {"text": text})
    late.join()
    pupil.end()


def floods(scenery: Scenery, draw: random.Random) -> None:
    """Asks for many more frames than a visit may have."""
    with visit(scenery) as pupil:
        seq = int(pupil.slider["seq"]) + 1
        for number in range(draw.randint(50, 300)):
            with contextlib.suppress(ConnectionError):  # refused, or given up for a newer one
                pupil.frame(TEMPERATURE.write(round(draw.uniform(0.2, 5), 3)), seq + number)


ACTS: tuple[Act, ...] = (learns, learns, learns, follows, brings, breaks_off, floods)


def _lives(day: Day, scenery: Scenery, number: int, seed: int, end: float) -> None:
    """One visitor after the other, until the end."""
    draw = random.Random(f"{seed} {number}")
    while time.monotonic() < end:
        act = draw.choice(ACTS)
        error = ""
        try:
            act(scenery, draw)
        except Exception as caught:  # a benchmark reports what went wrong and goes on
            error = f"{act.__name__}: {type(caught).__name__}: {str(caught)[:300]}"
        with day.lock:
            day.done[act.__name__] += 1
            day.errors += [error] if error else []
        time.sleep(THINKS)


# ---- the day ------------------------------------------------------------------------------------


def day(seconds: float, seed: int, visitors: int, calm: float = CALM) -> Day:
    """The app, and so many visitors at any time for so long.

    Raises:
        RuntimeError: the server wrote a traceback.
    """
    met, known = Day(), [one for one in seeds.checkpoints() if one.name in SMALL]
    with tempfile.TemporaryDirectory() as room, tempfile.TemporaryDirectory() as folder:
        place = Path(room)
        words = {"TMPDIR": room, "TRANSFORMER_VIZ_ROOTS": folder}
        with environment(words), running_app() as url:
            fill(url)
            server, began = server_of(url), time.monotonic()
            scenery = Scenery(url, Path(folder), known)
            met.before = read(server, place, began)
            threads = [
                threading.Thread(target=_lives, args=(met, scenery, n, seed, began + seconds))
                for n in range(visitors)
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(EVERY)
                met.readings.append(read(server, place, began))
                if len(met.readings) % 30 == 1:
                    print(met.readings[-1], f"{met.done.total()} visits", flush=True)
            time.sleep(calm)
            with visit(scenery):  # when it ends, Streamlit lets go of those that are long over
                pass
            time.sleep(LETS_GO)
            met.after, started = read(server, place, began), below(server)
            met.kept = sum(works_in(one, place) for one in started)
            print(f"after {calm:.0f} s of calm: {met.after}, {met.kept} tokenizers", flush=True)
        time.sleep(2)
        met.left = [str(one) for one in place.rglob("*")]
        met.left += [f"process {one}" for one in started if Path(f"/proc/{one}").exists()]
    return met


def fill(url: str) -> None:
    """Ask for so many long runs that the cache is full: what grows later is no cache."""
    pupil = Pupil(url)
    for number in range(FILLING):
        warm = Intervention((Temperature(value=1.5 + number / 100),)).to_json()
        pupil.open(LINK | {"text": LONG, "beam": "1", "edits": warm})
    pupil.end()


@contextlib.contextmanager
def environment(words: dict[str, str]) -> Iterator[None]:
    """The environment with these words, for a server that is started meanwhile."""
    before = dict(os.environ)
    os.environ.update(words)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def section(met: Day, seconds: float, visitors: int, seed: int) -> Section:
    """What the results say."""
    thirds = len(met.readings) // 3
    middle, last = met.readings[thirds : 2 * thirds], met.readings[-thirds:]
    assert met.before is not None and met.after is not None
    notes = (
        f"{seconds:.0f} seconds, seed {seed}, {visitors} visitors at any time, "
        f"{met.done.total()} visits: each types and moves a slider, follows an odd link, brings a "
        "checkpoint that is broken two times of three, breaks off in a long translation, or floods "
        "the server with frames. The cache of runs was full before. Medians of the second and the "
        "last third, and one reading "
        f"{CALM:.0f} s after the last visitor has left. {met.kept} models of strangers were kept "
        "then, each with the process of its tokenizer, a folder and a descriptor: as expected."
    )
    table: list[Row] = [("what the server holds", "begin", "second third", "last third", "after")]
    for name in READING:
        of_name = [[getattr(one, name) for one in part] for part in (middle, last)]
        first, after = getattr(met.readings[0], name), getattr(met.after, name)
        numbers = (first, *map(median, of_name), after)
        table.append((name, *(f"{number:.0f}" for number in numbers)))
    table += [("**visit**", "**times**", "", "", "")]
    table += [(name, str(times), "", "", "") for name, times in met.done.most_common()]
    grown = {
        name: median(getattr(one, name) for one in last)
        - median(getattr(one, name) for one in middle)
        for name in READING
    }
    opened = met.after.files - met.before.files - met.kept
    budgets = [
        Budget("visits that met an error", len(met.errors), 0),
        Budget("growth of the server's memory", grown["megabytes"], GROWN, " MB"),
        Budget("growth of its open files", grown["files"], FILES),
        Budget("growth of its threads", grown["threads"], THREADS),
        Budget("kept models of strangers", met.kept, settings.MODELS_KEPT.number),
        Budget("temporary files afterwards, but their folders", met.after.temporary - met.kept, 4),
        Budget("processes afterwards, but theirs", met.after.processes - met.kept, 1),
        Budget("open files more than before, but theirs", opened, FILES),
        Budget("processes and files that outlived the server", len(met.left), 0),
    ]
    return Section("Soak: a day in short", notes, table, budgets)


def main() -> int:
    parser = argparse.ArgumentParser(description="Visitors of every kind, for hours.")
    parser.add_argument("--seconds", type=float, default=10_800)
    parser.add_argument("--visitors", type=int, default=6)
    parser.add_argument("--calm", type=float, default=CALM)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    met = day(asked.seconds, asked.seed, asked.visitors, asked.calm)
    found = section(met, asked.seconds, asked.visitors, asked.seed)
    if asked.seconds >= HOUR:
        write(found)
    print(found.text, *Counter(met.errors).most_common(40), *met.left, sep="\n")
    return int(not all(budget.kept for budget in found.budgets))


if __name__ == "__main__":
    sys.exit(main())
