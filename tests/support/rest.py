"""When has a page come to rest? What tests, screenshots and `make soak` wait for."""

from __future__ import annotations

from playwright.sync_api import Page

#: Nothing runs, and whatever was to follow (the free sentence, the other order) has followed; no
#: slider waits for the hand to rest, or for the page to hear where it was left.
RESTS = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  const text = (what) => document.querySelector(`[data-what="${what}"]`)?.innerText;
  const moving = [...document.querySelectorAll("[data-painted]")].some((host) =>
    host.shadowRoot?.querySelector("[data-moving]"));
  return !moving && app?.dataset.testScriptState === "notRunning"
    && app.dataset.testConnectionState === "CONNECTED"
    && !!document.querySelector('[data-testid="stMain"]')
    && text("after") !== "…" && text("order-words") !== "…";
}"""
STILL = 200  # milliseconds that a rest must last: a click needs some to reach the server


def rest(page: Page, *, still: int = STILL, patience: float | None = None) -> None:
    """Wait until the page has answered and rests.

    Args:
        page: where.
        still: milliseconds that the rest lasts.
        patience: milliseconds of each wait for a rest, which may turn out to be none yet; None: as
            the page's own.

    Raises:
        playwright.sync_api.TimeoutError: it does not in time.
    """
    calm = False
    while not calm:
        page.wait_for_function(RESTS, timeout=patience)
        page.wait_for_timeout(still)
        calm = bool(page.evaluate(RESTS))
