"""Between Streamlit and a view: redrawing when the style comes late, chips that go while in use."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support import component_stage as stages
from transformer_viz.components import Chip, ChipRow, tokens_data

LATE = """async () => {
  const { showIn } = await import('/shared/streamlit_view.js');
  const host = document.body.appendChild(document.createElement('div'));
  const root = host.attachShadow({ mode: 'open' });
  root.innerHTML = '<link rel="stylesheet" href="/atlas/atlas.css"><div class="tv"></div>';
  let shown = 0;
  class View { show() { shown += 1; } end() {} }
  const component = { data: { part: 'any' }, parentElement: root, setTriggerValue: () => {} };
  const arrived = new Promise(done => root.querySelector('link').addEventListener('load', done));
  const end = showIn(component, () => View);
  const first = shown;
  await arrived;
  await new Promise(done => setTimeout(done, 0));
  end();
  return [first, shown];
}"""


def test_a_picture_is_drawn_again_when_its_style_arrives(stage: Page) -> None:
    assert stage.evaluate(LATE) == [1, 2]


def test_the_chip_in_use_may_go_with_its_sentence(stage: Page) -> None:
    """A button that is taken away loses the keyboard, which puts the light out meanwhile."""
    long, short = (
        tokens_data([ChipRow("source", [Chip(word, row=0) for word in words])], dark=False)
        for words in (("a", "b", "c"), ("a",))
    )
    stages.show(stage, "tokens/tokens.js", "Chips", long)
    stage.keyboard.press("Tab")
    stage.keyboard.press("End")
    expect(stage.get_by_role("button", name="c")).to_be_focused()
    stages.update(stage, short)
    expect(stage.get_by_role("button")).to_have_text(["a"])
