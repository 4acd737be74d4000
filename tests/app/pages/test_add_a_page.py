"""The tuple of pages, and the page of the guide docs/add-a-page.md: it works as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.page_content import address, go, html, told
from tests.support.paths import ROOT
from transformer_viz.app import pages
from transformer_viz.app.lessons.navigation import FIRST, HOME
from transformer_viz.app.page_template import Page
from transformer_viz.i18n import catalogue
from transformer_viz.lessons import STATIONS

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
GUIDE = ROOT / "docs" / "add-a-page.md"


def from_guide() -> Page:
    """The page that the guide's two blocks of code make."""
    file, entry = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(file + entry, str(GUIDE), "exec", dont_inherit=True), names)
    page = names["ENTRY"]
    assert isinstance(page, Page)
    return page


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Page:
    page = from_guide()
    monkeypatch.setattr(pages, "PAGES", (*pages.PAGES, page))
    return page


def test_the_page_of_the_guide_is_in_the_navigation_and_keeps_the_sentence(
    visit: Visit, longest: Page
) -> None:
    app = visit()
    entries = {one["url_pathname"]: one["page_name"] for one in app._registered_pages.values()}
    assert entries[longest.path] == "Longest"
    app = go(app, longest.path)
    assert not app.exception and not app.error, told(app)
    assert '<p data-what="longest">sat.</p>' in html(app)
    app.text_input(key="text").set_value("Two elephants sat.").run()
    assert '<p data-what="longest">elephants</p>' in html(app)
    assert address(go(app, ""))["text"] == "Two elephants sat."


def test_a_link_to_the_page_of_the_guide_opens_it(visit: Visit, longest: Page) -> None:
    app = visit(longest.path, text="A <b>crocodile</b> sat.", layer="99")
    assert not app.exception and 'data-what="longest"' in html(app)
    assert "&lt;b&gt;crocodile&lt;/b&gt;" in html(app) and "There is no layer 99" in told(app)


def test_a_page_without_the_sentence_box_keeps_the_sentence_too(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page("frames", "Frames", "Does it stand?", from_guide().draw, pages.SEE, framed=False)
    monkeypatch.setattr(pages, "PAGES", (*pages.PAGES, page))
    app = visit("frames")
    assert not [one for one in app.text_input if one.key == "text"]
    assert address(go(app, "norms"))["text"] == "The cat sat."


def test_addresses_are_unique_and_the_first_page_is_the_one_without() -> None:
    found = [page.address for page in pages.PAGES]
    assert len({*found}) == len(found)
    assert [page.address for page in pages.PAGES if page.first] == [FIRST]
    assert pages.PAGES[0].path == "" and all(page.path for page in pages.PAGES[1:])


def test_titles_and_questions_are_translated() -> None:
    known = catalogue("zh")
    for page in pages.PAGES:
        assert {page.title, page.question} <= set(known), page.address


def test_stations_stand_on_pages_that_there_are() -> None:
    assert {station.page for station in STATIONS} | {HOME, FIRST} <= {
        page.address for page in pages.PAGES
    }
