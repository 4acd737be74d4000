"""Corpus in Streamlit's own test runner: the numbers of the folder, and what cannot be opened."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import click, put, runs
from transformer_viz.app.corpus import making, opening
from transformer_viz.corpus.engines import run
from transformer_viz.corpus.folder import AtlasFolder, open_atlas
from transformer_viz.corpus.plan import make_plan, read_plan, settle_plan
from transformer_viz.corpus.worker import Scanner

from ...support.page_content import array, charts, html, said

pytestmark = [pytest.mark.app, pytest.mark.shipped]
Visit = Callable[..., AppTest]
PAIRS = [
    (f"The {one} sees the {other} in the garden.", f"Das ist {number} im Garten und im Haus.")
    for number, (one, other) in enumerate(
        (a, b) for a in ("cat", "dog", "bird") for b in ("man", "friend", "teacher")
    )
]
MODEL = "en-de-small"


def corpus(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    model = tv.load(MODEL, device="cpu")
    plan = make_plan(model, corpus(folder), size=4)
    settle_plan(plan, folder / "atlas")
    run(plan, corpus(folder), folder / "atlas", model)
    return folder / "atlas"


@pytest.fixture
def root(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below which paths may be opened, with a copy of the atlas."""
    shutil.copytree(whole, tmp_path / "atlas")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", MODEL)
    return tmp_path


def heatmap(app: AppTest) -> dict[str, Any]:
    traces = charts(app)["corpus-grid"]["data"]
    return next(trace for trace in traces if trace["type"] == "heatmap")


def opened(visit: Visit, **link: str) -> AppTest:
    return runs(visit("corpus", **({"corpus": "path:atlas", "model": MODEL} | link)))


def test_the_page_shows_the_numbers_of_the_folder(root: Path, visit: Visit) -> None:
    place = {"block": "cross", "layer": "1", "head": "2"}
    app = opened(visit, corpus_by="coverage", **place)
    atlas: AtlasFolder = open_atlas(root / "atlas")
    head = ("decoder", "cross", 1, 2)
    assert f"{MODEL} on 9 sentences of pairs.tsv" in said(app, "corpus")
    own = atlas.table[(atlas.table["block"] == "cross")]
    grid = heatmap(app)
    assert array(grid["z"]).reshape(-1) == pytest.approx(own["coverage"].to_numpy())
    counts, _ = atlas.histogram(head, "coverage")
    assert np.array_equal(array(charts(app)["corpus-counts"]["data"][0]["y"]), counts)
    assert counts.sum() == 9
    row = own[(own["layer"] == 1) & (own["head"] == 2)].iloc[0]
    assert f"<b>{row['coverage']:.2f}</b>" in html(app)
    assert "cross L1 H2" in said(app, "corpus-head")
    found = atlas.examples(head, "coverage")
    text = html(app)
    assert len(found) > 3 and all(one.text in text for one in found)
    links = [piece.split('"')[0] for piece in text.split('href="')[1:]]
    first = parse_qs(urlparse(links[-len(found)].replace("&amp;", "&")).query)
    assert first["text"] == [found[0].text] and first["target"] == [found[0].target]
    assert first["model"] == [MODEL] and first["block"] == ["cross"]
    assert (first["layer"], first["head"]) == (["1"], ["2"])
    assert first["corpus"] == ["path:atlas"]  # the way back finds it open


def test_a_head_another_measure_and_another_atlas_are_chosen(root: Path, visit: Visit) -> None:
    app = opened(visit, block="encoder")
    app.selectbox(key="corpus-head").select((2, 3)).run()
    assert "encoder L2 H3" in said(app, "corpus-head")
    app.selectbox(key="corpus_by").select("induction").run()
    assert not app.exception and app.query_params["corpus_by"] in ("induction", ["induction"])
    assert "what followed" in html(app) and "is not among those here" not in html(app)
    runs(click(app, "atlas-other"))
    label = app.button(key="atlas-make").label.replace("\\", "")
    assert label == f"Measure the 500 sentences in the box on {MODEL}"
    assert app.code[0].value == opening.COMMAND
    put(app, {"atlas-path": "atlas"})
    assert f"{MODEL} on 9 sentences" in said(app, "corpus")
    app = opened(visit, corpus="")
    assert app.button(key="atlas-make").label.replace("\\", "") == label
    assert app.code[0].value == opening.COMMAND


def test_sentences_in_the_box_are_measured_on_the_page(
    root: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(root)
    monkeypatch.setattr(making, "PRETRAINED", root)
    monkeypatch.setattr(making, "SENTENCES", "pairs.tsv")
    monkeypatch.setattr(making, "SHARD", 4)  # as the fixture's
    app = opened(visit, corpus="")
    app.button(key="atlas-make").click().run()
    assert f"{MODEL} on 9 sentences of sentences.tsv" in said(app, "corpus")
    grid = heatmap(app)
    own = open_atlas(root / "atlas").table
    by = app.selectbox(key="corpus_by").value
    values = own[own["block"] == "cross"][by].to_numpy()
    assert by != "previous" and np.isfinite(values).all()  # it has no token before
    assert array(grid["z"]).reshape(-1) == pytest.approx(values)


def halve(atlas: Path) -> str:
    path = atlas / "atlas.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    return "atlas/atlas.parquet is half-written"


def strange(atlas: Path) -> str:
    plan = read_plan(atlas)
    (atlas / "plan.json").write_text(replace(plan, seed=9).to_json(), encoding="utf-8")
    return "atlas/atlas.parquet is a part of another atlas"


def unfinished(atlas: Path) -> str:
    for path in (atlas / "atlas.parquet", atlas / "parts" / "part-00001.parquet"):
        path.unlink()
    return "This atlas lacks atlas.parquet: 5 of 9 sentences are in finished parts."


def foreign(atlas: Path) -> str:
    (atlas / "examples.parquet").unlink()
    (atlas / "parts" / "notes.txt").write_text("mine")
    return "notes.txt is half-written or no part"


def none(atlas: Path) -> str:
    (atlas / "plan.json").unlink()
    return "holds no atlas of a corpus: it has no plan.json"


def young(atlas: Path) -> str:
    """Leave a plan and one part: a worker may still be making the rest."""
    shutil.rmtree(atlas)
    model = tv.load(MODEL, device="cpu")
    plan = make_plan(model, corpus(atlas.parent), size=4)
    settle_plan(plan, atlas)
    Scanner(plan, str(corpus(atlas.parent)), str(atlas), model)(2)
    return "lacks atlas.parquet, examples.parquet: 1 of 9 sentences"


def test_what_cannot_be_opened_is_said_by_name(root: Path, whole: Path, visit: Visit) -> None:
    for harm in (halve, strange, unfinished, foreign, none, young):
        shutil.rmtree(root / "atlas")
        shutil.copytree(whole, root / "atlas")
        expected = harm(root / "atlas")
        app = opened(visit)
        (error,) = app.error
        assert expected in error.value.replace("\\", ""), (harm, error.value)
        assert str(root) not in error.value, harm
        assert app.button(key="atlas-make") is not None, harm  # another one may be chosen
    for place, words in (
        ("path:/etc", "outside of what may be opened here"),
        ("upload:atlas", "uploaded in another visit"),
        ("upload:../../etc", "uploaded in another visit"),
    ):
        assert words in opened(visit, corpus=place).error[0].value, place


def test_a_zip_of_three_files_suffices(root: Path, visit: Visit) -> None:
    def uploaded(names: tuple[str, ...]) -> AppTest:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as file:
            for name in names:
                file.write(root / "atlas" / name, f"atlas/{name}")
        app = opened(visit, corpus="")
        return app.file_uploader(key="atlas-zip").upload("mine.zip", content.getvalue()).run()

    app = runs(uploaded(opening.FILES))
    assert not app.error and f"{MODEL} on 9 sentences" in said(app, "corpus")
    app = uploaded(opening.FILES[1:])
    assert "mine.zip is no atlas of a corpus" in app.error[0].value.replace("\\", "")
