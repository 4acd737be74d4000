"""The widget in a real JupyterLab: two at once, a kernel that restarts, a notebook that travels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.jupyter_lab import Lab, run_all, run_code, running_lab, write_notebook
from transformer_viz.notebook.explorer import VIEW

CELLS = [
    "import transformer_viz as tv\nfrom tests.conftest import make_model\nmodel = make_model()",
    "one = tv.explore(model, [5, 7, 11, 3], [2, 13, 17], site=('cross', 1, 1))\none",
    "two = tv.explore(model, [5, 9, 3], [2, 13], site=('cross', 0, 0))\ntwo",
]
NAME = "widgets.ipynb"
SHOWN = ".transformer-viz"
#: What stands on all canvases of a widget, in shadow roots within shadow roots, as one text.
PIXELS = """host => {
  const found = [];
  const look = root => {
    for (const one of root.querySelectorAll('*')) {
      if (one.tagName === 'CANVAS') found.push(one.toDataURL());
      if (one.shadowRoot) look(one.shadowRoot);
    }
  };
  look(host.shadowRoot);
  return found.join();
}"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running_lab() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 1200})
    yield page
    page.close()


def painted(widget: Locator) -> str:
    """What is drawn, once two looks at it are the same."""
    last = ""
    for _ in range(40):
        now = str(widget.evaluate(PIXELS))
        if now == last and len(now) > 1000:
            return now
        last = now
        widget.page.wait_for_timeout(250)
    raise AssertionError("the pictures never come to rest")


def warmer(page: Page, widget: Locator, name: str, before: int = 0) -> None:
    """Move the temperature one stop up, until Python's attribute follows."""
    widget.locator('[data-part="slider-temperature"] input').press("ArrowRight")
    for _ in range(100):
        if int(run_code(page, f"print(len({name}.intervention.edits))") or 0) > before:
            return
        page.wait_for_timeout(200)
    raise AssertionError("the kernel never heard of the slider")


@pytest.mark.process
def test_a_notebook_with_two_widgets(lab: Lab, page: Page, browser: Browser) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    write_notebook(lab.folder / NAME, CELLS)
    page.goto(lab.address(NAME))
    run_all(page)
    widgets = page.locator(SHOWN)
    expect(widgets).to_have_count(2)
    one, two = widgets.nth(0), widgets.nth(1)
    first, other = painted(one), painted(two)

    # A hand moves a slider: its own widget follows, in the browser and in Python.
    warmer(page, one, "one")
    assert painted(one) != first and painted(two) == other
    told = run_code(page, "print(one.trace.intervention.describe(), '|', two.intervention.edits)")
    assert told.strip() == "cross L1 H1: temperature 1.1 | ()"

    # Python moves it: the browser follows.
    run_code(page, "one.site = ('encoder', 2, 0); one.intervention = None")
    expect(one.locator("h3")).to_have_text("encoder L2 H0")
    expect(one.locator(".tv-changes")).to_have_text("clean run, nothing changed")

    # What cannot be run is told in a sentence, and the picture stays.
    stays = painted(one)
    run_code(
        page, "import transformer_viz.notebook.runs as runs; right, runs.trace = runs.trace, None"
    )
    one.locator('[data-part="slider-temperature"] input').press("ArrowLeft")
    expect(one.locator(".tv-problem")).to_contain_text("The model could not be run with this")
    assert painted(one) == stays
    run_code(page, "runs.trace = right")

    # No key that is pressed in a widget is a command of the notebook. Jupyter Notebook asks the
    # focused element itself, which is the host.
    expect(two).to_have_attribute("data-lm-suppress-shortcuts", "true")
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    two.locator(".tv-part[data-part='slider-window'] input").press("a")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells

    _restarted(page)
    _travels(lab, page, browser)
    assert not errors
    assert {url.split("/")[2] for url in asked if url.startswith("http")} == {lab.url[7:]}


def _restarted(page: Page) -> None:
    """The kernel begins anew: the old picture says so, and the cells run again."""
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    one = page.locator(SHOWN).nth(0)
    one.locator('[data-part="slider-temperature"] input').press("ArrowRight")
    expect(one.locator(".tv-problem")).to_contain_text("run the cell again")
    run_all(page)
    expect(page.locator(".jp-InputPrompt").nth(2)).to_have_text("[3]:")
    expect(page.locator(SHOWN)).to_have_count(2)
    before = painted(page.locator(SHOWN).nth(1))
    warmer(page, page.locator(SHOWN).nth(1), "two")
    assert painted(page.locator(SHOWN).nth(1)) != before


def _travels(lab: Lab, page: Page, browser: Browser) -> None:
    """The saved notebook, opened on a machine that neither trusts it nor runs it."""
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    saved = json.loads((lab.folder / NAME).read_text())
    outputs = [cell["outputs"][0]["data"] for cell in saved["cells"][1:]]
    assert all({VIEW, "image/png"} <= set(data) for data in outputs)
    with running_lab() as elsewhere:
        shutil.copy(lab.folder / NAME, elsewhere.folder / NAME)
        reader = browser.new_page(viewport={"width": 1440, "height": 1200})
        reader.goto(elsewhere.address(NAME))
        stills = reader.locator(".jp-RenderedImage img")
        expect(stills).to_have_count(2)
        assert stills.nth(0).evaluate("still => still.naturalWidth") == 1600
        assert reader.locator(SHOWN).count() == 0
        reader.close()
