"""Some seconds of each strain of `make soak`: nothing breaks, nothing of one reaches another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser

from benchmarks.class_section import section
from benchmarks.memory import Diary, server_of
from benchmarks.pupils import LEAST, Truth, lesson, mixed, sentence_of
from tests.soak.monkey import play
from tests.soak.visitors import together
from tests.support.browser import visit

SECONDS, ACTIONS = 3, 3
PUPILS, LESSON = 3, 4
CHANGES = 4


@pytest.mark.soak  # `python -m tests.soak` lets it play for ten minutes
def test_a_monkey_breaks_nothing(browser: Browser, url: str) -> None:
    with visit(browser) as page:
        diary = Diary(server_of(url), every=2)
        found = play(page, url, SECONDS, diary=diary, least=ACTIONS)
    assert not found.broken
    assert found.done.total() >= ACTIONS
    assert min(diary.server) > 0 and min(diary.page) > 0


@pytest.mark.soak  # held by tests/app/balancer/test_workers.py and tests/app/live/test_frames.py
def test_pupils_are_shown_what_their_own_sentences_give(browser: Browser, url: str) -> None:
    assert len({sentence_of(number) for number in range(30)}) == 30, "each types another one"
    met = lesson(browser, url, PUPILS, LESSON)
    assert not met.errors
    assert len(met.steps) >= LEAST * (PUPILS - 1) and met.painted
    truth = Truth()
    assert mixed(met.steps, truth) == []
    mine, other = [visit.steps[0] for visit in met.visits if visit.steps][:2]
    swapped = replace(mine, frame=other.frame, head=other.head, after=other.after)
    assert len(mixed([swapped], truth)) == 3  # another pupil's screen would be noticed
    assert "move to frame" in section(met, [], PUPILS, LESSON).text


@pytest.mark.soak  # the same law with two models: `python -m tests.soak` makes 200 changes
def test_two_visitors_see_each_their_own(browser: Browser, url: str) -> None:
    tale = together(browser, url, CHANGES)
    assert not tale.broken
    assert tale.changes >= CHANGES and tale.overlaps > 0
    assert tale.noticed >= 5  # one's screen held against the other's link
