"""Step inside in a real browser: stations, symbols that light their numbers, sums that add up."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.components.test_walkthrough import chained, model_of
from tests.support.component_stage import decoded, said, shine, show, update
from tests.support.scripts import script
from transformer_viz.components.qk import figure
from transformer_viz.components.walkthrough.data import inside_data
from transformer_viz.core.stages import Walkthrough
from transformer_viz.walkthrough import terms

REST = 0.25  # seconds without a step after which Python hears of the station
FOCUSED = "document.getElementById('host').shadowRoot.activeElement"


def data(block: str = "cross", stage: str = "", number: str = "", **words: object) -> bytes:
    """A chain opened at a stage, and at one of its numbers."""
    run, chain = chained(block)
    made = terms(model_of("plain"), chain, chain.number(number)) if number else None
    step = place(chain, stage or number.partition("/")[0])
    return inside_data(run, chain, step=step, terms=made, **words)  # type: ignore[arg-type]


def place(chain: Walkthrough, name: str) -> int:
    return [stage.name for stage in chain].index(name) if name else 0


def begin(page: Page, blob: bytes, width: str = "1100px") -> None:
    show(page, "walkthrough/inside.js", "Inside", blob, css="walkthrough/inside.css", width=width)


def value(text: str) -> float:
    return float(text.replace("−", "-"))


def test_every_station_opens_and_python_hears_of_it(stage: Page) -> None:
    # every station opens with its words
    run, chain = chained("decoder")
    begin(stage, data("decoder"))
    titles = []
    for at, _ in enumerate(chain):
        assert stage.locator(".tv-in-count").inner_text() == f"{at + 1} of {len(chain.stages)}"
        assert stage.locator(".tv-in-stops [aria-current=step]").count() == 1
        titles.append(stage.locator(".tv-in-title").inner_text())
        assert stage.locator(".tv-in-panel").count() >= 1
        stage.keyboard.press("ArrowRight")
    assert titles[4] == "Query, key and value" and "Who may be looked at?" in titles
    assert stage.locator(".tv-in-word").inner_text() == run.produced.labels[2]
    assert stage.locator(".tv-in-steps button").last.is_disabled()
    # python hears where the hand rests
    begin(stage, data())
    stage.keyboard.press("ArrowRight")
    stage.wait_for_function("window.said.at(-1)?.[1].step === 1")
    begun = time.monotonic()
    for _ in range(2):
        stage.keyboard.press("ArrowRight")
    stage.locator(".tv-in-steps button").first.click()
    stage.keyboard.press("ArrowRight")
    stage.keyboard.press("ArrowLeft")
    rested = time.monotonic() - begun > REST  # on a busy machine the hand rests on its way
    stage.wait_for_function("window.said.at(-1)?.[1].step === 2")
    assert [name for name, _ in said(stage)] == ["stepped", "stepped"] or rested
    _, chain = chained("cross")
    update(stage, data(stage=chain.stages[1].name))  # older than what the hand wants
    assert stage.locator(".tv-in-count").inner_text().startswith("3 of")
    update(stage, data(stage=chain.stages[2].name))
    update(stage, data(stage="qkv.cross"))  # Python may lead again
    assert stage.locator(".tv-in-title").inner_text() == "Query, key and value"


def test_symbols_strips_and_numbers(stage: Page) -> None:
    # a symbol lights its strip and says its numbers
    begin(stage, data(stage="qkv.cross"))
    _, chain = chained("cross")
    stage.locator('.tv-in-symbol[data-symbol="q"]').hover()
    lit = stage.locator(".tv-in-vector.tv-in-lit")
    assert lit.count() == 1 and lit.get_attribute("data-symbol") == "q"
    first = ", ".join(figure(float(x)) for x in chain["qkv"]["q"][:4])
    assert first in stage.locator(".tv-in-said").inner_text()
    stage.locator('.tv-in-symbol[data-symbol="k"]').focus()
    assert stage.locator(".tv-in-key-head .tv-in-lit").inner_text().startswith("k")
    assert stage.locator(".tv-in-key .tv-in-lit canvas").count() == 7
    assert "keys, one for each word" in stage.locator(".tv-in-said").inner_text()
    # the numbers below a strip are the recorded ones
    begin(stage, data(stage="position.embedding"))
    _, chain = chained("cross")
    shown = {
        line.get_attribute("data-symbol"): line.locator("button").all_inner_texts()
        for line in stage.locator(".tv-in-vector[data-symbol]").all()
    }
    assert list(shown) == ["x", "table", "out"]
    for name, texts in shown.items():
        numbers = chain["position"][name][: len(texts)]
        assert texts == [figure(float(number)) for number in numbers]
    # the pointer and the keyboard read a dimension
    begin(stage, data(stage="qkv.cross"))
    _, chain = chained("cross")
    q = chain["qkv"]["q"]
    canvas = stage.locator('.tv-in-vector[data-symbol="q"] canvas')
    box = canvas.bounding_box()
    assert box is not None
    stage.mouse.move(box["x"] + box["width"] * 4.5 / len(q), box["y"] + 5)
    line = stage.locator(".tv-in-said")
    assert line.inner_text().startswith(f"q, dimension 5 of {len(q)}: {figure(float(q[4]))} (")
    stage.locator(".tv-in-vectors").nth(1).focus()
    stage.keyboard.press("Home")
    stage.keyboard.press("ArrowRight")
    assert line.inner_text().startswith(f"q, dimension 2 of {len(q)}: {figure(float(q[1]))} (")
    stage.keyboard.press("Enter")
    assert said(stage) == [("opened", {"number": "qkv.cross/q/1", "step": 5})]
    assert stage.locator(".tv-in-title").inner_text() == "Query, key and value"  # did not step
    # the strips of keys by pointer and by keyboard
    begin(stage, data(stage="qkv.cross"))
    run, chain = chained("cross")
    k = chain["qkv"]["k"]
    strip = stage.locator('.tv-in-key[data-key="3"] canvas').nth(1)
    box = strip.bounding_box()
    assert box is not None
    stage.mouse.click(box["x"] + box["width"] * 2.5 / k.shape[1], box["y"] + 5)
    assert said(stage) == [("opened", {"number": "qkv.cross/k/3/2", "step": 5})]
    lit = stage.evaluate("window.lights.find(light => light.column)")
    assert lit["column"] == {"sentence": "source", "tokens": [3]}
    stage.locator('.tv-in-key[data-key="0"] canvas').nth(1).focus()
    for key in ("ArrowDown", "Home", "ArrowRight"):
        stage.keyboard.press(key)
    line = stage.locator(".tv-in-said").inner_text()
    assert line == (
        f"k j, dimension 2 of {k.shape[1]}: {figure(float(k[1, 1]))} ({run.source.labels[1]})"
    )
    stage.keyboard.press("Enter")
    assert said(stage)[-1] == ("opened", {"number": "qkv.cross/k/1/1", "step": 5})


def test_hidden_keys_cannot_be_opened(stage: Page) -> None:
    # the exponential of a hidden key cannot be opened
    begin(stage, data("decoder", stage="softmax.self"))
    _, chain = chained("decoder")
    finite = np.isfinite(chain["softmax"]["x"]).tolist()
    assert set(finite) == {True, False}
    for key, seen in enumerate(finite):
        buttons = stage.locator(f'.tv-in-key[data-key="{key}"] button').all()
        addresses = [button.get_attribute("data-address") for button in buttons]
        known = {
            f"softmax.self/{name}/{key}"
            for name in ("exponentials", "out")
            if seen or name == "out"
        }
        assert known == {address for address in addresses if address}
    # arrows pass over what cannot be opened
    begin(stage, data("decoder", stage="softmax.self"))
    _, chain = chained("decoder")
    seen = np.flatnonzero(np.isfinite(chain["softmax"]["x"])).tolist()
    column = stage.locator('[data-symbol="exponentials"] button')
    column.first.focus()
    for key in (*seen[1:], seen[-1]):  # behind the last one there is nothing to go to
        stage.keyboard.press("ArrowDown")
        at = "document.activeElement.shadowRoot?.activeElement ?? document.activeElement"
        assert stage.evaluate(f"({at}).dataset.address") == f"softmax.self/exponentials/{key}"
    # a hidden key is hatched and says why
    begin(stage, data("decoder", stage="mask.self"))
    hidden = stage.locator(".tv-in-hidden")
    assert hidden.count() == 2
    assert "a later word" in hidden.first.inner_text() and "−∞" in hidden.first.inner_text()
    image = hidden.first.evaluate("line => getComputedStyle(line).backgroundImage")
    assert "repeating-linear-gradient" in image


SUMS = [
    *("embedding.embedding/out/3", "position.embedding/out/3", "norm.cross/mean"),
    *("norm.cross/variance", "norm.cross/spread", "norm.cross/out/5", "qkv.cross/q/2"),
    *("qkv.cross/k/3/2", "score.cross/out/4", "scale.cross/out/4", "softmax.cross/total"),
    *("softmax.cross/exponentials/2", "softmax.cross/softmax/2", "mix.cross/out/1"),
    *("project.cross/shares/1/3", "project.cross/out/7", "inner.feed_forward/inner/6"),
    *("outer.feed_forward/out/7", "residual.feed_forward/out/7"),
]


def test_the_terms_on_the_screen_add_up_to_the_number_on_the_screen(stage: Page) -> None:
    # the terms on the screen add up to the number on the screen
    for number in SUMS:
        begin(stage, data(number=number))
        _, chain = chained("cross")
        made = terms(model_of("plain"), chain, chain.number(number))
        shown = value(stage.locator(".tv-in-sum h4 b").inner_text())
        assert figure(shown) == figure(made.total), number
        rows = [
            row.locator("td").all_inner_texts()
            for row in stage.locator(".tv-in-sum tbody tr").all()
        ]
        assert len(rows) == len(made.a), number
        few = made.axis == "parts"
        products = [value(row[-1 if few else -2]) for row in rows]
        total = (sum(products) + (made.bias or 0.0)) / made.divisor
        after = {"": lambda x: x, "exp": np.exp, "sqrt": np.sqrt}[made.then]
        assert after(total) == pytest.approx(shown, abs=1e-4), number
        if made.b_name:
            for row, product in zip(rows, products, strict=True):
                assert value(row[0]) * value(row[1]) == pytest.approx(product, abs=2e-4), number
        if not few:
            assert value(rows[-1][-1]) == pytest.approx(sum(products), abs=1e-4), number


def test_a_sum_is_sorted_closed_and_taken(stage: Page) -> None:
    # largest first and closing
    begin(stage, data(number="qkv.cross/q/2"))
    stage.get_by_role("button", name="largest first").click()
    column = stage.locator(".tv-in-sum tbody tr td:nth-last-child(2)")
    sizes = [abs(value(text)) for text in column.all_inner_texts()]
    assert sizes == sorted(sizes, reverse=True)
    stage.get_by_role("button", name="in their own order").wait_for()
    stage.locator(".tv-in-sum-table").focus()
    stage.keyboard.press("Escape")
    stage.get_by_role("button", name="close").click()
    assert said(stage) == [("opened", {"number": "", "step": 5})] * 2
    update(stage, data(stage="qkv.cross"))
    assert not stage.locator(".tv-in-sum").is_visible()
    # the numbers of a sum can be taken
    begin(stage, data(number="qkv.cross/q/2"))
    _, chain = chained("cross")
    made = terms(model_of("plain"), chain, chain.number("qkv.cross/q/2"))
    with stage.expect_download() as waiting:
        stage.get_by_role("button", name="CSV").click()
    lines = waiting.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == "term,a,b,product" and lines[-1].startswith("bias,")
    products = [float(line.split(",")[-1]) for line in lines[1:]]
    assert sum(products) == pytest.approx(made.sum, abs=1e-9)
    assert waiting.value.suggested_filename == "qkv.cross-q-2.csv"
    # in presenter mode the sum takes the place of the picture
    begin(stage, data(number="score.cross/out/4", present=True))
    size = stage.locator(".tv-in-why").evaluate("p => parseFloat(getComputedStyle(p).fontSize)")
    assert size >= 22
    assert not stage.locator(".tv-in-pictures").is_visible()
    assert stage.locator(".tv-in-sum").is_visible()


def test_colours_widths_lights_and_states(stage: Page) -> None:
    # the colours are explained where there are strips
    for name, says in SCALES:
        begin(stage, data(stage=name))
        legend = stage.locator(".tv-in-legend")
        assert legend.is_visible() == bool(says), name
        if not says:
            continue
        assert stage.locator(".tv-in-scale").inner_text() == says, name
        colours = legend.locator("i").evaluate_all(
            "squares => squares.map(one => getComputedStyle(one).backgroundColor)"
        )
        orange, blue = ([int(n) for n in re.findall(r"\d+", colours[at])][:3] for at in (2, 0))
        assert blue[2] > blue[0] and orange[0] > orange[2], name
        assert legend.inner_text().split("\n")[:3] == ["below zero", "zero", "above zero"], name
        scales = {row["scale"] for row in vectors_of(name) if row["scale"]}
        assert bool(scales) == (says.startswith("strips")) and len(scales) <= 1, name
    # what is lit elsewhere is lit here
    begin(stage, data(stage="softmax.cross"))
    shine(stage, None, {"sentence": "source", "tokens": [1]})
    lit = stage.locator(".tv-in-lit-key")
    assert lit.count() == 1 and lit.get_attribute("data-key") == "1"
    # another state keeps the station and the keyboard
    begin(stage, data(stage="softmax.cross"))
    stage.locator('.tv-in-key[data-key="2"] button').last.focus()
    run, chain = chained("cross", "plain", "warm")
    update(stage, inside_data(run, chain, step=place(chain, "softmax.cross"), seq=1))
    assert stage.evaluate(f"{FOCUSED}.dataset.address") == "softmax.cross/out/2"
    number = stage.locator('.tv-in-key[data-key="2"] button').last.inner_text()
    assert number == figure(float(chain["softmax"]["out"][2]))
    # nothing is wider than its place
    for width in ("1100px", "720px", "360px"):
        _, chain = chained("cross")
        begin(stage, data(), width)
        for _ in chain:
            inner = ".tv-in-station *, .tv-in-steps *"
            wide = stage.evaluate(
                script("beyond"), [inner, 24 + int(width[:-2]) + 1, ".tv-in-keys"]
            )
            assert wide == []
            stage.keyboard.press("ArrowRight")
    # an end stops everything
    begin(stage, data(stage="softmax.cross"))
    stage.evaluate("window.view.end()")
    stage.keyboard.press("ArrowRight")
    stage.locator('.tv-in-key[data-key="2"] button').last.click()
    stage.wait_for_timeout(400)
    assert said(stage) == []


#: What is said of the colours of a station, if it has strips.
SCALES = (
    ("embedding.embedding", "each strip has its own scale"),
    ("position.embedding", "strips that are added up share one scale"),
    ("qkv.cross", "each strip has its own scale, a column of strips one together"),
    ("project.cross", "strips that are added up share one scale"),
    ("softmax.cross", ""),
)


def vectors_of(name: str) -> list[dict[str, float]]:
    """The strips of a stage that stand one under the other, as the browser gets them."""
    header, _ = decoded(data(stage=name))
    station = next(one for one in header["stations"] if one["name"] == name)
    return [row for panel in station["panels"] for row in panel.get("rows", ())]
