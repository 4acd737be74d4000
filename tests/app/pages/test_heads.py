"""Heads in Streamlit's own test runner: the library's numbers, on each kind of sentences."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.heads import jobs, removal, sentences, upload
from transformer_viz.app.heads.jobs import maps_of
from transformer_viz.app.heads.table import HEAD
from transformer_viz.app.heads.upload import read
from transformer_viz.app.session.keys import Private
from transformer_viz.app.ui.terms import TERMS
from transformer_viz.core.interventions import Intervention, MeanHead, ScaleHead
from transformer_viz.core.sites import Site
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import read_examples
from transformer_viz.inference.head_means import find
from transformer_viz.lessons.glossary import GLOSSARY
from transformer_viz.views.html.head_table import ROLE_TEXTS

from ...support.page_content import address, html, part, said, told

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
def test_the_head_that_costs_most_is_said_first_with_a_way_to_it(shown: Visit) -> None:
    app = shown()
    kept = pd.DataFrame(json.loads(_file().read_text(encoding="utf-8"))["ranking"]["columns"])
    most = kept.sort_values("effect").iloc[-1]
    verdict, site = said(app, "heads-verdict"), Site(*most[HEAD])
    assert most["significant"] and f">{site}</a>" in verdict
    assert f"block={site.map}" in verdict and f"head={site.head}" in verdict
    assert f"{1 - np.exp(-most['effect']):.0%} less probable" in verdict
    assert f"({most['effect']:.3f} nats" in verdict
    alone = said(shown(heads_on="sentence"), "heads-verdict")
    assert "may be chance" in alone and "95" not in alone


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


@pytest.mark.shipped
def test_a_head_is_removed_as_in_the_ranking(shown: Visit) -> None:
    """Its mean over the ranked sentences lies beside the weights, so the link says it anywhere."""
    app = shown(block="cross", layer="0", head="7")
    app.button(key="heads-as-ranked").click().run()
    (edit,) = Intervention.from_json(app.session_state["edits"]).edits
    assert isinstance(edit, MeanHead) and (edit.layer, edit.head) == (0, 7)
    model = tv.load("en-de", device="cpu")
    stored = json.loads(_file().read_text(encoding="utf-8"))["ranking"]["card"]
    assert edit.mean == stored["means"] and (stored["sentences"], stored["seed"]) == (200, 16)
    pairs = read_examples(model, list(sentences.in_the_box()[:200]), 16, lambda: None)
    bench = Bench(model, pairs, "mean", 16, lambda: None)
    assert bench.card()["sentences_hash"] == stored["sentences_hash"]
    means = bench.means(stored["model_hash"], stored["sentences_hash"])
    kept = find(edit.mean, model)
    assert kept.rows == means.rows == stored["rows"]
    for site, values in means.values.items():
        np.testing.assert_allclose(kept.values[site], values, atol=1e-5)
    best = tv.translate(model, TEXT, beam=4, intervention=Intervention((edit,)))[0].text
    assert all(word.strip(".,") in said(app, "after") for word in best.split())
    app.button(key="heads-as-ranked").click().run()
    assert "edits" not in address(app)


def test_zero_is_the_switch_itself_and_resampling_is_no_edit(visit: Visit) -> None:
    app = visit("heads", text="The cat sat.", removal="zero")
    assert not app.exception and "as in the ranking" in html(app)
    assert [b.key for b in app.button if b.key.startswith("heads-")] == ["heads-off"]
    app = visit("heads", text="The cat sat.", removal="resample")
    assert "give two or more, or take method='mean'" in told(app)
    assert heads_of(app)  # the measures stand all the same


@pytest.mark.shipped
def test_heads_are_grouped_by_role(shown: Visit) -> None:
    app = shown(block="cross", heads_by="role")
    table = sentences._read.__wrapped__(_file(), 0).evidence.table
    names = heads_of(app)
    wanted = []
    for role in ROLE_TEXTS:
        own = table[[role in roles for roles in table["roles"]]].sort_values(role, ascending=False)
        wanted += list(own.index)
    wanted += list(table.index[[not roles for roles in table["roles"]]])
    assert names == [str(Site(*head)) for head in table.loc[wanted, HEAD].to_numpy().tolist()]
    assert "looks at the word itself: 4 heads" in html(app)
    assert f"no role found: {sum(not roles for roles in table['roles'])} heads" in html(app)


@pytest.mark.shipped
@pytest.mark.parametrize("by", ["coverage", "effect"])
def test_tiles_have_the_tables_numbers_and_order(shown: Visit, by: str) -> None:
    app = shown(block="cross", heads_by=by, scale=by)
    header, arrays = part(app, "atlas")
    assert header["how"]["sort"] == header["how"]["scale"] == by
    own = arrays["numbers0"][header["columns"].index(by)]
    stored = sentences._read.__wrapped__(_file(), 0)
    table = stored.evidence.table
    if by == "effect":
        table = pd.DataFrame(stored.ranking["columns"])
    table = table[table["block"] == "cross"]
    for row in table.itertuples():
        assert own[row.layer, row.head] == pytest.approx(getattr(row, by), abs=1e-6)
    ranked = sorted(np.ndindex(own.shape), key=lambda at: -own[at])
    assert heads_of(app) == [f"cross L{layer} H{head}" for layer, head in ranked]


@pytest.mark.shipped
def test_a_role_is_drawn_on_its_sentences(shown: Visit) -> None:
    app = shown(block="encoder", layer="2", head="3")
    assert html(app).count('class="tv-small"') == 6
    stored = sentences._read.__wrapped__(_file(), 0).evidence
    row = stored.table.index[
        (stored.table["stack"] == "encoder")
        & (stored.table["layer"] == 2)
        & (stored.table["head"] == 3)
    ][0]
    best, _ = stored.examples[row, "previous"]
    item = sentences.in_the_box()[best[0]]
    model = tv.load("en-de", device="cpu")
    (found,) = maps_of(model, (item,), "encoder", 2, 3, lambda done, of: None)
    run = tv.trace(model, *item)
    np.testing.assert_allclose(found.weights, run.attention("encoder")[2, 3], atol=1e-6)
    at = np.unravel_index(found.weights.argmax(), found.weights.shape)
    strongest = f"“{found.rows[at[0]]}” looks most at “{found.columns[at[1]]}”"
    assert strongest in html(app).replace("&#x27;", "'")


@pytest.mark.shipped
def test_a_head_without_a_role_shows_where_it_looks(shown: Visit) -> None:
    stored = sentences._read.__wrapped__(_file(), 0).evidence.table
    plain = stored[(stored["stack"] == "encoder") & (stored["roles"].map(len) == 0)].iloc[0]
    app = shown(block="encoder", layer=str(plain["layer"]), head=str(plain["head"]))
    assert html(app).count('data-what="example-none"') == 3
    assert all(item[0] in html(app).replace("&#x27;", "'") for item in sentences.in_the_box()[:3])


@pytest.mark.shipped
def test_the_words_of_the_page_stand_at_its_foot(shown: Visit) -> None:
    found = html(shown())
    assert "<dt>nat</dt>" in found and "<dt>teacher forced</dt>" in found
    assert "<dt>head</dt>" in found  # of the lesson's glossary


def test_what_the_words_say_in_numbers_is_so() -> None:
    assert math.exp(-0.1) == pytest.approx(0.90, abs=0.005)
    assert math.exp(-0.69) == pytest.approx(0.50, abs=0.005)
    assert not TERMS.keys() & GLOSSARY.keys()


@pytest.mark.shipped
def test_numbers_sharpen_step_by_step_to_all_sentences(
    shown: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = sentences.in_the_box()[:5]
    monkeypatch.setattr(sentences, "in_the_box", lambda: pairs)
    monkeypatch.setattr(removal, "STEPS", (2, 3))
    counts = []
    once = jobs.ranked

    def counted(model: tv.Model, some: tuple[jobs.Item, ...], *rest: object, **tell: object):
        counts.append(len(some))
        return once(model, some, *rest, **tell)

    monkeypatch.setattr(removal, "ranked", counted)
    app = shown(removal="uniform")
    assert counts == [2, 3, 5]
    table = tv.rank(tv.load("en-de", device="cpu"), list(pairs), "uniform").table
    assert "On 5 sentences" in html(app)
    names = [f"{Site(*head)}" for head in table[HEAD].head(20).to_numpy().tolist()]
    assert heads_of(app, 1) == names
    assert 'href="./?' in html(app)


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


def test_a_file_of_200_mb_is_refused_before_it_is_read() -> None:
    content = b"A cat sat.\n" * (200_000_000 // 11)
    with pytest.raises(ValueError, match=r"big.txt has 200 MB; here up to 20 MB are read") as said:
        read("big.txt", content)
    assert "transformer-viz atlas" in str(said.value)


@pytest.mark.shipped
def test_a_file_of_one_line_is_one_sentence(shown: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_file(shown, monkeypatch, b"The dog slept.")
    assert "One sentence" in html(app) and "One sentence has no interval" in html(app)
    assert not app.warning and not app.error


@pytest.mark.shipped
def test_a_line_without_end_is_told_and_the_page_stands(
    shown: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="has more than 1,000,000 bytes; give one sentence a line"):
        read("mine.txt", b"word " * 400_000)
    app = with_file(shown, monkeypatch, b"word " * 4_000)
    assert not app.exception and not app.error
    assert "tokens" in told(app)
    assert app.segmented_control(key="heads_on").value == "file"


def with_file(shown: Visit, monkeypatch: pytest.MonkeyPatch, content: bytes) -> AppTest:
    """The page with a file of the visitor's own in its box."""
    given = read("mine.txt", content)
    monkeypatch.setattr(upload, "file", lambda: True)
    monkeypatch.setattr(Private, "heads_file", property(lambda self: given))
    return shown(heads_on="file")


@pytest.mark.shipped
def test_groups_of_roles_stand_beside_those_of_blocks_and_layers() -> None:
    model = tv.load("en-de-small", device="cpu")
    pairs = sentences.in_the_box()[:3]
    heads = (("encoder", "self", 0, 0), ("encoder", "self", 1, 1))
    found = jobs.together(model, pairs, "zero", (("previous", heads),), lambda done, of: None)
    ranking = tv.rank(model, list(pairs), "zero")
    first = found.groups.iloc[0]
    assert (first["role"], first["heads"]) == ("previous", 2)
    alone = ranking.group(heads)
    for name in ("effect", "low", "high", "sum"):
        assert first[name] == pytest.approx(alone[name], abs=1e-6)
    rest = found.groups[found.groups["role"].isna()]
    assert len(rest) == len(ranking.groups) and found.card["sentences"] == 3
    named = removal._named(found.groups)
    assert first["role"] in set(named["role"]) and "all" in set(named["layer"])
