"""Takes the pictures in docs/pictures from the running app: `make screenshots`.

Starts the app on a free port, opens Explore in the system's Chromium, light and dark, wide and
narrow, with one head's temperature raised, and ends the app again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.conftest import FLAGS, chromium, running_app  # noqa: E402
from transformer_viz.interventions import Intervention, Temperature  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WARM = Intervention((Temperature(value=2.5, stack="decoder", block="cross"),))
LINK = {"edits": WARM.to_json(), "layer": 1, "head": 7, "token": 11, "scope": "block"}
#: Name of the picture, colours, and width in pixels.
SHOTS = (
    ("explore-light", "light", 1440),
    ("explore-dark", "dark", 1440),
    ("explore-light-800", "light", 800),
    ("explore-dark-800", "dark", 800),
)


def settle(page: Page) -> None:
    """Wait until pictures and sentences stand still."""
    page.wait_for_selector(".tv-foot")
    page.locator(".heatmaplayer image").nth(1).wait_for()
    page.wait_for_function(
        """() => {
          const after = document.querySelector('[data-what="after"]');
          return after && after.innerText !== "…";
        }"""
    )
    page.wait_for_timeout(800)


def shoot(page: Page, width: int, path: Path) -> None:
    """The whole page in one picture: the window is made as tall as what is in it."""
    tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width, "height": int(tall)})
    page.wait_for_timeout(800)
    page.screenshot(path=path)
    print(path.relative_to(ROOT))


def main() -> None:
    """Take every picture of `SHOTS`."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with running_app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name, colours, width in SHOTS:
            context = browser.new_context(
                viewport={"width": width, "height": 1000}, color_scheme=colours
            )
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.goto(f"{url}/?{urlencode(LINK)}")
            settle(page)
            shoot(page, width, PICTURES / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
