"""The labs in Chromium: predict, see the verdict where one looks, set, share, reach them."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_actions import address, go, query, still
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.core.interventions import Intervention, Temperature

TEXT = "The animal didn't cross the street because it was too tired."
WARM = Intervention((Temperature(value=3.0),)).to_json()
SLIDER = "[class*=st-key-try-learning-step] input[type=range]"
VERDICT = ".tv-lab-verdict"


@pytest.mark.parametrize("lab", ["scale", pytest.param("residual", marks=pytest.mark.soak)])
def test_a_visitor_predicts_and_sets(page: Page, url: str, lab: str) -> None:
    page.set_viewport_size({"width": 640, "height": 900})
    go(page, address(url, "labs", lab=lab))
    assert page.evaluate(script("too_wide")) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    rest(page)
    _verdict_stands_where_the_options_were(page)
    if lab == "scale":
        term = page.locator(".tv-lab-text .tv-term", has_text="variance").first
        tip = term.get_by_role("tooltip", include_hidden=True)
        expect(tip).to_be_hidden()
        term.hover()
        expect(tip).to_contain_text("squared and averaged")
        expect(tip).to_be_visible()
        _who_is_it(page, url)
        _watch_it_learn(page, url)
        _from_the_last_station(page, url)


def _verdict_stands_where_the_options_were(page: Page) -> None:
    place = page.locator(".st-key-lab-options button").first
    options = place.bounding_box()
    place.click()
    verdict = page.locator(VERDICT)
    expect(verdict).to_be_in_viewport(ratio=1)
    found, card = verdict.bounding_box(), page.locator(".st-key-card-experiment").bounding_box()
    assert options and found and card
    assert abs(found["y"] - options["y"]) < 100 and found["y"] < card["y"]
    height, least = page.locator(".st-key-lab-predicted").evaluate(
        "one => [one.getBoundingClientRect().height, parseFloat(getComputedStyle(one).minHeight)]"
    )
    assert height == pytest.approx(least, abs=1), "nothing moved when it came"


def _who_is_it(page: Page, url: str) -> None:
    """What is typed is text; nothing is outside of the screen."""
    bad = "was ![x](http://127.0.0.1:9/x.png) <img src=x> [weight]"
    go(page, address(url, "labs", lab="it", text=TEXT, tried=f"guess=show;second={bad}"))
    page.get_by_text("what is right, and which word is the noun").click()
    expect(page.get_by_text(bad).first).to_be_visible()
    assert page.locator('.st-key-card-experiment img, img[src*="9/x.png"]').count() == 0
    charts = page.locator(".st-key-lab-it-off [data-testid=stPlotlyChart]")
    expect(charts).to_have_count(3)
    for width in (400, 800, 1440):
        page.set_viewport_size({"width": width, "height": 850})
        rest(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for chart in charts.all():  # the numbers of eight heads need their room
            place = chart.bounding_box()
            assert place is not None and place["x"] >= 0 and 240 < place["width"] <= width, width


def _watch_it_learn(page: Page, url: str) -> None:
    """The slider of the training and a click into its atlas are set in the lab."""
    tried = "guess=2;step=256"
    page.goto(address(url, "labs", lab="learning", text="I love my dog.", tried=tried))
    written = page.locator("[data-what=said]")
    expect(written).to_contain_text("After update 256 it writes")
    page.locator(SLIDER).press("ArrowRight")
    expect(written).to_contain_text("After update 1,024 it writes")
    still(page)
    atlas = page.locator(".st-key-lab-learning-atlas")
    atlas.scroll_into_view_if_needed()
    box = atlas.locator("canvas").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.85 * box["width"], box["y"] + 0.3 * box["height"])
    expect(page).to_have_url(re.compile(r"tried=guess%3D2%3Bstep%3D1024%3Bhead%3DL0H3"))


def _from_the_last_station(page: Page, url: str) -> None:
    """The lab begins with the class's sentence, without the station, its edit and its answers."""
    text = "The piano didn't fit through the door because it was too wide."
    page.goto(address(url, station=10, predicted="10.0", edits=WARM, text=text))
    page.locator(".st-key-station-show button:visible").click()
    link = page.get_by_role("link", name="open the lab")
    expect(link).to_have_attribute("target", "_blank")
    page.goto(urljoin(page.url, link.get_attribute("href")))
    expect(page.locator(".tv-lab-question")).to_contain_text("what “it” stands for")
    expect(page.get_by_label("English sentence")).to_have_value(text)
    words = query(page)
    assert words["lab"] == "it" and not {"station", "edits", "predicted"} & set(words)
