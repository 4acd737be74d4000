"""Play in a real browser: step by keys, draw again, look into a beam; the link has it all."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.page_actions import query
from transformer_viz import Intervention, load, trace
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import Temperature

HOT = Intervention((Temperature(value=3.0, stack="decoder", block="cross"),))


def open_play(page: Page, url: str, **words: str) -> None:
    page.goto(page_actions.address(url, "play", **words))
    painted(page)


def painted(page: Page) -> None:
    expect(page.locator(".st-key-play .tv-play output")).to_be_visible()


def chips(page: Page) -> list[str]:
    found: list[str] = page.locator(".st-key-play .chip").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).visibility === 'visible')"
        ".map(one => one.textContent)"
    )
    return found


def linked(page: Page, **words: str | None) -> None:
    """Until the link says so."""
    for name, value in words.items():
        page.wait_for_function(
            "([name, value]) => new URLSearchParams(location.search).get(name) === value",
            arg=[name, value],
        )


@pytest.mark.shipped
@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_each_word_shows_the_row_of_a_forced_pass(
    page: Page, url: str, edits: Intervention
) -> None:
    """The numbers above the bars against a run of our own over the finished words."""
    words = {"edits": edits.to_json()} if edits else {}
    open_play(page, url, search="greedy", layer="1", head="2", pooled="off", **words)
    run = trace(load("en-de", device="cpu"), FIRST_TEXT, intervention=edits, check=False)
    rows = run.attention("cross", layer=1)[2]
    for step in range(3):
        assert len(chips(page)) == step + 1
        shown = page.locator(".st-key-play .keys .number").all_inner_texts()
        assert [float(text or 0) for text in shown] == pytest.approx(
            np.round(rows[step], 2), abs=0.0051
        )
        page.locator(".st-key-play .on").first.click()
    linked(page, played="3")


def test_steps_and_texts_are_in_the_link_and_come_back(page: Page, url: str) -> None:
    open_play(page, url)
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    linked(page, played="4")
    page.locator(".st-key-play .sheet button.left:visible").first.click()
    page.wait_for_function("() => new URLSearchParams(location.search).has('branch')")
    why, texts = page.locator(".st-key-play .why"), chips(page)
    expect(why).to_contain_text("Left out at token")
    link = query(page)
    page.reload()
    painted(page)
    assert chips(page) == texts and query(page) == link
    page_actions.visit_page(page, "Norms")
    expect(page.locator(".st-key-norm-map")).to_be_visible()
    page_actions.visit_page(page, "Play")
    painted(page)
    expect(why).to_contain_text("Left out at token")
    assert chips(page) == texts


def test_sampling_draws_again_and_says_which_temperature_it_is(page: Page, url: str) -> None:
    open_play(page, url)
    page_actions.pick(page, "search", "Sampling")
    expect(page.locator(".st-key-play [data-way='sample']")).to_be_visible()
    expect(page.get_by_text("It is not the attention temperature of Explore")).to_be_visible()
    first = page.locator(".st-key-play .fate td").nth(1).inner_text()
    page_actions.press(page, "output temperature", "ArrowRight", 8)
    expect(page.locator(".st-key-play .guess")).to_contain_text("at output temperature 1.8")
    page_actions.click(page, "draw again")
    linked(page, seed="1", search="sample", drawing="1.8")
    expect(page.locator(".st-key-play .fate td").nth(1)).not_to_have_text(first)


def test_a_wider_beam_is_chosen_here_and_stands_in_the_frame(page: Page, url: str) -> None:
    open_play(page, url)
    page_actions.choose(page, "texts kept at each step", "keep 2 texts")
    linked(page, beam="2")
    expect(page.locator(".st-key-play .fate tbody tr")).to_have_count(2)
    page_actions.click(page, "Target")
    expect(page.get_by_role("combobox", name="Beam", exact=True)).to_have_value("2")


def test_a_head_is_looked_at_here_and_opened_elsewhere(page: Page, url: str) -> None:
    open_play(page, url, search="greedy")
    boxes = page.locator(".st-key-play .row select")
    boxes.nth(0).select_option("2")
    linked(page, layer="2")
    boxes.nth(1).select_option("3")
    linked(page, layer="2", head="3", pooled="off")
    expect(page.locator(".st-key-play .row")).to_contain_text("One head alone: L2 H3.")


def test_a_head_chosen_before_the_layer_is_answered_keeps_that_layer(page: Page, url: str) -> None:
    open_play(page, url, search="greedy")
    page.locator(".st-key-play .row .tools").evaluate(
        """tools => {
            const [layer, head] = tools.querySelectorAll("select");
            const choose = (box, value) => {
                box.value = value;
                box.dispatchEvent(new Event("change", { bubbles: true }));
            };
            choose(layer, "2");
            layer.value = "0"; // an older answer draws the box again
            choose(head, "3");
        }"""
    )
    linked(page, layer="2", head="3", pooled="off")
    expect(page.locator(".st-key-play .row")).to_contain_text("One head alone: L2 H3.")


def test_a_class_steps_with_the_keys_of_the_presenter(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    open_play(page, url, present="on", search="greedy")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".st-key-play output")).to_contain_text("token 3 of")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".st-key-play output")).to_contain_text("token 2 of")
