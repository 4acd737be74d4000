"""Swap in Streamlit's own test runner: the library's numbers, and one click that keeps a swap."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.pages import swap
from transformer_viz.app.pages.swap import variant
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import Intervention, SwapHead, SwapStream
from transformer_viz.i18n import numeral
from transformer_viz.inference.patching.output_words import SameOutputs

from ...support.page_content import address, charts, go, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
OTHER = FIRST_TEXT.replace("tired", "wide")


@pytest.fixture
def shown(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """The page with the translator in the box."""

    def open_page(**link: str) -> AppTest:
        app = visit("swap", **({"text": FIRST_TEXT, "model": "en-de"} | link))
        assert not app.exception
        return app

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")
    return open_page


@pytest.mark.shipped
@pytest.mark.parametrize("what", ["heads", "patterns", "stream"])
def test_the_grids_are_the_librarys(shown: Visit, what: str) -> None:
    app = shown(swapped=what)
    assert not app.error and not app.warning
    model = tv.load("en-de", device="cpu")
    ids = [tv.translate(model, text, beam=4)[0].ids for text in (FIRST_TEXT, OTHER)]
    common = next(n for n, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    held = [model.bos_id, *ids[0][:common]]
    words = (ids[0][common], ids[1][common])
    found = tv.swap(model, FIRST_TEXT, OTHER, words, what, target=held)
    drawn = charts(app)
    assert {f"swap-{what}-{part}" for part in found.parts} == set(drawn)
    for part, values in found.parts.items():
        np.testing.assert_allclose(heatmap(drawn[f"swap-{what}-{part}"]), values, atol=1e-6)
    assert f"{numeral(found.clean, '+.2f')} nats" in said(app, "pair-0")
    assert f"{numeral(found.other, '+.2f')} nats" in said(app, "pair-1")
    assert model.tokenizer.decode(ids[0]) in said(app, "writes-0")
    strongest = found.ranked[0]
    value = found.parts[strongest.part][strongest.row, strongest.column]
    assert any(f"{value:+.2f}" in str(one.value) for one in app.markdown)


@pytest.mark.shipped
def test_one_click_keeps_a_swap_and_another_takes_it_back(shown: Visit) -> None:
    app = shown()
    first = tv.translate(tv.load("en-de", device="cpu"), FIRST_TEXT, beam=4)[0].text
    app.button(key="swap-keep-0").click().run()
    (edit,) = Intervention.from_json(app.session_state["edits"]).edits
    assert isinstance(edit, SwapHead) and edit.source == OTHER
    assert app.button(key="swap-keep-0").label == "take back"
    assert [b.key for b in app.button if b.key.startswith("edit-")] == ["edit-0"]
    assert "gives what it gives in" in app.button(key="edit-0").label
    assert first in said(app, "before")
    changed = tv.translate(
        tv.load("en-de", device="cpu"), FIRST_TEXT, beam=4, intervention=Intervention((edit,))
    )[0].text
    words = [word for word in changed.split() if word not in first.split()]
    assert all(word.strip(".,") in said(app, "after") for word in words)
    # it is there on every page, and in the link
    assert go(app, "").button(key="edit-0").label == app.button(key="edit-0").label
    assert "edits" in address(app)
    go(app, "swap").button(key="swap-keep-0").click().run()
    assert Intervention.from_json(app.session_state["edits"]).edits == ()
    app.button(key="undo").click().run()
    assert Intervention.from_json(app.session_state["edits"]).edits == (edit,)


@pytest.mark.shipped
def test_a_row_of_the_stream_is_called_by_its_word(shown: Visit) -> None:
    edit = SwapStream(source=OTHER, stack="encoder", layer=0, token=1)
    app = shown(swapped="stream", edits=Intervention((edit,)).to_json())
    assert "“animal”" in app.button(key="edit-0").label
    late = SwapStream(source=OTHER, stack="encoder", layer=0, token=40)
    assert "does not stand in this sentence" in told(
        shown(edits=Intervention((late,)).to_json())
    ) or any(
        "does not stand" in str(e.value) for e in shown(edits=Intervention((late,)).to_json()).error
    )


@pytest.mark.shipped
def test_the_other_sentence_and_the_pair_are_typed_and_stay_in_the_link(shown: Visit) -> None:
    app = shown()
    app.text_input(key="swap-other").set_value(FIRST_TEXT).run()
    assert "Both sentences are the same now" in told(app) and not charts(app)
    longer = FIRST_TEXT.replace("tired", "very tired")
    app.text_input(key="swap-other").set_value(longer).run()
    app.text_input(key="swap-pair").set_value("es, sie").run()
    link = address(app)
    assert (link["other"], link["between"]) == (longer, "es, sie")
    assert "Without a counterpart" in html(app)
    app.button_group(key="swapped").set_value("patterns")
    app.run()
    assert "only between sentences of as many tokens" in told(app)
    app.text_input(key="swap-pair").set_value("es").run()
    assert "two words with a comma between" in told(app)
    app.text_input(key="swap-pair").set_value("Regen, Sonne").run()
    assert "stands in the outputs" in told(app)


@pytest.mark.shipped
def test_numbers_and_their_card_go_along(shown: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, bytes] = {}
    monkeypatch.setattr(
        "streamlit.download_button",
        lambda label, data, file_name, **more: handed.update({file_name: data}),
    )
    app = shown()
    app.session_state["swap-numbers"] = True
    app.run()
    table = pd.read_csv(io.BytesIO(handed["swap-heads.csv"]))
    assert list(table) == ["part", "layer", "head", "moved"]
    card = json.loads(handed["swap-heads.card.json"])
    assert card["swaps"] == len(table) and card["model"] == "en-de" and card["model_hash"]
    drawn = charts(app)
    cross = table[table["part"] == "cross"]
    values = cross["moved"].to_numpy().reshape(heatmap(drawn["swap-heads-cross"]).shape)
    np.testing.assert_allclose(values, heatmap(drawn["swap-heads-cross"]), atol=1e-6)


def test_equal_leads_have_no_carrier(visit: Visit) -> None:
    """The tiny model with ramp weights hardly listens to its source."""
    app = visit("swap", other="The dog sat.")
    assert not app.exception and not app.error
    assert "no difference whose carrier" in told(app) or "the same output" in told(app)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit", "reads something else"),
        ("core", "reads something else"),
        ("mlm", "click a word above to mask it"),
    ],
)
def test_other_kinds_are_told_what_is_needed(
    meet: Callable[..., AppTest], name: str, words: str
) -> None:
    app = meet(name, "swap")
    assert not app.exception and words in told(app)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("lm", {"text": "The cat sat on the mat.", "other": "The dog sat on the mat."}),
        (
            "mlm",
            {
                "text": "The cat sat on the mat.",
                "other": "The dog sat on the mat.",
                "masked": "4",
            },
        ),
    ],
)
def test_models_of_one_stack(meet: Callable[..., AppTest], name: str, link: dict[str, str]) -> None:
    app = meet(name, "swap", **link)
    assert not app.exception and not app.error
    stack = "decoder" if name == "lm" else "encoder"
    assert list(charts(app)) == [f"swap-heads-{stack}"] or told(app)


def test_equal_outputs_are_said_in_the_words_of_the_page(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(*_: Any, **__: Any) -> None:
        raise SameOutputs("name a pair of words (words=)")

    monkeypatch.setattr(swap, "run_with_progress", same)
    app = visit("swap", other="The dog sat.", lang="de")
    assert "Beide Sätze haben dieselbe Ausgabe" in told(app) and "words=" not in told(app)


def test_a_text_of_the_models_own_words_has_a_variant() -> None:
    for text, examples, other in (
        ("rot hund jagt", ("rot hund jagt", "blau katze malt"), "rot hund malt"),
        ("blau katze malt", ("rot hund jagt", "blau katze malt"), "blau katze jagt"),
        ("abcd", ("abcd", "efgh"), "efgh"),
        ("typed by hand", ("rot hund jagt", "blau katze malt"), "typed by hand"),
        ("rot hund jagt", ("rot hund jagt",), "rot hund jagt"),
        (FIRST_TEXT, (), OTHER),
    ):
        assert variant(text, examples) == other, text
