"""A long text in a real browser: from the whole map down to one weight, and back by the link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.browser import running_app
from tests.support.long_model import page_of, write_long
from tests.support.page_actions import address, go
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.core.interventions import Intervention, Temperature

TOKENS = 2201  # of the tokens that whole words make
LAYER, HEAD = 1, 1
VIEW = (
    "() => { for (const host of document.querySelectorAll('*')) {"
    " const told = host.describe?.(); if (told?.part === 'head') return told.shown; } }"
)
TIP = ".st-key-card-head .tip"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: bytes) -> Path:
    made = tmp_path_factory.mktemp("chapter") / "long"
    write_long(made, tiny_vocabulary, 2)
    return made


@pytest.fixture(scope="module")
def long_url(folder: Path) -> Iterator[str]:
    """The address of an app that shows it first."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
        environment.setenv("TRANSFORMER_VIZ_MODELS", "")
        environment.setenv("OMP_NUM_THREADS", "1")
        with running_app() as url:
            yield url


def settled(page: Page) -> dict[str, Any]:
    """What the map shows once all its tiles are there and Python knows the part."""
    page.wait_for_function(
        f"() => {{ const s = ({VIEW})(); return s?.cells && !s.coming && s.resting; }}"
    )
    found: dict[str, Any] = page.evaluate(VIEW)
    return found


def hovered(page: Page, row: int, column: int) -> str:
    """What the tip says above a weight."""
    shown = settled(page)
    box = shown["cells"]
    (top, bottom), (left, right) = shown["rows"], shown["columns"]
    x = box["left"] + (column - left + 0.5) / (right - left) * box["width"]
    y = box["top"] + (row - top + 0.5) / (bottom - top) * box["height"]
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    tip = page.locator(TIP)
    expect(tip).to_be_visible()
    return tip.inner_text()


def test_from_the_whole_to_one_weight_and_back(
    page: Page, long_url: str, folder: Path, tiny_vocabulary: bytes
) -> None:
    text = page_of(tiny_vocabulary, TOKENS)
    model = longer(tv.load(folder), TOKENS)
    run = tv.trace(model, text, keep=("tiles",), check=False)
    words = {"layer": str(LAYER), "head": str(HEAD), "text": text}
    go(page, address(long_url, model="long", **words))
    whole = settled(page)
    assert whole["rows"] == [0, TOKENS] and whole["step"] == 8
    row, column = 1500, 800
    largest = run.tile("decoder", LAYER, HEAD, slice(1496, 1504), slice(800, 808)).max()
    said = hovered(page, row, column)
    assert "the largest of 8 × 8 weights" in said
    told = re.findall(r"0\.\d+", said)[0]
    assert abs(float(told) - largest) <= 0.6 * 0.1 ** len(told.partition(".")[2])
    assert "may not look at" in hovered(page, 400, 2000)  # the causal mask
    canvas = page.locator(".st-key-card-head .picture")
    canvas.focus()
    hovered(page, row, column)
    page.keyboard.down("Control")
    for _ in range(40):
        page.mouse.wheel(0, -200)
        if page.evaluate(VIEW)["rows"][1] - page.evaluate(VIEW)["rows"][0] <= 12:
            break
    page.keyboard.up("Control")
    near = settled(page)
    (top, bottom), (left, right) = near["rows"], near["columns"]
    assert near["step"] == 1 and bottom - top <= 12
    exact = run.tile("decoder", LAYER, HEAD, slice(top, bottom), slice(left, right))
    for r in (top, bottom - 1):
        said = hovered(page, r, left + 1)
        weight = float(re.findall(r"(\d\.\d{4})", said)[-1])
        assert abs(weight - exact[r - top, 1]) <= 5.1e-5
    expect(page).to_have_url(re.compile("zoom="))
    page.reload()
    again = settled(page)
    assert (again["rows"], again["columns"], again["step"]) == ([top, bottom], [left, right], 1)
    page.get_by_role("button", name="show all of the map").click()
    assert settled(page)["rows"] == [0, TOKENS]
    assert settled(page)["took"]


def test_the_map_follows_the_hand_before_the_model_has_run(
    page: Page, long_url: str, folder: Path, tiny_vocabulary: bytes
) -> None:
    """A slider's step paints the map that the run gives later; until then the page says so."""
    text = page_of(tiny_vocabulary, TOKENS)
    zoom = "1400-1600,700-900"
    words = {"layer": str(LAYER), "head": str(HEAD), "text": text, "zoom": zoom}
    go(page, address(long_url, model="long", **words))
    clean = settled(page)
    assert clean["rows"] == [1400, 1600] and clean["step"] == 1 and not clean["ahead"]
    row, column = 1500, 800
    slider = page.locator(".st-key-temperature input[type=range]")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.93, box["y"] + box["height"] / 2)
    ahead = page.wait_for_function(
        f"(old) => {{ const s = ({VIEW})(); return s.ahead && s.of !== old && s; }}",
        arg=clean["of"],
    ).json_value()
    assert "edits=" not in page.url  # Python has not heard of the step yet
    assert (ahead["rows"], ahead["step"], ahead["deep"]) == (clean["rows"], 1, 1)
    expect(page.locator(".st-key-card-head")).to_contain_text("shows the change already")
    page.mouse.up()
    value = float(slider.evaluate("(e) => e.getAttribute('aria-valuetext')"))
    page.wait_for_function(f"() => {{ const s = ({VIEW})(); return !s.ahead && !s.coming; }}")
    expect(page).to_have_url(re.compile("edits="))
    after = settled(page)
    assert after["of"] == ahead["of"]  # the very map: its tiles are not asked for again
    edits = Intervention((Temperature(value=value, layer=LAYER, head=HEAD),))
    model = longer(tv.load(folder), TOKENS)
    run = tv.trace(model, text, keep=("tiles",), check=False, intervention=edits)
    exact = run.tile("decoder", LAYER, HEAD, slice(row, row + 1), slice(column, column + 1))
    said = hovered(page, row, column)
    assert abs(float(re.findall(r"(\d\.\d{4})", said)[-1]) - exact[0, 0]) <= 5.1e-5


def test_the_difference_of_two_runs_is_zoomed_into(
    page: Page, long_url: str, folder: Path, tiny_vocabulary: bytes
) -> None:
    """A weight of the difference, pointed at, tells the change and both numbers of it."""
    text = page_of(tiny_vocabulary, TOKENS)
    place = {"stack": "decoder", "block": "self", "layer": LAYER, "head": HEAD}
    edits = Intervention((Temperature(value=3.0, **place),))
    words = {"layer": str(LAYER), "head": str(HEAD), "text": text, "compare": "difference"}
    words |= {"edits": edits.to_json(), "zoom": "1500-1510,1490-1500"}
    go(page, address(long_url, model="long", **words))
    near = settled(page)
    (top, bottom), (left, right) = near["rows"], near["columns"]
    model = longer(tv.load(folder), TOKENS)
    was, now = (
        tv.trace(model, text, intervention=one, keep=("tiles",), check=False).tile(
            "decoder", LAYER, HEAD, slice(top, bottom), slice(left, right)
        )
        for one in (None, edits)
    )
    expect(page.locator(".st-key-card-head")).to_contain_text("The difference")
    for row, column in ((top + 1, left + 1), (bottom - 1, left)):
        said = hovered(page, row, column).replace("−", "-")
        before, after = was[row - top, column - left], now[row - top, column - left]
        numbers = [float(one) for one in re.findall(r"[+-]?\d\.\d{3,}", said)]
        for expected in (after - before, before, after):
            assert any(abs(one - expected) <= 5.1e-5 for one in numbers), (said, expected)
