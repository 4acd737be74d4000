"""Heads in Streamlit's own test runner: the library's numbers, on each kind of sentences."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import click, keys, runs
from transformer_viz.app.heads import jobs, removal, sentences, upload
from transformer_viz.app.heads.jobs import maps_of
from transformer_viz.app.heads.table import HEAD
from transformer_viz.app.heads.upload import read
from transformer_viz.app.session.keys import Private
from transformer_viz.app.ui.terms import TERMS
from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED
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


def heads_of(app: AppTest, number: int = 0) -> list[str]:
    """The heads of a table of the page, in its order."""
    tables = re.findall(r'<div class="tv-heads">.*?</div>', html(app), re.DOTALL)
    return re.findall(r'data-head="(.*?)"', tables[number])


@cache
def model() -> tv.Model:
    return tv.load("en-de", device="cpu")


FILE = PRETRAINED / "en-de" / HEADS


def stored() -> Any:
    """The measures that lie beside the bundled model."""
    return sentences._read.__wrapped__(FILE, 0)


def names(table: pd.DataFrame) -> list[str]:
    return [str(Site(*head)) for head in table[HEAD].to_numpy().tolist()]


@pytest.mark.shipped
def test_the_stored_table_and_the_costliest_head_stand_at_once(bundled: Visit) -> None:
    app = bundled("heads", text=TEXT, block="encoder", heads_by="previous")
    found = stored().evidence.table
    own = found[found["stack"] == "encoder"].sort_values("previous", ascending=False)
    assert heads_of(app) == names(own)
    for words in (
        *("500 sentences", "Held-out sentences of Tatoeba", "no role found"),
        *("looks at the word before", "<dt>nat</dt>", "<dt>teacher forced</dt>", "<dt>head</dt>"),
    ):
        assert words in html(app), words
    kept = pd.DataFrame(json.loads(FILE.read_text(encoding="utf-8"))["ranking"]["columns"])
    most = kept.sort_values("effect").iloc[-1]
    verdict, site = said(app, "heads-verdict"), Site(*most[HEAD])
    assert most["significant"] and f">{site}</a>" in verdict
    assert f"block={site.map}" in verdict and f"head={site.head}" in verdict
    assert f"{1 - np.exp(-most['effect']):.0%} less probable" in verdict
    assert f"({most['effect']:.3f} nats" in verdict
    # What the words at the foot say in numbers is so.
    assert math.exp(-0.1) == pytest.approx(0.90, abs=0.005)
    assert math.exp(-0.69) == pytest.approx(0.50, abs=0.005)
    assert not TERMS.keys() & GLOSSARY.keys()


@pytest.mark.shipped
def test_this_sentence_is_measured_as_the_library_does(bundled: Visit) -> None:
    app = bundled("heads", text=TEXT, block="cross", heads_on="sentence", heads_by="coverage")
    target = [model().bos_id, *tv.translate(model(), TEXT, beam=4)[0].ids[:-1]]
    table = tv.metrics(model(), [(TEXT, target)])
    own = table[table["block"] == "cross"].sort_values("coverage", ascending=False, kind="stable")
    first = own.iloc[0]
    assert heads_of(app)[0] == f"cross L{first['layer']} H{first['head']}"
    assert f"<b>{first['coverage']:.2f}</b>" in html(app)
    assert "One sentence has no interval" in html(app)
    strongest = tv.rank(model(), [(TEXT, target)]).table.iloc[0]
    assert heads_of(app, 1)[0].endswith(f"L{strongest['layer']} H{strongest['head']}")
    assert f"<b>{strongest['effect']:+.3f}</b>" in html(app)
    verdict = said(app, "heads-verdict")
    assert "may be chance" in verdict and "95" not in verdict


@pytest.mark.shipped
def test_a_head_is_switched_off_or_removed_as_in_the_ranking(bundled: Visit) -> None:
    """Its mean over the ranked sentences lies beside the weights, so the link says it anywhere."""
    app = click(bundled("heads", text=TEXT, block="cross", layer="0", head="7"), "heads-off")
    edit = ScaleHead(value=0, stack="decoder", block="cross", layer=0, head=7)
    assert address(app)["edits"] == Intervention((edit,)).to_json()
    assert "edits" not in address(click(app, "heads-off"))
    click(app, "heads-as-ranked")
    (edit,) = Intervention.from_json(app.session_state["edits"]).edits
    assert isinstance(edit, MeanHead) and (edit.layer, edit.head) == (0, 7)
    card = json.loads(FILE.read_text(encoding="utf-8"))["ranking"]["card"]
    assert edit.mean == card["means"] and (card["sentences"], card["seed"]) == (200, 16)
    pairs = read_examples(model(), list(sentences.in_the_box()[:200]), 16, lambda: None)
    bench = Bench(model(), pairs, "mean", 16, lambda: None)
    assert bench.card()["sentences_hash"] == card["sentences_hash"]
    means = bench.means(card["model_hash"], card["sentences_hash"])
    kept = find(edit.mean, model())
    assert kept.rows == means.rows == card["rows"]
    for site, values in means.values.items():
        np.testing.assert_allclose(kept.values[site], values, atol=1e-5)
    best = tv.translate(model(), TEXT, beam=4, intervention=Intervention((edit,)))[0].text
    assert all(word.strip(".,") in said(app, "after") for word in best.split())
    assert "edits" not in address(click(app, "heads-as-ranked"))


def test_zero_resampling_and_other_models(visit: Visit) -> None:
    app = runs(visit("heads", removal="zero"))  # it is the switch itself
    assert "as in the ranking" in html(app) and keys(app, "heads-") == ["heads-off"]
    assert "One sentence" in html(app)
    assert app.segmented_control(key="heads_on").options == ["this sentence", "your file"]
    app = visit("heads", removal="resample")  # no edit
    assert "give two or more, or take method='mean'" in told(app)
    assert heads_of(app)  # the measures stand all the same
    app = runs(visit("heads", model="digits"))
    assert "Heads are measured on sentences here" in told(app)


@pytest.mark.shipped
def test_heads_are_grouped_by_role_and_tiles_have_the_tables_numbers(bundled: Visit) -> None:
    app = bundled("heads", text=TEXT, block="cross", heads_by="role")
    table = stored().evidence.table
    wanted = []
    for role in ROLE_TEXTS:
        own = table[[role in roles for roles in table["roles"]]].sort_values(role, ascending=False)
        wanted += list(own.index)
    none = list(table.index[[not roles for roles in table["roles"]]])
    assert heads_of(app) == names(table.loc[wanted + none])
    assert "looks at the word itself: 4 heads" in html(app)
    assert f"no role found: {len(none)} heads" in html(app)
    for by, found in (("coverage", table), ("effect", pd.DataFrame(stored().ranking["columns"]))):
        app = bundled("heads", text=TEXT, block="cross", heads_by=by, scale=by)
        header, arrays = part(app, "atlas")
        assert header["how"]["sort"] == header["how"]["scale"] == by
        own = arrays["numbers0"][header["columns"].index(by)]
        for row in found[found["block"] == "cross"].itertuples():
            assert own[row.layer, row.head] == pytest.approx(getattr(row, by), abs=1e-6), by
        ranked = sorted(np.ndindex(own.shape), key=lambda at: -own[at])
        assert heads_of(app) == [f"cross L{layer} H{head}" for layer, head in ranked], by


@pytest.mark.shipped
def test_a_head_is_drawn_on_the_sentences_of_its_role_or_where_it_looks(bundled: Visit) -> None:
    app = bundled("heads", text=TEXT, block="encoder", layer="2", head="3")
    assert html(app).count('class="tv-small"') == 6
    evidence = stored().evidence
    table = evidence.table
    encoder = table["stack"] == "encoder"
    row = table.index[encoder & (table["layer"] == 2) & (table["head"] == 3)][0]
    best, _ = evidence.examples[row, "previous"]
    item = sentences.in_the_box()[best[0]]
    (found,) = maps_of(model(), (item,), "encoder", 2, 3, lambda done, of: None)
    run = tv.trace(model(), *item, check=False)
    np.testing.assert_allclose(found.weights, run.attention("encoder")[2, 3], atol=1e-6)
    at = np.unravel_index(found.weights.argmax(), found.weights.shape)
    strongest = f"“{found.rows[at[0]]}” looks most at “{found.columns[at[1]]}”"
    assert strongest in html(app).replace("&#x27;", "'")
    plain = table[encoder & (table["roles"].map(len) == 0)].iloc[0]
    link = {"layer": str(plain["layer"]), "head": str(plain["head"])}
    app = bundled("heads", text=TEXT, block="encoder", **link)
    assert html(app).count('data-what="example-none"') == 3
    assert all(item[0] in html(app).replace("&#x27;", "'") for item in sentences.in_the_box()[:3])


@pytest.mark.shipped
def test_numbers_sharpen_step_by_step_to_all_sentences(
    bundled: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = sentences.in_the_box()[:5]
    monkeypatch.setattr(sentences, "in_the_box", lambda: pairs)
    monkeypatch.setattr(removal, "STEPS", (2, 3))
    counts = []
    once = jobs.ranked

    def counted(own: tv.Model, some: tuple[jobs.Item, ...], *rest: object, **tell: object):
        counts.append(len(some))
        return once(own, some, *rest, **tell)

    monkeypatch.setattr(removal, "ranked", counted)
    app = bundled("heads", "en-de-small", text=TEXT, removal="uniform")
    assert counts == [2, 3, 5]
    table = tv.rank(tv.load("en-de-small", device="cpu"), list(pairs), "uniform").table
    assert "On 5 sentences" in html(app)
    assert heads_of(app, 1) == names(table.head(20))
    assert 'href="./?' in html(app)


def test_a_file_that_is_no_list_of_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    for content, words in (
        (b"", "a.txt is empty; give one sentence a line."),
        (b"\n \n", "a.txt is empty"),
        (b"\xff\xfe\x00", "a.txt is no text in UTF-8 (line 1)"),
        (b"PK\x03\x04\0\0", "a.txt is no text: it holds zero bytes"),
        (b"one\ntwo\tzwei\tdrei", "Line 2 of a.txt has 3 columns"),
        (b"word " * 400_000, "has more than 1,000,000 bytes; give one sentence a line"),
        (b"A cat sat.\n" * (200_000_000 // 11), "a.txt has 200 MB; here up to 20 MB are read"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            read("a.txt", content)
    assert "transformer-viz atlas" in str(caught.value)
    found = read("a b?.txt", b"one\nA cat.\tEine Katze.\n\nthree")
    assert found.sentences == ("one", ("A cat.", "Eine Katze."), "three") and not found.left
    monkeypatch.setattr(upload, "MOST", 2)
    found = read("x", b"one\ntwo\nthree")
    assert (found.sentences, found.left) == (("one", "two"), 1)
    monkeypatch.setattr(upload, "BYTES", 5)
    with pytest.raises(ValueError, match="here up to 0 MB are read"):
        read("x", b"123456")


@pytest.mark.shipped
def test_a_file_of_one_line_and_a_line_without_end(
    bundled: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "file", lambda: True)
    for content in (b"The dog slept.", b"word " * 4_000):
        given = read("mine.txt", content)
        monkeypatch.setattr(Private, "heads_file", property(lambda self, given=given: given))
        app = bundled("heads", text=TEXT, heads_on="file")
        assert not app.error
        assert app.segmented_control(key="heads_on").value == "file"
        if len(content) < 99:
            assert "One sentence" in html(app) and "One sentence has no interval" in html(app)
            assert not app.warning
        else:
            assert "tokens" in told(app)


@pytest.mark.shipped
def test_groups_of_roles_stand_beside_those_of_blocks_and_layers() -> None:
    small = tv.load("en-de-small", device="cpu")
    pairs = sentences.in_the_box()[:3]
    heads = (("encoder", "self", 0, 0), ("encoder", "self", 1, 1))
    found = jobs.together(small, pairs, "zero", (("previous", heads),), lambda done, of: None)
    ranking = tv.rank(small, list(pairs), "zero")
    first = found.groups.iloc[0]
    assert (first["role"], first["heads"]) == ("previous", 2)
    alone = ranking.group(heads)
    for name in ("effect", "low", "high", "sum"):
        assert first[name] == pytest.approx(alone[name], abs=1e-6)
    rest = found.groups[found.groups["role"].isna()]
    assert len(rest) == len(ranking.groups) and found.card["sentences"] == 3
    named = removal._named(found.groups)
    assert first["role"] in set(named["role"]) and "all" in set(named["layer"])
