"""The lab "Who is it?" by hand: predict, see, type another end, draw other heads."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import transformer_viz as tv
from tests.support.browser import visit
from tests.support.page_actions import address, go, still

TEXT = "The animal didn't cross the street because it was too tired."
GERMAN = "Das Tier überquerte die Straße nicht, weil"


def row(page: Page, name: str) -> Locator:
    """The row of a table of the lab that is called so."""
    return page.locator(".tv-lab-table tbody tr").filter(
        has=page.locator("th", has_text=re.compile(f"^{re.escape(name)}"))
    )


def tried(page: Page) -> dict[str, str]:
    """What the link says was set in the lab."""
    (text,) = parse_qs(urlsplit(page.url).query)["tried"]
    return dict(part.split("=", 1) for part in text.split(";"))


def test_predict_see_and_type_another_end(page: Page, url: str) -> None:
    go(page, address(url, "labs", lab="it", text=TEXT))
    expect(page.locator(".tv-lab-verdict, .tv-lab-table")).to_have_count(0)
    page.get_by_role("button", name="The encoder head whose “it” looks most at a noun.").click()
    verdict = page.locator(".tv-lab-verdict")
    expect(verdict).to_be_visible()
    still(page)
    expect(page.locator('[data-what="held"]')).to_have_text(f"“{GERMAN} ▢”")
    model = tv.load("en-de", device="cpu")
    for end in ("tired", "wide"):
        run = tv.trace(model, TEXT.replace("tired", end), target=GERMAN, check=False)
        assert run.produced is not None
        word, chance = run.produced.labels[-1], run.produced.probability[-1]
        cells = row(page, f"… it was too {end}.").locator("td")
        expect(cells.nth(("er", "sie", "es").index(word))).to_have_text(f"{chance:.3f}")
        expect(cells.last).to_have_text(word)
    # the row of "it" is the one that is framed, and both maps are painted
    for name in ("encoder", "cross"):
        expect(page.locator(f".st-key-lab-it-{name} canvas").first).to_be_visible()
    expect(page.locator(".st-key-lab-it-encoder")).to_contain_text("“it” looks most at")
    box = page.get_by_label("the second sentence")
    box.fill("was too old; 100 % so.")
    box.press("Enter")
    expect(row(page, "… it was too old; 100 % so.")).to_have_count(1)
    expect(page).to_have_url(re.compile("second"))
    still(page)
    assert tried(page) == {"guess": "0", "second": "was too old%3B 100 %25 so."}
    page.get_by_role("button", name="predict again").click()
    expect(page.locator(".tv-lab-verdict, .tv-lab-table")).to_have_count(0)


def test_other_heads_are_drawn_and_the_first_stay(page: Page, url: str) -> None:
    go(page, address(url, "labs", lab="it", text=TEXT, tried="guess=show"))
    first, others = row(page, "the first 8 of the ranking"), row(page, "8 others drawn by chance")
    kept, drawn = first.inner_text(), others.inner_text()
    page.get_by_role("button", name="draw others by chance").click()
    expect(others).not_to_have_text(re.compile(re.escape(drawn.split("\t")[1])))
    still(page)
    assert first.inner_text() == kept and tried(page)["draw"] == "1"
    page.locator("[class*=st-key-try-it-shown] button").nth(1).click()
    expect(page.locator(".st-key-lab-it-cross")).to_contain_text("“sie” looks most at")


def test_the_last_station_leads_to_the_lab(page: Page, url: str) -> None:
    """Its head is off in the link; the lab begins with the class's sentence and without that."""
    text = "The piano didn't fit through the door because it was too wide."
    page.goto(address(url, "lessons", text=text))
    page.locator(".st-key-open-10 button").click()
    expect(page.locator(".tv-station-ask")).to_contain_text("“it” looks most at")
    link = page.get_by_role("link", name="open the lab")
    expect(link).to_have_count(0)
    page.locator(".st-key-station-deed button").click()
    for option in range(2):  # the second try shows the answer, right or wrong
        if not link.count():
            page.locator(f".st-key-option-10-{option} button").click()
            expect(page.locator(".tv-station-why b")).to_be_visible()
            still(page)
    expect(link).to_be_visible()
    with page.context.expect_page() as opened:
        link.click()
    lab = opened.value
    expect(lab.locator(".tv-lab-question")).to_contain_text("what “it” stands for")
    expect(lab.get_by_label("English sentence")).to_have_value(text)
    words = parse_qs(urlsplit(lab.url).query)
    assert words["lab"] == ["it"] and not {"station", "edits", "predicted"} & set(words)


@pytest.mark.parametrize("width", [400, 800, 1440])
def test_nothing_stands_outside_of_the_screen(browser: Browser, url: str, width: int) -> None:
    with visit(browser, viewport={"width": width, "height": 850}) as page:
        go(page, address(url, "labs", lab="it", text=TEXT, tried="guess=show"))
        assert page.evaluate("document.documentElement.scrollWidth") == width
        charts = page.locator(".st-key-lab-it-off [data-testid=stPlotlyChart]")
        expect(charts).to_have_count(3)
        for chart in charts.all():  # the numbers of eight heads need their room
            box = chart.bounding_box()
            assert box is not None and box["x"] >= 0 and 240 < box["width"] <= width


def test_a_link_from_elsewhere_is_shown_as_text(page: Page, url: str) -> None:
    """What somebody types is no Markdown and no HTML, wherever it stands."""
    bad = "was ![x](http://127.0.0.1:9/x.png) <img src=x> [weight]"
    go(page, address(url, "labs", lab="it", text=TEXT, tried=f"guess=show;second={bad}"))
    page.get_by_text("what is right, and which word is the noun").click()
    expect(page.get_by_text(bad).first).to_be_visible()
    assert page.locator('.st-key-card-experiment img, img[src*="9/x.png"]').count() == 0
