"""A search in a real Chromium: every step by keys, the numbers on the screen by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support.component_stage import describe, said, show, update
from tests.support.scripts import script
from transformer_viz.checkpoints import Model
from transformer_viz.components.play import PlayLook, play_data
from transformer_viz.core.search_tree import CUT, ENDED, KEPT, LEFT_OUT, Search
from transformer_viz.inference.generation import length_norm
from transformer_viz.inference.search_recorder import record

TEXTS = script("visible_texts")
SOURCE = [5, 9, 31, 7, 3]
PIECES = [f"w{n}" for n in range(41)]
WORDS = [f"s{n}" for n in SOURCE]
FATES = {KEPT: "kept", ENDED: "ended", CUT: "cut off", LEFT_OUT: "left out"}


@pytest.fixture(scope="module")
def beam(tiny_model: Model) -> Search:
    return record(tiny_model, SOURCE, 3, max_tokens=6)


def begin(page: Page, search: Search, dark: bool = False, start: str = "", **words: Any) -> None:
    data = play_data(search, PIECES, WORDS, PlayLook(**words), about="a", start=start)
    show(page, "play/play.js", "Play", data, css="pictures.css", dark=dark, width="1200px")


def texts(page: Page, query: str) -> list[str]:
    """The words of all elements that can be seen."""
    found: list[str] = page.evaluate(TEXTS, query)
    return found


def written(number: float, digits: int = 2) -> str:
    return f"{number:.{digits}f}".replace("-", "−")


def shown_row(page: Page) -> list[float]:
    return [float(text or 0) for text in texts(page, ".keys .number")]


def test_each_step_shows_its_own_row_and_its_own_candidates(stage: Page, beam: Search) -> None:
    # each step shows its own row and its own candidates
    for pooled in (True, False):
        begin(stage, beam, layer=1, head=1, pooled=pooled)
        one = beam.best[0]
        history = beam.history(one, 1)
        rows = history.mean(axis=0) if pooled else history[1]
        for step, (token, candidate) in enumerate(zip(beam.ids(one), beam.line(one), strict=True)):
            assert texts(stage, ".chip") == [PIECES[n] for n in beam.ids(one)[: step + 1]], pooled
            assert texts(stage, ".chip.now") == [PIECES[token]], pooled
            assert shown_row(stage) == pytest.approx(np.round(rows[step], 2), abs=0.0051), pooled
            place = beam.passes(one)[step]
            assert texts(stage, ".guess b") == [PIECES[n] for n in beam.top_tokens[place]], pooled
            chances = [float(text) for text in texts(stage, ".guess .number")]
            assert chances == pytest.approx(np.exp(beam.top_logs[place]), abs=0.00051), pooled
            assert texts(stage, ".guess .chosen b") == [PIECES[token]], pooled
            siblings = (beam.parents == beam.parents[candidate]) & (beam.fates != LEFT_OUT)
            kept = {PIECES[n] for n in beam.tokens[siblings]} - {PIECES[token]}
            assert set(texts(stage, ".guess .kept b")) == kept, pooled
            stage.keyboard.press("ArrowRight")
        expect(stage.locator("#host output")).to_have_text(f"token {len(rows)} of {len(rows)}")
    # another head is shown at once and told
    begin(stage, beam, layer=1, head=0, pooled=True, played=1)
    stage.locator("#host .row select").nth(1).select_option("1")
    row = beam.history(beam.best[0], 1)[1][1]
    assert shown_row(stage) == pytest.approx(np.round(row, 2), abs=0.0051)
    assert "One head alone: L1 H1." in stage.locator("#host .row").inner_text()
    assert said(stage) == [("looked", {"layer": 1, "head": 1, "pooled": False})]
    # the history holds the rows so far
    begin(stage, beam, played=2)
    shown = np.array(describe(stage)["history"], float)  # None is not a number
    rows = beam.history(beam.best[0], 0).mean(axis=0)
    assert shown.shape == rows.shape
    assert np.allclose(shown[:3], rows[:3], atol=1e-6)
    assert np.isnan(shown[3:]).all()


def test_the_tree_its_table_and_its_reasons(stage: Page, beam: Search) -> None:
    # the tree grows and holds what was kept and what was left out
    begin(stage, beam)
    for step in range(int(beam.steps[beam.best[0]]) + 1):
        wanted = []
        for column in range(step + 1):
            here = np.flatnonzero(beam.steps == column)
            out = [n for n in here if beam.fates[n] == LEFT_OUT][:3]
            wanted += [n for n in here if beam.fates[n] != LEFT_OUT] + out
        assert texts(stage, ".sheet button") == [
            PIECES[beam.tokens[n]] + written(beam.totals[n]) for n in wanted
        ]
        assert len(texts(stage, ".sheet button.left")) == sum(
            beam.fates[n] == LEFT_OUT for n in wanted
        )
        assert len(texts(stage, ".sheet button.on")) == step + 1
        stage.keyboard.press("ArrowRight")
    # the table has all that were weighed
    begin(stage, beam, played=2)
    stage.locator("#host summary").click()
    expect(stage.locator("#host .weighed td").first).to_be_attached()
    cells = texts(stage, ".weighed td")
    here = np.flatnonzero(beam.steps == 2)
    assert cells == [
        text
        for place, n in enumerate(here)
        for text in (
            str(place + 1),
            " ".join(PIECES[i] for i in beam.ids(int(n))),
            written(beam.totals[n], 3),
            written(beam.scores[n], 3),
            FATES[int(beam.fates[n])],
        )
    ]
    # a text says why it won or lost
    begin(stage, beam)
    winner, second = beam.best[:2]
    why = stage.locator("#host .why")
    length = len(beam.ids(winner))
    for text in (
        f"of {len(beam.best)} texts that ended, its score is the highest",
        f"Its score is {written(beam.totals[winner] / length_norm(length, 1.0), 3)}",
        f"log-probability {written(beam.totals[winner])}",
        f"divided by {length_norm(length, 1.0):.3f}, the length norm ((5 + {length}) / 6).",
        f"The next one has {written(beam.scores[second], 3)}.",
    ):
        assert text in why.inner_text()
    stage.locator("#host .fate tbody tr").nth(1).locator("button").click()
    assert f"at place 2 of {len(beam.best)}" in why.inner_text()
    assert f"the winner's score is {written(beam.scores[winner], 3)}" in why.inner_text()
    # a click shows a text that was left out
    begin(stage, beam, played=3, layer=0)
    out = next(n for n in np.flatnonzero(beam.steps == 2) if beam.fates[n] == LEFT_OUT)
    stage.locator(f".sheet button[data-one='{out}']").dispatch_event("click")
    here = np.flatnonzero(beam.steps == 2)
    kept = [n for n in here if beam.fates[n] != LEFT_OUT]
    assert stage.locator("#host .why").inner_text() == (
        f"Left out at token 3: its log-probability {written(beam.totals[out])} stood at place "
        f"{list(here).index(out) + 1} of {len(here)}, and {len(kept)} were kept, the last one "
        f"with {written(beam.totals[kept[-1]])}."
    )
    assert texts(stage, ".chip") == [PIECES[n] for n in beam.ids(int(out))]
    row = beam.history(int(out), 0).mean(axis=0)[2]
    assert shown_row(stage) == pytest.approx(np.round(row, 2), abs=0.0051)
    stage.wait_for_timeout(600)
    assert said(stage) == [("moved", {"played": 2, "branch": f"2.{list(here).index(out)}"})]
    # a click on a kept token shows what came of it
    begin(stage, beam, played=5)
    lines = [beam.line(one) for one in beam.best]
    for candidate in np.flatnonzero(beam.fates != LEFT_OUT):
        stage.locator(f".sheet button[data-one='{candidate}']").dispatch_event("click")
        chosen = describe(stage)["chosen"]
        through = [line for line in lines if candidate in line]
        if through:
            assert chosen == through[0][-1]
        else:
            assert candidate in beam.line(chosen) and beam.fates[chosen] == KEPT
            assert not any(beam.fates[np.flatnonzero(beam.parents == chosen)] != LEFT_OUT)


def test_the_newest_step_counts(stage: Page, beam: Search) -> None:
    # python s step counts unless the hand was faster
    begin(stage, beam)
    for _ in range(3):
        stage.keyboard.press("ArrowRight")
    # the echo of a layer
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=0), about="a"))
    assert texts(stage, ".chip.now") == [PIECES[beam.ids(beam.best[0])[3]]]
    stage.wait_for_timeout(600)
    assert said(stage) == [("moved", {"played": 3, "branch": ""})]
    stage.keyboard.press("ArrowLeft")
    # and its own, late
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=3), about="a"))
    assert len(texts(stage, ".chip")) == 3
    stage.wait_for_timeout(600)
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=2), about="a"))
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=4), about="a"))  # the link, Back
    assert len(texts(stage, ".chip")) == 5
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=1), about="b"))
    assert len(texts(stage, ".chip")) == 2
    # back moves the picture after a step that python never answered
    begin(stage, beam)
    stage.keyboard.press("ArrowRight")
    stage.wait_for_timeout(600)
    assert said(stage) == [("moved", {"played": 1, "branch": ""})]  # and its run is given up
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=3), about="a"))
    assert len(texts(stage, ".chip")) == 4
    # Back, to that very step
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=1), about="a"))
    assert len(texts(stage, ".chip")) == 2
    # a step that shows did not answer is forgotten
    begin(stage, beam)
    stage.keyboard.press("ArrowRight")
    stage.wait_for_timeout(600)
    for _ in range(3):
        update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=0), about="a"))
    assert len(texts(stage, ".chip")) == 2  # the hand's own step stays until there is news
    stage.keyboard.press("ArrowRight")
    update(stage, play_data(beam, PIECES, WORDS, PlayLook(played=1), about="a"))
    assert len(texts(stage, ".chip")) == 2


def test_it_plays_to_the_end_and_rests(stage: Page, beam: Search) -> None:
    begin(stage, beam, played=3)
    play = stage.locator("#host .play")
    play.click()
    expect(play).to_contain_text("pause")
    expect(stage.locator("#host output")).to_have_text("token 6 of 6")
    expect(play).to_contain_text("play")
    stage.keyboard.press("Home")
    play.click()
    stage.keyboard.press("Space")  # the button has the keyboard, and presses itself
    expect(play).to_contain_text("play")
    stage.mouse.click(5, 5)
    stage.evaluate("document.activeElement.blur()")
    stage.keyboard.press("Space")
    expect(play).to_contain_text("pause")


def test_drawn_and_continued_texts(
    stage: Page, tiny_model: Model, build_model: Callable[..., Model]
) -> None:
    # a drawn text tells both chances
    for dark in (False, True):
        search = record(tiny_model, SOURCE, sample=2.5, seed=1, max_tokens=6)
        begin(stage, search, played=2, dark=dark)
        one = search.best[0]
        place, candidate = search.passes(one)[2], search.line(one)[2]
        drawn, own = list(search.top_chances[place]), list(np.exp(search.top_logs[place]))
        if search.tokens[candidate] not in search.top_tokens[place]:
            drawn.append(search.chances[candidate])
            own.append(np.exp(search.logs[candidate]))
            last = texts(stage, ".guess .chosen .place")[0]
            assert last == str(search.ranks[candidate]), dark
        assert [float(t) for t in texts(stage, ".guess .number")] == pytest.approx(drawn, abs=6e-4)
        second = texts(stage, ".guess .number + .place")
        assert [float(t) for t in second] == pytest.approx(own, abs=6e-4), dark
        assert "output temperature 2.5" in stage.locator("#host .guess").inner_text()
        first = int((search.ranks[list(search.line(one))] == 1).sum())
        assert (
            f"{first} of 6 were the model's first choice"
            in stage.locator("#host .why").inner_text()
        )
        assert stage.locator("#host .tree").is_hidden()
    # a text that goes on looks at its own tokens
    gpt = build_model(encoder_layers=0, source_vocab=0)
    search = record(gpt, SOURCE, max_tokens=4)
    begin(stage, search, played=3, start="before")
    ids = search.ids(search.best[0])
    assert texts(stage, ".keys b") == [*WORDS, *(PIECES[n] for n in ids[:3])]
    row = search.history(search.best[0], 0).mean(axis=0)[3]
    assert shown_row(stage) == pytest.approx(np.round(row, 2), abs=0.0051)
    assert texts(stage, ".start") == ["before"]
