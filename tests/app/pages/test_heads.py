"""Heads in Streamlit's own test runner: the library's numbers, on each kind of sentences."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.heads import sentences, upload
from transformer_viz.app.heads.upload import read
from transformer_viz.core.interventions import Intervention, ScaleHead

from ...support.page_content import address, html, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT = "The cat sat on the mat."


@pytest.fixture
def shown(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """The page with the translator in the box."""

    def open_page(**link: str) -> AppTest:
        app = visit("heads", **({"text": TEXT, "model": "en-de"} | link))
        assert not app.exception, told(app)
        return app

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")
    return open_page


def heads_of(app: AppTest, number: int = 0) -> list[str]:
    """The heads of a table of the page, in its order."""
    tables = re.findall(r'<div class="tv-heads">.*?</div>', html(app), re.DOTALL)
    return re.findall(r'data-head="(.*?)"', tables[number])


@pytest.mark.shipped
def test_the_stored_table_stands_at_once(shown: Visit) -> None:
    app = shown(block="encoder", heads_by="previous")
    found = pd.DataFrame(sentences._read.__wrapped__(_file(), 0).evidence.table)
    own = found[(found["stack"] == "encoder")].sort_values("previous", ascending=False)
    names = [f"encoder L{row.layer} H{row.head}" for row in own.itertuples()]
    assert heads_of(app) == names
    assert "500 sentences" in html(app) and "Held-out sentences of Tatoeba" in html(app)
    assert "no role found" in html(app) and "looks at the word before" in html(app)


def _file():
    from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED

    return PRETRAINED / "en-de" / HEADS


@pytest.mark.shipped
def test_this_sentence_is_measured_as_the_library_does(shown: Visit) -> None:
    app = shown(block="cross", heads_on="sentence", heads_by="coverage")
    model = tv.load("en-de", device="cpu")
    target = [model.bos_id, *tv.translate(model, TEXT, beam=4)[0].ids[:-1]]
    table = tv.metrics(model, [(TEXT, target)])
    own = table[table["block"] == "cross"].sort_values("coverage", ascending=False, kind="stable")
    first = own.iloc[0]
    assert heads_of(app)[0] == f"cross L{first['layer']} H{first['head']}"
    assert f"<b>{first['coverage']:.2f}</b>" in html(app)
    assert "One sentence has no interval" in html(app)
    ranking = tv.rank(model, [(TEXT, target)])
    strongest = ranking.table.iloc[0]
    assert heads_of(app, 1)[0].endswith(f"L{strongest['layer']} H{strongest['head']}")
    assert f"<b>{strongest['effect']:+.3f}</b>" in html(app)


@pytest.mark.shipped
def test_a_head_is_switched_off_with_one_click(shown: Visit) -> None:
    app = shown(block="cross", layer="0", head="7")
    app.button(key="heads-off").click().run()
    edit = ScaleHead(value=0, stack="decoder", block="cross", layer=0, head=7)
    assert address(app)["edits"] == Intervention((edit,)).to_json()
    app.button(key="heads-off").click().run()
    assert "edits" not in address(app)


def test_a_model_that_reads_no_text_says_so(visit: Visit) -> None:
    app = visit("heads", model="digits")
    assert not app.exception
    assert "Heads are measured on sentences here" in told(app)


def test_other_models_are_measured_on_the_sentence(visit: Visit) -> None:
    app = visit("heads", text="The cat sat.")
    assert not app.exception and "One sentence" in html(app)
    assert app.segmented_control(key="heads_on").options == ["this sentence", "your file"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a.txt is empty; give one sentence a line."),
        (b"\n \n", "a.txt is empty"),
        (b"\xff\xfe\x00", "a.txt is no text in UTF-8 (line 1)"),
        (b"PK\x03\x04\0\0", "a.txt is no text: it holds zero bytes"),
        (b"one\ntwo\tzwei\tdrei", "Line 2 of a.txt has 3 columns"),
    ],
)
def test_a_file_that_is_no_list_of_sentences(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        read("a.txt", content)


def test_a_file_is_read_up_to_a_number_of_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read("a b?.txt", b"one\nA cat.\tEine Katze.\n\nthree")
    assert found.sentences == ("one", ("A cat.", "Eine Katze."), "three") and not found.left
    monkeypatch.setattr(upload, "MOST", 2)
    found = read("x", b"one\ntwo\nthree")
    assert (found.sentences, found.left) == (("one", "two"), 1)
    monkeypatch.setattr(upload, "BYTES", 5)
    with pytest.raises(ValueError, match="here up to 0 MB are read"):
        read("x", b"123456")
