"""The corner in a real browser: a code that another decoder reads, presenting, the language."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support import page_actions
from tests.support.browser import visit
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.app.pages import PAGES
from transformer_viz.app.shell.share import SERVE
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.i18n import languages

BACK_ROW = {"width": 1280, "height": 720}
WARM = Intervention(
    (Temperature(value=2.5, stack="decoder", block="cross", layer=1, head=3),)
).to_json()  #: The page has taken the dark theme.
DARK = """() => getComputedStyle(document.querySelector('.stApp'))
    .backgroundColor.includes('(20, 23, 28')"""


def opened(page: Page, address: str) -> None:
    """Open an address and wait until its pictures stand."""
    page.goto(address)
    page.locator(".st-key-head-view [data-painted]").wait_for()
    page.locator(".tv-foot").wait_for(state="attached")
    rest(page)


def query(page: Page) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(page.url).query).items()}


def box(place: Locator) -> dict[str, Any]:
    found = place.bounding_box()
    assert found is not None
    return dict(found)


@pytest.mark.parametrize(
    ("lang", "widths"), [("en", (1440, 800)), ("zh", (800, 1440)), ("de", (1440, 800))]
)
def test_the_names_of_the_pages_and_the_corner_do_not_touch(
    page: Page, url: str, lang: str, widths: tuple[int, int]
) -> None:
    """Opened at one width and brought to the other while open."""
    page.set_viewport_size({"width": widths[0], "height": 900})
    opened(page, f"{url}/?lang={lang}")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        menus = page.get_by_test_id("stTopNavSection")
        expect(menus, f"{lang} at {width}").to_have_count(len({one.group for one in PAGES}))
        rest(page)
        does_not_touch(page, width, f"{lang} at {width}")


def does_not_touch(page: Page, width: int, where: str) -> None:
    """The corner is inside of the window, in one line, and right of all names."""
    corner = box(page.locator(".st-key-corner"))
    assert corner["x"] + corner["width"] <= width and corner["y"] >= 0, where
    found = page.locator(".st-key-corner button").all()
    buttons = [button for button in found if button.bounding_box()]
    tops = {round(box(button)["y"] + box(button)["height"] / 2) for button in buttons}
    assert len(buttons) == 2 + len(languages()) and max(tops) - min(tops) <= 2, where  # in one line
    links = page.get_by_test_id("stTopNav").locator("a, button")
    seen = [link for link in links.all() if link.bounding_box() and box(link)["width"] > 2]
    inside = [link for link in seen if "hidden" not in (link.get_attribute("aria-hidden") or "")]
    right = max(box(link)["x"] + box(link)["width"] for link in inside if link.is_visible())
    assert right <= corner["x"], where


@pytest.mark.parametrize("width", [1440, 800])
def test_a_menu_leads_to_each_of_its_pages(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{url}/lessons")
    page_actions.shows_page(page, "Lessons")
    page_actions.visit_page(page, "About")
    page_actions.shows_page(page, "About")


def test_a_phone_reaches_every_page_from_the_side(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 400, "height": 850})
    page.goto(f"{url}/lessons")
    page.get_by_test_id("stExpandSidebarButton").click()
    for one in PAGES:
        expect(
            page.get_by_test_id("stSidebarNav").get_by_text(one.title, exact=True)
        ).to_be_visible()
    close = page.get_by_test_id("stSidebarCollapseButton").get_by_role("button")
    close.click()  # nothing lies over it
    expect(page.get_by_test_id("stSidebarNav")).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").get_by_text("About", exact=True).click()
    page.wait_for_url("**/about*")


@pytest.fixture(scope="module")
def elsewhere(browser: Browser) -> Iterator[Browser]:
    """A Chromium for which this machine is called class.example, as if it were another one."""
    from tests.support.browser import FLAGS, chromium

    names = "--host-resolver-rules=MAP class.example 127.0.0.1"
    found = browser.browser_type.launch(executable_path=chromium(), args=[*FLAGS, names])
    yield found
    found.close()


def scanned(page: Page) -> str:
    """What a phone reads from the screen."""
    code = page.locator("img.tv-code")
    code.wait_for()
    for _ in range(20):  # it comes with a movement, during which nobody can read it
        codes = zxingcpp.read_barcodes(Image.open(io.BytesIO(code.screenshot())))
        if codes:
            break
        page.wait_for_timeout(200)
    (found,) = codes
    return found.text


def test_the_code_on_the_screen_opens_what_the_teacher_sees(elsewhere: Browser, url: str) -> None:
    """Read from a light screen, a dark one, and one that presents, which it fills."""
    here = url.replace("127.0.0.1", "class.example")
    with visit(elsewhere, color_scheme="light") as page:
        opened(page, f"{here}/?layer=1&head=3&edits={WARM}&text=The+cat+sat.&view=lines")
        page.locator(".st-key-corner").get_by_role("button", name="Share").click()
        link = scanned(page)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(DARK)
        assert scanned(page) == link, "dark"
        assert link.startswith(f"{here}/?") and query(page) == {
            name: texts[0] for name, texts in parse_qs(urlsplit(link).query).items()
        }
        assert page.get_by_test_id("stCode").inner_text().strip() == link
        chips = page.locator(".st-key-chips button").all_inner_texts()
        page.keyboard.press("Escape")
        with visit(elsewhere) as pupil:
            opened(pupil, link)
            assert query(pupil) == query(page)
            assert pupil.locator(".st-key-chips button").all_inner_texts() == chips
        page.set_viewport_size(BACK_ROW)
        opened(page, f"{here}/?present=on&layer=1")
        page.locator(".st-key-corner").get_by_role("button", name="Share").click()
        assert "present" not in scanned(page)
        code = box(page.locator("img.tv-code"))
        assert code["width"] == code["height"] >= 400
        assert code["y"] >= 0 and code["y"] + code["height"] <= BACK_ROW["height"]


@pytest.fixture(scope="module")
def class_room(browser: Browser) -> Iterator[Page]:
    """One visit that presents: the second page has its scripts already."""
    with visit(browser, viewport=BACK_ROW) as page:
        yield page


def test_one_screen_holds_the_pictures_and_the_slider(class_room: Page, url: str) -> None:
    """And a list that is open keeps its keys; where nobody else comes, it tells the way out."""
    page = class_room
    opened(page, f"{url}/?present=on&layer=1&head=3")
    for part in (".st-key-atlas", ".st-key-head-view", ".st-key-temperature", ".tv-presented"):
        place = box(page.locator(part).first)
        assert place["x"] >= 0 and place["x"] + place["width"] <= BACK_ROW["width"], part
        assert place["y"] >= 0 and place["y"] + place["height"] <= BACK_ROW["height"], part
        assert place["height"] > 20, part
    slider = box(page.locator(".st-key-temperature"))
    pictures = box(page.locator(".st-key-pictures"))
    assert pictures["y"] + pictures["height"] <= slider["y"] + 8
    assert page.evaluate("document.documentElement.scrollWidth") == BACK_ROW["width"]
    assert page.locator(".st-key-hide").is_hidden()

    page.locator(".st-key-corner").get_by_role("button", name="Share").click()
    body = page.get_by_test_id("stPopoverBody")
    expect(body).to_contain_text(SERVE)
    assert page.locator("img.tv-code").count() == 0
    rest(page)  # a list that is still being filled may not hear a key
    page.keyboard.press("Escape")  # closes what is open, and leaves nothing
    body.wait_for(state="hidden")
    rest(page)
    assert page.locator("html[data-present]").count() == 1


def test_a_class_compares_before_and_after(class_room: Page, url: str) -> None:
    """Once something is changed; until then there is nothing to compare."""
    compare = class_room.locator(".st-key-compare")
    opened(class_room, f"{url}/?present=on&layer=1&head=3")
    expect(compare).to_be_hidden()
    class_room.get_by_role("slider", name="temperature").press("ArrowRight")
    expect(compare).to_be_visible()
    place = box(compare)
    assert place["x"] + place["width"] <= BACK_ROW["width"]
    assert place["y"] + place["height"] <= BACK_ROW["height"]
    pictures = box(class_room.locator(".st-key-pictures"))
    assert place["y"] >= pictures["y"] + pictures["height"] - 40  # below the cells of the map
    compare.get_by_role("radio", name="Before").click()
    expect(class_room).to_have_url(re.compile("compare=before"))


def test_keys_step_unfold_and_leave_and_never_while_typing(class_room: Page, url: str) -> None:
    page = class_room
    opened(page, f"{url}/?present=on&layer=1&head=7")
    title = page.locator(".st-key-card-head h2")
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("L2 H0")
    page.keyboard.press("ArrowLeft")
    expect(title).to_contain_text("L1 H7")
    page.keyboard.press("PageDown")  # a clicker's
    expect(title).to_contain_text("L2 H0")
    page.locator(".st-key-step-back button").click()  # the mouse does the same
    expect(title).to_contain_text("L1 H7")
    sentence = page.get_by_label("English sentence")
    assert sentence.is_hidden()
    page.keyboard.press("c")
    expect(sentence).to_be_visible()
    expect(page.get_by_test_id("stTopNav")).to_be_visible()
    sentence.fill("The cat sat.")
    for key in ("ArrowLeft", "PageUp", "c", "Escape"):
        sentence.press(key)
    assert sentence.is_visible() and page.locator("html[data-unfold]").count() == 1
    sentence.press("Enter")
    rest(page)
    expect(title).to_contain_text("L1 H7")
    sentence.blur()
    page.keyboard.press("C")
    expect(sentence).to_be_hidden()
    slider = page.get_by_role("slider", name="temperature")
    slider.focus()
    slider.press("ArrowRight")  # the slider's own arrow
    page.wait_for_url("**temperature**")
    expect(title).to_contain_text("L1 H7")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.documentElement.hasAttribute('data-present')")
    rest(page)
    assert "present" not in query(page) and "temperature" in query(page)["edits"]
    expect(page.locator(".tv-presented")).to_have_count(0)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1366, 768), (1920, 1080)])
def test_the_unfolded_dock_is_on_the_screen_with_the_pictures(
    class_room: Page, url: str, width: int, height: int
) -> None:
    """And nothing of the frame lies over the sentence, nor the line of keys over the ways back."""
    page = class_room
    page.set_viewport_size({"width": width, "height": height})
    opened(page, f"{url}/?present=on&layer=1&head=3&lang=de&edits={WARM}")
    page.keyboard.press("c")
    expect(page.locator(".st-key-more")).to_be_visible()
    rest(page, still=400)
    dock = box(page.locator(".st-key-dock"))
    assert abs(dock["y"] + dock["height"] - height) < 1
    assert dock["height"] <= 150  # two lines
    seen = page.evaluate(script("pictures_on_page"))
    for part in (*seen["tiles"], seen["cells"]):
        assert part["top"] + part["height"] <= dock["y"]
        assert part["top"] > 0 and part["height"] >= 18
    assert seen["cells"]["height"] >= 100
    on_top = "one => one.contains(document.elementFromPoint(...(({x, y, width, height}) => \
        [x + width / 2, y + height / 2])(one.getBoundingClientRect())))"
    ways = [page.locator(f".st-key-{key} button") for key in ("undo", "redo", "clean", "more")]
    for way in (*ways, page.locator(".st-key-fold-frame input").first):
        assert way.evaluate(on_top), way
    sentence = box(page.locator(".st-key-fold-frame input").first)
    header = box(page.get_by_test_id("stHeader"))
    assert sentence["y"] >= header["y"] + header["height"]
    expect(page.locator(".tv-presented")).to_be_hidden()  # the box says it
    page.set_viewport_size(BACK_ROW)


@pytest.mark.parametrize("path", [page.path for page in PAGES])
def test_the_back_row_reads_every_letter(class_room: Page, url: str, path: str) -> None:
    page, small = class_room, script("small_text")
    page.goto(f"{url}/{path}?present=on&layer=1&head=3")
    page.locator(".tv-present").wait_for()
    page.get_by_test_id("stMain").locator("h2, h3").first.wait_for(state="attached")
    rest(page, still=400)
    assert page.evaluate(small, 21.9) == [], path


def test_another_language_keeps_what_was_chosen(page: Page, url: str) -> None:
    opened(page, f"{url}/?layer=1&head=3&view=lines&edits={WARM}&compare=difference&scope=layer")
    before = query(page)
    page.locator(".st-key-lang button", has_text="中文").click()
    expect(page.locator(".st-key-presenting button:visible")).to_have_text("演示")
    page.get_by_role("button", name="观察", exact=True).click()
    expect(page.get_by_role("menuitem", name="探索", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    rest(page)
    assert query(page) == before | {"lang": "zh"}
    page.locator(".st-key-head-view [data-painted]").wait_for()
    page.get_by_role("switch").first.click(force=True)  # whole words: the browser says all it has
    page.wait_for_url("**words=on**")
    rest(page)
    after = query(page)
    assert {name: after.get(name) for name in before} == before
    page.locator(".st-key-lang button", has_text="English").click()
    expect(page.locator(".st-key-presenting button:visible")).to_have_text("Present")
    rest(page)
    assert query(page) == before | {"words": "on"}
