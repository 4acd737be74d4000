"""The q·k view in a real browser: numbers by pointer and by keyboard, keys that can be picked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.components.test_qk import FIGURES, traced
from tests.support.component_stage import decoded, said, shine, show, update
from tests.support.scripts import script
from transformer_viz.components.qk import figure, qk_data
from transformer_viz.core.interventions import Temperature, Window
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Tokens, read_only

COLOURS = script("canvas_colours")


@pytest.fixture(scope="module")
def clean() -> Trace:
    return traced()


def begin(page: Page, data: bytes, **words: object) -> None:
    show(page, "qk/qk.js", "QK", data, css="qk/qk.css", **words)  # type: ignore[arg-type]


def bar(page: Page, strip: int, at: int, count: int, up: bool) -> list[int]:
    """The colour of a dimension's bar, just above or below the middle of its strip."""
    canvas = page.locator("#host canvas").nth(strip)
    box = canvas.bounding_box()
    assert box is not None
    x, y = (float(at) + 0.4) / count * box["width"], box["height"] / 2 + (-2 if up else 1)
    (found,) = canvas.evaluate(COLOURS, [[x, y]])
    colour: list[int] = found
    return colour


def test_steps_bars_and_table_hold_the_numbers(stage: Page, clean: Trace) -> None:
    # figures are written as python writes them
    values = [-0.0, *(value for value in FIGURES if np.isfinite(value))]
    found = stage.evaluate(script("figures"), values)
    ends = [float("-inf"), float("inf"), float("nan")]
    assert found == [figure(value) for value in [*values, *ends]]
    # the steps stand as they were sent
    data = qk_data(clean, "decoder", 1, 0, query=2, key=1)
    header, _ = decoded(data)
    begin(stage, data)
    lines = stage.locator(".tv-qk-steps li")
    assert lines.count() == len(header["steps"]) == 4
    for line, step in zip(lines.all(), header["steps"], strict=True):
        words = (step["name"], step["formula"], "= " + step["result"], step["why"])
        assert line.inner_text().replace("\n", " ").split() == " ".join(words).split()
    assert stage.locator(".tv-qk-said").inner_text() == header["said"]
    assert stage.locator(".tv-qk-notes p").inner_text() == header["notes"][0]
    # bars rise and fall in their colours
    for dark in (False, True):
        data = qk_data(clean, "encoder", 1, 0, query=2, key=3)
        header, arrays = decoded(data)
        begin(stage, data, dark=dark)
        changes = header["colours"]["dark" if dark else "light"]["changes"]
        less, more = ([int(c[n : n + 2], 16) for n in (1, 3, 5)] for c in (changes[0], changes[-1]))
        for strip, name in enumerate(("q", "k", "product")):
            size = np.abs(arrays[name]) / np.abs(arrays[name]).max()
            for at in np.flatnonzero(size > 0.3):
                up = bool(arrays[name][at] > 0)
                assert bar(stage, strip, at, len(size), up)[:3] == (more if up else less), dark
                assert bar(stage, strip, at, len(size), not up)[3] < 255, dark
    # the vectors as a table
    data = qk_data(clean, "cross", 1, 0, query=2, key=3)
    begin(stage, data)
    stage.locator("summary").click()
    rows = stage.locator(".tv-qk-table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 11
    _, arrays = decoded(data)
    expected = [figure(float(arrays[name][10])) for name in ("q", "k", "product")]
    assert rows.last.inner_text().split() == ["11", *expected]
    # no product is one sentence
    begin(stage, qk_data(clean, "cross", 1, 0, query=2))
    update(stage, qk_data(traced(score="additive"), "cross", 1, 0, query=2))
    assert "no q·k to show" in stage.locator(".tv-qk-problem").inner_text()
    assert not stage.locator(".tv-qk-body").is_visible()
    update(stage, qk_data(clean, "cross", 1, 0, query=2))
    assert stage.locator(".tv-qk-body").is_visible()
    assert not stage.locator(".tv-qk-problem").is_visible()


def test_pointer_and_keyboard_read_and_pick(stage: Page, clean: Trace) -> None:
    # the pointer reads one dimension
    data = qk_data(clean, "encoder", 1, 0, query=2, key=3)
    _, arrays = decoded(data)
    begin(stage, data)
    box = stage.locator("canvas").nth(1).bounding_box()
    assert box is not None
    stage.mouse.move(box["x"] + 7.5 / 11 * box["width"], box["y"] + 5)
    q, k, product = (figure(float(arrays[name][7])) for name in ("q", "k", "product"))
    line = stage.locator(".tv-qk-dimension")
    assert line.inner_text() == f"dimension 8 of 11: q {q} × k {k} = {product}"
    stage.mouse.move(5, 5)
    assert line.inner_text().startswith("one bar a dimension")
    # the keyboard reads them all
    begin(stage, qk_data(clean, "encoder", 1, 0, query=2, key=3))
    stage.keyboard.press("Tab")
    line = stage.locator(".tv-qk-dimension")
    expected = {"ArrowRight": 1, "ArrowLeft": 1, "End": 11, "Home": 1}
    for key, dimension in expected.items():
        stage.keyboard.press(key)
        assert line.inner_text().startswith(f"dimension {dimension} of 11:")
    stage.keyboard.press("ArrowRight")
    assert line.inner_text().startswith("dimension 2 of 11:")
    stage.keyboard.press("Escape")
    assert line.inner_text().startswith("one bar a dimension")
    # a click picks another key
    begin(stage, qk_data(clean, "cross", 1, 0, query=2, key=3))
    keys = stage.locator(".tv-qk-list button")
    assert keys.count() == 7
    assert [k.get_attribute("aria-pressed") for k in keys.all()].index("true") == 3
    keys.nth(5).click()
    assert said(stage) == [("picked", {"row": 2, "column": 5})]
    # keys by keyboard and their light
    begin(stage, qk_data(clean, "cross", 1, 0, query=2, key=3))
    stage.keyboard.press("Tab")
    stage.keyboard.press("Tab")
    stage.keyboard.press("ArrowDown")
    lit = stage.evaluate("window.lights.at(-1)")
    assert lit == {
        "row": {"sentence": "produced", "tokens": [2]},
        "column": {"sentence": "source", "tokens": [4]},
    }
    assert stage.locator(".tv-qk-list .lit").count() == 1
    stage.keyboard.press("Enter")
    stage.keyboard.press("End")
    stage.keyboard.press("ArrowDown")
    stage.keyboard.press("Space")
    assert said(stage) == [("picked", {"row": 2, "column": n}) for n in (4, 6)]
    # what is lit elsewhere is lit here
    begin(stage, qk_data(clean, "cross", 1, 0, query=2, key=3))
    shine(stage, None, {"sentence": "source", "tokens": [1]})
    lit = stage.locator(".tv-qk-list .lit")
    assert lit.count() == 1 and lit.get_attribute("aria-label").startswith(clean.source.labels[1])


def test_hidden_long_and_narrow(stage: Page, clean: Trace) -> None:
    # hidden keys say so
    begin(stage, qk_data(traced(Window(radius=1)), "encoder", 0, 1, query=2, key=5))
    hidden = stage.locator(".tv-qk-list button.hidden")
    assert hidden.count() == 4
    assert "score hidden, weight 0.0000" in hidden.first.get_attribute("aria-label")
    image = hidden.first.evaluate("button => getComputedStyle(button).backgroundImage")
    assert "repeating-linear-gradient" in image
    # another state repaints in place
    begin(stage, qk_data(clean, "cross", 1, 0, query=2, key=3))
    stage.locator(".tv-qk-list button").nth(3).focus()
    warm = qk_data(traced(Temperature(value=2.0)), "cross", 1, 0, query=2, key=3, seq=1)
    update(stage, warm)
    weights = decoded(warm)[1]["weights"]
    assert stage.evaluate(
        "document.getElementById('host').shadowRoot.activeElement.getAttribute('aria-label')"
    ).endswith(f"weight {figure(float(weights[3]))}")
    assert stage.locator(".tv-qk-steps li").count() == 4  # the temperature came in
    # it is usable when narrow
    begin(stage, qk_data(clean, "cross", 1, 0, query=2), width="330px")
    assert stage.evaluate(script("beyond"), [".tv-qk *", 24 + 330 + 1, ""]) == []
    steps, keys = (stage.locator(name).bounding_box() for name in (".tv-qk-steps", ".tv-qk-keys"))
    assert steps is not None and keys is not None and keys["y"] > steps["y"] + steps["height"]
    # of a long row the strongest are listed
    run = long(clean, 1024)
    weakest = int(run.attention("encoder", 0)[0, 5].argmin())
    data = qk_data(run, "encoder", 0, 0, query=5, key=weakest)
    assert len(data) < 50_000
    begin(stage, data)
    _, arrays = decoded(data)
    buttons = stage.locator(".tv-qk-list button")
    assert buttons.count() == 200
    names = stage.locator(".tv-qk-list button span:first-child").all_inner_texts()
    order = np.argsort(-arrays["weights"], kind="stable")[:199]
    assert [int(name[1:]) for name in names] == sorted({*order.tolist(), weakest})
    weights = arrays["weights"].astype(np.float64)
    left = weights.sum() - weights[[*order, weakest]].sum()
    words = stage.locator(".tv-qk-sums").inner_text()
    assert words.endswith(f"824 weaker keys are not listed: together {left:.4f}")
    top = stage.locator('.tv-qk-list [aria-pressed="true"]')
    box, frame = top.bounding_box(), stage.locator(".tv-qk-list").bounding_box()
    assert box is not None and frame is not None
    assert frame["y"] <= box["y"] and box["y"] + box["height"] <= frame["y"] + frame["height"] + 1
    # an end stops everything
    begin(stage, qk_data(clean, "cross", 1, 0, query=2, key=3))
    stage.evaluate("window.view.end(); window.lights.length = 0")
    stage.locator(".tv-qk-list button").nth(1).click()
    stage.locator("canvas").first.hover()
    assert said(stage) == [] and stage.evaluate("window.lights") == []
    assert stage.locator(".tv-qk-dimension").inner_text().startswith("one bar")


def long(clean: Trace, count: int) -> Trace:
    """The encoder's first block as if its sentence had many tokens."""
    generator = np.random.default_rng(3)
    q, k = (generator.normal(size=(2, count, 11)).astype(np.float32) for _ in range(2))
    scores = (q @ k.transpose(0, 2, 1) / 4).astype(np.float32)
    powers = np.exp(scores.astype(np.float64))
    weights = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    block = dataclasses.replace(
        clean.block("encoder", 0),
        q=read_only(q), k=read_only(k), v=read_only(q), scale=0.25,
        scores=read_only(scores), weights=read_only(weights),
    )  # fmt: skip
    labels = tuple(f"w{n}" for n in range(count))
    tokens = Tokens(tuple(range(count)), labels, labels, tuple(range(count)), (False,) * count)
    return dataclasses.replace(clean, source=tokens, attentions=(block,))
