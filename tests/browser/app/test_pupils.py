"""Six pupils for twenty seconds, a short version of `make soak`: each is shown its own."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Browser

from benchmarks.pupils import LEAST, Truth, lesson, mixed, section, sentence_of

PUPILS, SECONDS = 6, 20


def test_six_pupils_are_shown_what_their_own_sentences_give(browser: Browser, url: str) -> None:
    met = lesson(browser, url, PUPILS, SECONDS)
    assert not met.errors
    assert len(met.steps) >= LEAST * (PUPILS - 1) and met.painted
    truth = Truth()
    assert mixed(met.steps, truth) == []
    mine, other = met.visits[0].steps[0], met.visits[1].steps[0]
    swapped = replace(mine, frame=other.frame, head=other.head, after=other.after)
    assert len(mixed([swapped], truth)) == 3  # another pupil's screen would be noticed
    assert "move to frame" in section(met, [], PUPILS, SECONDS).text


def test_no_two_pupils_of_a_class_type_one_sentence() -> None:
    assert len({sentence_of(number) for number in range(30)}) == 30
