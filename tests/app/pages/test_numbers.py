"""Explore, Norms and Positions: every number equals that of a trace; every choice and switch."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import click, edits, fine, keys, ok, put
from transformer_viz.core.interventions import (
    BlockKeys,
    Intervention,
    Pad,
    ScalePositions,
    Temperature,
)
from transformer_viz.core.sites import MAPS
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import STATISTICS, norm_statistic

from ...support.map_pages import MAP_PAGES
from ...support.page_content import (
    address,
    chart,
    charts,
    heatmap,
    html,
    part,
    said,
    tiles,
    told,
    weights,
)

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=4.0),)).to_json()
GONE = ScalePositions(value=0.0)
TEXT = "The cat sat."
EDITS = {
    "clean": Intervention(),
    "warm": Intervention((Temperature(value=4.0, stack="decoder", block="cross", layer=1),)),
    "dropped": Intervention((ScalePositions(value=0.0, stack="encoder"),)),
    "padded": Intervention((Pad(count=2, masked=False),)),
}


class Runs(NamedTuple):
    """The clean run and the changed one over the same words, made without the app."""

    before: Trace
    now: Trace


@pytest.fixture(scope="session")
def runs(shelf: Path) -> dict[str, Runs]:
    model = tv.load(str(shelf / "tiny"))
    best = tv.translate(model, TEXT, beam=4)[0]
    ids = best.ids[:-1] if best.finished else best.ids
    words: dict[str, Any] = {
        "target": [*model.tokenizer.target_ids(""), *ids],
        "keep": ("weights", "scores", "hidden"),
        "check": False,
    }
    before = tv.trace(model, TEXT, **words)
    held = words | {"produced": before.produced.ids}
    return {
        name: Runs(before, tv.trace(model, TEXT, intervention=change, **held))
        for name, change in EDITS.items()
    }


def test_explore_shows_the_maps_the_numbers_and_the_candidates(
    visit: Visit, runs: dict[str, Runs]
) -> None:
    for case in [(name, block) for name in EDITS for block in MAPS]:
        name, block = case
        link = {"block": block, "layer": "1", "head": "1", "token": "2", "answer": "1"}
        app = ok(visit(edits=EDITS[name].to_json(), **link), case)
        before, now = runs[name]
        each = (before,) if name == "clean" else (before, now)
        assert np.array_equal(weights(app), now.attention(block, layer=1)[1]), case
        assert np.array_equal(tiles(app), now.thumbnail(block)), case
        stack, kind = MAPS[block]
        place = f"stack == '{stack}' and block == '{kind}' and layer == 1 and head == 1"
        text = part(app, "head")[0]["numbers"]
        for column in ("entropy", "distance"):
            pairs = re.findall(rf"{column} ([\d.]+)(?: → ([\d.]+))?", text)
            shown = [float(number) for number in pairs[0] if number]
            wanted = [round(run.heads.query(place)[column].item(), 2) for run in each]
            assert shown == wanted, (case, column)
        page = html(app)
        for token, label in enumerate(before.produced.labels):
            shown = " → ".join(f"{run.produced.probability[token]:.2f}" for run in each)
            assert shown in page, (case, label)
        for run in each:
            logits = run.logits[1].astype(np.float64)
            chances = np.exp(logits) / np.exp(logits).sum()
            for probability in np.sort(chances)[::-1][:5]:
                assert f"{probability:.3f}" in page, case


def test_the_table_of_positions(visit: Visit, runs: dict[str, Runs]) -> None:
    cases = [(n, s) for n in ("clean", "dropped", "padded") for s in ("encoder", "decoder")]
    for case in cases:
        name, stack = case
        app = ok(visit("positions", edits=EDITS[name].to_json(), stack=stack), case)
        table = runs[name].now.positions[f"table.{stack}"]
        assert np.array_equal(heatmap(chart(app, "position-table")), table), case
        if case == ("dropped", "encoder"):
            assert (table == 0).all()
            continue
        rows = table.astype(np.float64)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        drawn = heatmap(chart(app, "position-similarity"))
        assert np.abs(drawn - unit @ unit.T).max() <= 1e-6, case


def test_the_norms_in_map_sentence_and_table(visit: Visit, runs: dict[str, Runs]) -> None:
    for turn, name in enumerate(EDITS):
        before, now = runs[name]
        for stack in ("encoder", "decoder"):
            number = (turn + (stack == "decoder")) % len(STATISTICS)  # each another statistic
            statistic, case = STATISTICS[number].name, (name, stack)
            sites, values = norm_statistic(now, statistic, stack)
            link = {"edits": EDITS[name].to_json(), "stack": stack, "statistic": statistic}
            app = ok(visit("norms", **link, site=sites[1], word="2"), case)
            assert np.allclose(heatmap(chart(app, "norm-map")), values, rtol=1e-6, atol=0), case
            table = app.dataframe[0].value
            assert np.allclose(table[statistic], values.ravel(), rtol=1e-12), case
            was = norm_statistic(before, statistic, stack)[1][1, 2]
            shown = f"{was:.4f}" + ("" if name == "clean" else f" → {values[1, 2]:.4f}")
            assert shown in said(app, "norm"), case


# ---- Norms


def test_norms_shows_its_charts_and_each_choice(visit: Visit) -> None:
    app = fine(visit("norms"))
    assert list(charts(app)) == ["norm-map", "stream", "gains"]
    page = html(app)
    assert "What stands out?" in page and "Dimensions of the residual stream" in page
    assert "temperature or heads below" in told(app)  # how a change gets here
    for statistic in STATISTICS:
        fine(put(app, {"statistic": statistic.name}), statistic.name)
        assert statistic.question in html(app), statistic.name
    encoder = app.selectbox(key="site").options
    put(app, {"stack": "decoder"})
    assert app.selectbox(key="site").options != encoder
    assert any("cross-attention" in name for name in app.selectbox(key="site").options)
    site = "decoder.layers.1.cross_norm"
    fine(put(app, {"site": site, "word": 2}))
    link = address(app)
    assert (link["stack"], link["site"], link["word"]) == ("decoder", site, "2")
    app = ok(visit("norms", site="nowhere", statistic="input_norm"))
    assert app.session_state["site"].startswith("encoder.")


def test_an_edit_is_seen_before_after_and_as_difference(visit: Visit) -> None:
    app = visit("norms", edits=WARM)
    drawn = {}
    for word in ("now", "before", "difference"):
        put(app, {"compare": word})
        drawn[word] = heatmap(chart(app, "norm-map"))
    assert not app.exception and not app.error
    assert np.allclose(drawn["now"] - drawn["before"], drawn["difference"], atol=1e-5)
    assert np.abs(drawn["difference"]).max() > 0
    assert "→" in said(app, "norm") and "changed most" in said(app, "change")
    click(app, "clean")
    assert "edits" not in address(app) and "→" not in said(app, "norm")


def test_the_csv_of_norms_is_the_table(visit: Visit, downloads: dict[str, bytes]) -> None:
    for edited in (Intervention().to_json(), WARM):
        downloads.clear()
        table = visit("norms", edits=edited).dataframe[0].value
        (content,) = [data for name, data in downloads.items() if name.endswith(".csv")]
        read = pd.read_csv(io.BytesIO(content), keep_default_na=False)
        assert list(read.columns) == list(table.columns) and len(read) == len(table), edited
        for one in STATISTICS:
            assert np.allclose(read[one.name], table[one.name], rtol=1e-12), (edited, one.name)
        assert ("mean_clean" in table) == (edited == WARM)


def test_each_chart_can_be_read_as_a_table(visit: Visit) -> None:
    for page in filter(None, MAP_PAGES):  # Explore has no chart
        app = visit(page)
        names, before = list(charts(app)), len(app.dataframe)
        for name in names:
            app.session_state[f"{name}-table"] = True
        app.run()
        assert not app.exception and not app.error, page
        assert len(app.dataframe) == before + len(names), page
        if page == "norms":
            cells = heatmap(charts(app)["norm-map"])
            tables = [table.value for table in app.dataframe if table.value.shape == cells.shape]
            assert sum(np.allclose(table.to_numpy(), cells) for table in tables) == 1


# ---- Positions


def test_positions_shows_its_charts_and_each_choice(visit: Visit) -> None:
    app = fine(visit("positions"))
    assert list(charts(app)) == [
        "position-table", "wavelengths", "position-similarity", "position-waves",
        "position-shift",
    ]  # fmt: skip
    for question in ("How does the model know", "How long is the wave", "Which places look alike"):
        assert question in html(app)
    assert "6.28" in html(app)  # the shortest wave: 2 pi positions
    ok(put(app, {"stack": "decoder", "place": 2, "pair": 4, "shift": 2}))
    link = address(app)
    assert [link[key] for key in ("stack", "place", "pair", "shift")] == ["decoder", "2", "4", "2"]
    assert "pair 4" in html(app)
    app = ok(visit("positions", text="Go.", place="90", shift="90", pair="999"))
    assert app.session_state["place"] < 10 and app.session_state["pair"] < 12


def test_each_switch_writes_its_edit_and_shows_it(visit: Visit) -> None:
    def shuffled(seed: int) -> list[dict[str, object]]:
        return [{"kind": "shuffle_positions", "seed": seed}]

    app = put(visit("positions"), {"position_scale": 0.5})
    assert edits(app) == [{"kind": "scale_positions", "value": 0.5}]
    put(app, {"position_drop": True})
    assert edits(app) == [{"kind": "scale_positions", "value": 0.0}]
    assert app.select_slider(key="position_scale").value == 0
    assert edits(put(app, {"position_drop": False})) == []
    put(app, {"position_shuffle": True})
    assert edits(app) == shuffled(0) and "shuffles the places" in told(app)
    assert edits(click(app, "reshuffle")) == shuffled(1)
    assert not app.exception and not app.error
    assert edits(click(app, "undo")) == shuffled(0)
    assert edits(click(app, "redo")) == shuffled(1)
    assert edits(click(app, "clean")) == [] and not app.toggle(key="position_shuffle").value
    assert edits(click(app, "undo")) == shuffled(1)
    assert edits(click(app, "edit-0")) == []  # its chip


def test_positions_of_one_sentence_alone(visit: Visit) -> None:
    for reach, other in (("encoder", "decoder"), ("decoder", "encoder")):
        app = visit("positions", reach=reach, stack=reach)
        clean = heatmap(chart(app, "position-table"))
        put(app, {"position_drop": True})
        assert edits(app) == [{"kind": "scale_positions", "value": 0.0, "stack": reach}]
        assert not heatmap(chart(app, "position-table")).any() and clean.any(), reach
        put(app, {"stack": other})
        assert heatmap(chart(app, "position-table")).any(), reach
    one = Intervention((ScalePositions(value=0.0, stack="decoder"),)).to_json()
    app = visit("positions", edits=one)
    assert "changed differently" in told(app)
    put(app, {"reach": "decoder"})
    assert "changed differently" not in told(app) and app.toggle(key="position_drop").value


def test_dropped_positions_make_a_bag_of_words(visit: Visit) -> None:
    app = visit("positions")
    assert "order-words" in html(app) and "bag of words" not in said(app, "verdict")
    put(app, {"position_drop": True})
    assert "bag of words" in said(app, "verdict")
    first = said(app, "order-words")
    click(app, "reorder")
    assert said(app, "order-words") != first and "bag of words" in said(app, "verdict")
    assert address(app)["order"] == "1"
    app = ok(visit("positions", edits=Intervention((GONE,)).to_json()))
    assert "wavelengths" not in charts(app) and told(app)  # no waves without a table
    hide = BlockKeys(keys=(1,), stack="encoder", block="self")  # an edit that goes by number
    app = visit("positions", edits=Intervention((GONE, hide)).to_json())
    assert "another word" in said(app, "verdict") and "bag of words" not in said(app, "verdict")
    assert "no other order" in said(visit("positions", text="the"), "verdict")


def test_edits_of_explore_come_along(visit: Visit) -> None:
    app = visit("positions", edits=WARM)
    assert keys(app, "edit-") == ["edit-0"] and app.button(key="edit-0").label
    assert not np.allclose(weights(app), weights(visit("positions")))
