"""When has a page come to rest? What tests, screenshots and `make soak` wait for."""

from __future__ import annotations

from playwright.sync_api import Page, TimeoutError

from tests.support.scripts import script

RESTS = script("rests")
OFTEN = 30  # milliseconds between two looks: at each frame, they would slow the page down
STILL = 200  # milliseconds that a rest must last: a click needs some to reach the server


def rest(page: Page, *, still: int = STILL, patience: float | None = None) -> None:
    """Wait until the page has answered and rests.

    Args:
        page: where.
        still: milliseconds that the rest lasts.
        patience: milliseconds of each wait for a rest, which may turn out to be none yet; None: as
            the page's own.

    Raises:
        playwright.sync_api.TimeoutError: it does not in time; a note says what it waited for.
    """
    calm = False
    while not calm:
        try:
            page.wait_for_function(RESTS, timeout=patience, polling=OFTEN)
        except TimeoutError as error:
            error.add_note(f"still busy: {page.evaluate(f'({RESTS})(true)')}")
            raise
        page.wait_for_timeout(still)
        calm = bool(page.evaluate(RESTS))
