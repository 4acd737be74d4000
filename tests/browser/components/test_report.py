"""The report in a real browser with networking off: a file, opened as its reader would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser import watched
from tests.support.scripts import script
from tests.views.large import large_trace
from tests.views.test_html_report import CLEAN, EVIL, WARM, hostile
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.metrics import describe_row
from transformer_viz.views.export.html_report import report
from transformer_viz.views.export.lines import lines


class Offline:
    """Opens pages from a folder, and counts what they ask of anybody else."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.asked: list[str] = []
        self.errors: list[list[str]] = []

    def open(self, content: str, **words: object) -> Page:
        file = self.folder / "report.html"
        file.write_text(content, encoding="utf-8")
        chosen = {"viewport": {"width": 1300, "height": 1000}, "color_scheme": "light"} | words
        context = self.browser.new_context(**chosen)  # type: ignore[arg-type]
        context.set_offline(True)
        page = context.new_page()
        page.set_default_timeout(20_000)
        self.errors.append(watched(page))
        page.on("request", lambda request: self.asked.append(request.url))
        page.route(re.compile("^(?!file:)"), lambda route: route.abort())
        page.goto(file.as_uri())
        return page


@pytest.fixture
def offline(browser: Browser, tmp_path: Path) -> Iterator[Offline]:
    """Nothing but the file itself is asked for, and nothing is reported as an error."""
    before = set(browser.contexts)
    found = Offline(browser, tmp_path)
    yield found
    for context in set(browser.contexts) - before:
        context.close()
    foreign = [url for url in found.asked if not url.startswith(("file:", "about:", "data:"))]
    assert not foreign
    assert not any(found.errors), found.errors


def painted(page: Page) -> None:
    expect(page.locator("#tv-report[data-painted]")).to_be_visible()


def colours(canvas: Locator) -> int:
    """How many colours stand on a canvas."""
    return int(canvas.evaluate(script("colours")))


def told_of(page: Page) -> tuple[tuple[int, int], float]:
    """The place and the number that the map's tip tells of a cell of the encoder."""
    said = page.locator(".tv-map .tip").inner_text()
    query, key, number = re.fullmatch(r"(.+) → (.+): ([\d.]+)", said).groups()  # type: ignore
    labels = CLEAN.source.labels
    return (labels.index(query), labels.index(key)), float(number)


def test_it_opens_offline_and_hand_and_keys_read_it(offline: Offline) -> None:
    # it opens offline and is painted
    page = offline.open(report(CLEAN, opened=("encoder", 1, 2), title="Four words"))
    painted(page)
    assert page.title() == "Four words"
    assert colours(page.locator(".tv-atlas .tv-window canvas").first) > 20
    assert colours(page.locator(".tv-map .picture canvas").first) > 10
    expect(page.locator(".tv-chip")).to_have_count(9)
    # the weight at the keyboard and under the pointer is the run's
    weights = CLEAN.attention("encoder", layer=1)[2]
    picture = page.locator(".tv-map .picture")
    picture.focus()
    for row, step in enumerate(("Home", "ArrowDown", "ArrowDown")):
        page.keyboard.press(step)
        place, number = told_of(page)
        assert place[0] == row
        assert abs(number - weights[place]) <= 0.5e-4 + 1 / 65535
    box = picture.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
    place, number = told_of(page)
    assert abs(number - weights[place]) <= 0.5e-4 + 1 / 65535
    # the keyboard opens a head
    expect(page.locator("h2")).to_have_text("encoder L1 H2")
    page.locator(".tv-atlas .tv-frame").focus()
    for key in ("ArrowUp", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h2")).to_have_text("encoder L0 H1")
    entropy = CLEAN.heads.query("stack == 'encoder' and layer == 0 and head == 1")["entropy"]
    expect(page.locator(".tv-map .numbers")).to_contain_text(f"{entropy.item():.2f} bits")
    # a click opens a head
    frame, tip = page.locator(".tv-atlas .tv-frame"), page.locator(".tv-atlas .tv-tip")
    box = frame.bounding_box()
    assert box
    for across in np.linspace(0.05, 0.95, 40):
        x, y = box["x"] + across * box["width"], box["y"] + 0.35 * box["height"]
        page.mouse.move(x, y)
        if tip.is_visible() and "H2" in tip.inner_text():
            break
    (opened,) = re.findall(r"L\d H\d", tip.inner_text())[:1]
    page.mouse.click(x, y)
    expect(page.locator("h2")).to_contain_text(opened)


def test_lines_words_and_other_blocks(offline: Offline) -> None:
    # lines show the opened head and those laid over it
    page = offline.open(report(CLEAN, opened=("cross", 1, 2)))
    painted(page)
    legend, frame = page.locator(".tv-lines .legend li"), page.locator(".tv-atlas .tv-frame")
    page.get_by_role("radio", name="Lines").click()
    expect(page.locator(".tv-lines")).to_be_visible()
    expect(page.locator(".tv-map")).to_be_hidden()
    expect(legend).to_have_text(["L1 H2"])
    assert colours(page.locator(".tv-lines canvas").first) > 10
    frame.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("o")
    expect(legend).to_have_text(["L1 H2", "L1 H1"])
    page.get_by_role("radio", name="Lines").press("ArrowLeft")
    expect(page.locator(".tv-map")).to_be_visible()
    # a chosen word is chosen in all pictures
    page.get_by_role("toolbar", name="target").get_by_role("button", name="Ka").click()
    row = CLEAN.attention("cross", layer=1)[2][1]
    said = describe_row(row, "Ka", CLEAN.source.labels)
    expect(page.locator(".tv-map .said")).to_have_text(said)
    pressed = page.locator(".tv-chip[aria-pressed=true]")
    expect(pressed).to_have_text(["Ka"])
    page.get_by_role("toolbar", name="source").get_by_role("button", name="at").hover()
    expect(page.locator(".tv-chip.lit")).to_have_text(["at"])
    # another block forgets what was laid over
    page.get_by_role("radio", name="Lines").click()
    frame.focus()
    page.keyboard.press("Home")  # a head of the first block
    page.keyboard.press("Enter")
    expect(legend).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("o")
    live = page.locator(".tv-atlas [aria-live]")
    expect(live).to_have_text("L1 H1 added to the lines")  # the other block's L1 H1 is forgotten


def test_a_comparison_can_be_switched_and_says_which_run_is_drawn(offline: Offline) -> None:
    page = offline.open(report(WARM, CLEAN, opened=("cross", 1, 2)))
    painted(page)
    expect(page.get_by_role("radio", name="Now")).to_have_attribute("aria-checked", "true")
    most = max(float(t.attention("cross", layer=1)[2].max()) for t in (WARM, CLEAN))
    legend, numbers = page.locator(".tv-map .legend"), page.locator(".tv-map .numbers")
    expect(legend).to_contain_text(f"{most:.2f}")
    expect(numbers).to_contain_text(f"{entropy(WARM):.2f} bits")
    page.get_by_role("radio", name="Before").click()
    expect(legend).to_contain_text(f"{most:.2f}")  # both in the same colours
    expect(numbers).to_contain_text(f"{entropy(CLEAN):.2f} bits")
    page.get_by_role("radio", name="Before").press("ArrowRight")
    change = WARM.attention("cross", layer=1)[2] - CLEAN.attention("cross", layer=1)[2]
    expect(legend).to_contain_text(f"{np.abs(change).max():.2f}")
    page.locator(".tv-map .picture").focus()
    page.keyboard.press("Home")
    number = page.locator(".tv-map .tip").inner_text().rpartition(" ")[2].replace("−", "-")
    assert abs(float(number) - change[0, 0]) <= 0.5e-4 + 2 / 65534
    page.get_by_role("toolbar", name="target").get_by_role("button", name="Ka").click()
    now, was = (
        describe_row(trace.attention("cross", layer=1)[2][1], "Ka", CLEAN.source.labels)
        for trace in (WARM, CLEAN)
    )
    assert now != was
    for run, said in (("Before", was), ("Difference", now), ("Now", now)):
        page.get_by_role("radio", name=run).click()
        expect(page.locator(".tv-map .said")).to_have_text(said)


def entropy(trace: Trace) -> float:
    return float(
        trace.heads.query("block == 'cross' and layer == 1 and head == 2")["entropy"].item()
    )


def test_themes_hostile_words_and_notebooks(offline: Offline) -> None:
    # light and dark follow the reader
    for dark in (False, True):
        scheme = "dark" if dark else "light"
        page = offline.open(report(CLEAN), color_scheme=scheme)
        painted(page)
        ours = DARK if dark else LIGHT
        assert paper(page) == ours.paper and card(page) == ours.card, dark
        page.get_by_role("button", name="light or dark").click()
        other = LIGHT if dark else DARK
        assert paper(page) == other.paper and card(page) == other.card, dark
    # hostile words do nothing
    page = offline.open(report(hostile(), title=EVIL[0]))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    painted(page)
    expect(page.locator("img")).to_have_count(0)
    expect(page.locator("h1")).to_have_text(EVIL[0])
    expect(page.locator(".tv-chip").first).to_have_text(EVIL[0])
    page.locator(".tv-map .picture").focus()
    page.keyboard.press("Home")
    expect(page.locator("img")).to_have_count(0)
    # a notebook shows the same
    picture = lines(CLEAN, "cross", [(1, 2), (0, 1)])
    page = offline.open(f"<!doctype html><meta charset=utf-8><body>{picture._repr_html_()}</body>")
    inside = page.frame_locator("iframe")
    expect(inside.locator(".tv-lines .legend li")).to_have_text(["L1 H2", "L0 H1"])
    assert colours(inside.locator(".tv-lines canvas").first) > 10
    expect(page.locator("body > p")).to_have_text(picture.caption)


def paper(page: Page) -> str:
    found = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return "#{:02X}{:02X}{:02X}".format(*map(int, re.findall(r"\d+", found)))


def card(page: Page) -> str:
    """The colour that the map was painted for."""
    return str(page.locator(".tv-map").evaluate("e => e.style.getPropertyValue('--card')"))


def test_long_and_crowded_runs_say_what_is_left_out(offline: Offline) -> None:
    # heads that are not inside are said to be left out of the lines
    trace = crowded()
    page = offline.open(report(trace, opened=("encoder", 0, 0)))
    painted(page)
    page.locator(".tv-atlas .tv-frame").focus()
    note = page.locator(".tv-lines").get_by_text("left out of the lines")
    for key in ("ArrowRight", "o"):
        page.keyboard.press(key)
    expect(page.locator(".tv-lines .legend li")).to_have_count(2)
    expect(note).to_be_hidden()
    for key in ("ArrowDown", "o"):
        page.keyboard.press(key)
    expect(note).to_be_visible()
    # one that is opened says so itself
    table = trace.heads.sort_values("entropy")
    layer, head = (int(table.iloc[-1][name]) for name in ("layer", "head"))
    assert layer == 1  # where the keyboard is
    for key in ("Home", *["ArrowRight"] * head, "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h2")).to_have_text(f"encoder L{layer} H{head}")
    expect(page.get_by_role("status").filter(has_text="not in this file")).to_be_visible()
    expect(page.locator(".tv-map")).to_be_hidden()
    # a long sentence is exact where it is enlarged
    trace = large_trace(1, 3, 300)
    page = offline.open(report(trace, opened=("encoder", 0, 1)))
    painted(page)
    picture, tip = page.locator(".tv-map .picture"), page.locator(".tv-map .tip")
    picture.focus()
    page.keyboard.press("Home")
    expect(tip).to_contain_text("the largest of 2 × 2 weights")
    for _ in range(3):
        page.keyboard.press("+")
    expect(page.locator(".tv-map .note")).to_contain_text("Every cell is one weight.")
    page.keyboard.press("ArrowRight")
    query, key, number = re.fullmatch(r"word(\d+) → word(\d+): ([\d.]+)", tip.inner_text()).groups()  # type: ignore
    weight = trace.attention("encoder", layer=0)[1, int(query), int(key)]
    assert abs(float(number) - weight) <= 0.5e-4 + 1 / 65535
    # its lines say that they are of one head
    note = page.locator(".tv-lines").get_by_text("lines are drawn of the opened head only")
    page.get_by_role("radio", name="Lines").click()
    expect(note).to_be_hidden()
    page.locator(".tv-atlas .tv-frame").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("o")
    expect(note).to_be_visible()
    expect(page.locator(".tv-lines .legend li")).to_have_count(1)


def crowded() -> Trace:
    """A run that kept the weights of its first layer alone."""
    trace = large_trace(2, 3, 11)
    kept = tuple(a for a in trace.attentions if a.site.layer == 0)
    heads = trace.heads.copy()
    heads.loc[heads["layer"] == 1, "entropy"] += 10
    return replace(trace, attentions=kept, heads=heads)
