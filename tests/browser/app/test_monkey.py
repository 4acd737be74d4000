"""Twenty seconds of `make soak`: random clicks, keys and links; nothing may break."""

from __future__ import annotations

from playwright.sync_api import Browser

from benchmarks.memory import Diary, server_of
from benchmarks.monkey import play
from tests.support.browser import visit


def test_a_monkey_breaks_nothing_in_twenty_seconds(browser: Browser, url: str) -> None:
    with visit(browser) as page:
        diary = Diary(server_of(url), every=5)
        found = play(page, url, seconds=20, diary=diary, least=5)
    assert not found.broken
    assert found.done.total() >= 5
    assert min(diary.server) > 0 and min(diary.page) > 0
