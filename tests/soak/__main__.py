"""`make soak`: the app under strain for ten minutes and more; nothing may break or be mixed.

    python -m tests.soak [monkey visitors pupils peers fuzz] [--seconds 600] [--changes 200]
                              [--pupils 30] [--workers 1] [--kill] [--nth 1] [--seed 1]

The test suite holds some seconds of the first three and of the last, which tries odd inputs on
each reader of files, links and sentences (``--seconds`` is for each of them). The fourth asks what
others need to draw the same heads; it installs their packages into a folder of their own and takes
some minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page

from benchmarks.class_section import section
from benchmarks.memory import Diary, growth, server_of, slope
from benchmarks.peers import peers
from benchmarks.pupils import Truth, lesson, mixed, unlike
from benchmarks.report import Budget, Row, Section, write
from benchmarks.visits import browser, needs_model, visitor
from tests.soak import fuzz
from tests.soak.cut import lost
from tests.soak.monkey import Found, play
from tests.soak.visitors import Tale, together
from tests.support.browser import running_app
from tests.support.rest import rest
from transformer_viz.core.interventions import Intervention, Temperature

CACHE = 256  # megabytes of runs that the app's cache may hold
MONKEY, LESSON = 600.0, 180.0  # seconds
SERVER, PAGE = 60, 30  # megabytes by which the server and a page may grow once all is warm
LONG = "We can't go home before it stops raining, and " * 9
FILLING = 30  # runs of the long sentence, 9.4 megabytes each: more than the cache may hold


def main() -> int:
    parser = argparse.ArgumentParser(description="Put the app under strain.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--seconds", type=float, default=None, help="of the monkey, or of the pupils"
    )
    parser.add_argument("--changes", type=int, default=200, help="of the two visitors together")
    parser.add_argument("--pupils", type=int, default=30, help="in the class")
    parser.add_argument("--workers", type=int, default=1, help="processes of the app")
    parser.add_argument(
        "--kill", action="store_true", help="a worker in the middle of the pupils' lesson"
    )
    parser.add_argument("--nth", type=int, default=1, help="of the pupils' moves are compared")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no soak {unknown[0]!r}; choose of {', '.join(NAMES)}")
    needs_model(dict(os.environ))
    held = [
        ALONE[name](asked) if name in ALONE else soak(name, asked) for name in asked.names or NAMES
    ]
    return 0 if all(held) else 1


def beside_others(asked: argparse.Namespace) -> bool:
    """Measure what others need for the same heads, without the app."""
    return kept(peers())


def odd_inputs(asked: argparse.Namespace) -> bool:
    """Try odd inputs on every reader, without the app."""
    seconds = asked.seconds or fuzz.SECONDS
    tallies = []
    for name in fuzz.NAMES:
        tallies.append(fuzz.fuzz(name, seconds, None, asked.seed))
        print(*tallies[-1].lines(), sep="\n", flush=True)
    return kept(fuzz.section(tallies, asked.seed))


def kept(result: Section) -> bool:
    """Write a section, and tell whether all its budgets are kept."""
    write(result)
    print(result.text)
    return all(budget.kept for budget in result.budgets)


def soak(name: str, asked: argparse.Namespace) -> bool:
    """Run one, write its section, and tell whether all its budgets are kept."""
    broken: list[str] = []
    result = None
    try:
        with browser() as chromium, running_app(workers=asked.workers) as url:
            result = SOAKS[name](chromium, url, asked, broken)
    except RuntimeError as error:  # the server wrote a traceback
        broken.append(str(error))
    if result is not None and not any("Traceback" in one for one in broken):
        write(result)
        print(result.text)
    print(*broken, sep="\n")
    return result is not None and not broken and all(budget.kept for budget in result.budgets)


def monkey(chromium: Browser, url: str, asked: argparse.Namespace, broken: list[str]) -> Section:
    """A monkey, and what the server and the page hold meanwhile."""
    page = visitor(chromium)
    fill(page, url)
    diary = Diary(server_of(url))
    seconds = asked.seconds or MONKEY
    found = play(page, url, seconds, asked.seed, diary)
    broken += found.broken
    return monkeys(found, diary, seconds, asked.seed)


def fill(page: Page, url: str) -> None:
    """Ask for so many long runs that the cache is full: what grows later is no cache."""
    for number in range(FILLING):
        warm = Intervention((Temperature(value=1.5 + number / 100),)).to_json()
        page.goto(f"{url}/?{urlencode({'text': LONG, 'beam': 1, 'edits': warm})}")
        page.locator(".st-key-head-view [data-painted]").wait_for()
    rest(page)


def monkeys(found: Found, diary: Diary, seconds: float, seed: int) -> Section:
    """What the results say about the monkey."""
    actions = sum(found.done.values())
    notes = (
        f"{seconds:.0f} seconds, seed {seed}, {actions} actions on all pages in a real browser; "
        f"longest wait for an answer {max(found.waits, default=0):.1f} s. Before it began, "
        f"{FILLING} changed runs of a sentence of 118 tokens, 9.4 MB each, had filled the app's "
        f"cache to its bound of {CACHE} MB. Memory was read every {diary.every:.0f} s, the page's "
        "after a garbage collection; growth is the median of the last third of the readings less "
        "that of the second one, slope a line through both."
    )
    table: list[Row] = [("memory", "begin, MB", "end, MB", "largest, MB", "slope, MB/min")]
    for name, values in (("server, resident", diary.server), ("page, JavaScript", diary.page)):
        line = slope(diary.seconds, values)
        numbers = (values[0], values[-1], max(values))
        table.append((name, *(f"{number:.0f}" for number in numbers), f"{line:+.1f}"))
    table += [("**action**", "**times**", "", "", "")]
    table += [(name, str(times), "", "", "") for name, times in found.done.most_common()]
    budgets = [
        Budget("broken pages, errors in a console or on the server", len(found.broken), 0),
        Budget("growth of the server's memory", growth(diary.server), SERVER, " MB"),
        Budget("growth of the page's memory", growth(diary.page), PAGE, " MB"),
    ]
    return Section("Soak: a monkey", notes, table, budgets)


def visitors(chromium: Browser, url: str, asked: argparse.Namespace, broken: list[str]) -> Section:
    """Two visitors at once, each screen against the models in this process."""
    tale = together(chromium, url, asked.changes, asked.seed)
    broken += tale.broken
    return twos(tale, asked.seed)


def twos(tale: Tale, seed: int) -> Section:
    """What the results say about the two visitors."""
    heaps = f"{tale.heaps[0]:.0f} MB at the beginning and {tale.heaps[-1]:.0f} MB at the end"
    notes = (
        f"Two browsers, different models, sentences and edits, seed {seed}: {tale.changes} "
        f"changes, two at a time, neither waited for; both scripts ran at the same moment in "
        f"{tale.overlaps} of {tale.rounds} rounds. After each, sentence, translation, chips, "
        "edits, the opened head with its map and numbers, every held word's probability and rank, "
        "the freely translated sentence and the chosen norm were compared with what the models "
        "said in another process. Both pages stayed open all the while: their JavaScript held "
        f"{heaps}."
    )
    table: list[Row] = [("change", "times"), *((n, str(c)) for n, c in tale.done.most_common())]
    budgets = [
        Budget("screens that showed anything else", len(tale.broken), 0),
        Budget("growth of both pages' memory", growth(tale.heaps), PAGE, " MB"),
    ]
    return Section("Soak: two visitors", notes, table, budgets)


def pupils(chromium: Browser, url: str, asked: argparse.Namespace, broken: list[str]) -> Section:
    """A class of pupils, and what each was shown against the model in this process."""
    seconds = asked.seconds or LESSON
    met = lesson(chromium, url, asked.pupils, seconds, asked.kill)
    compared, truth = met.steps[:: asked.nth], Truth()
    wrong, others = mixed(compared, truth), unlike(met.cuts, truth)
    broken += [*met.errors, *wrong, *others, *lost(met.cuts)]
    numbers = asked.pupils, seconds, asked.workers, len(compared)
    return section(met, wrong, *numbers, others)


SOAKS = {"monkey": monkey, "visitors": visitors, "pupils": pupils}
ALONE = {"peers": beside_others, "fuzz": odd_inputs}  # they need no app
NAMES = (*SOAKS, *ALONE)

if __name__ == "__main__":
    sys.exit(main())
