"""What stands on the screen equals what a trace of the same question says, number by number."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Pad, ScalePositions, Temperature
from transformer_viz.core.sites import MAPS
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import STATISTICS, norm_statistic

from ...support.page_content import chart, heatmap, html, part, said, tiles, weights

pytestmark = pytest.mark.app

Visit = Callable[..., AppTest]
TEXT = "The cat sat."
EDITS = {
    "clean": Intervention(),
    "warm": Intervention((Temperature(value=4.0, stack="decoder", block="cross", layer=1),)),
    "dropped": Intervention((ScalePositions(value=0.0, stack="encoder"),)),
    "padded": Intervention((Pad(count=2, masked=False),)),
}


@dataclass(frozen=True)
class Runs:
    """The clean run and the changed one over the same words, made without the app."""

    before: Trace
    now: Trace


@pytest.fixture(scope="session")
def runs(shelf: Path) -> Callable[[str], Runs]:
    model = tv.load(str(shelf / "tiny"))
    best = tv.translate(model, TEXT, beam=4)[0]
    ids = best.ids[:-1] if best.finished else best.ids
    target = [*model.tokenizer.target_ids(""), *ids]
    keep = ("weights", "scores", "hidden")
    before = tv.trace(model, TEXT, target=target, keep=keep)
    assert before.produced is not None
    held: Any = {"target": target, "produced": before.produced.ids, "keep": keep}
    return lambda name: Runs(before, tv.trace(model, TEXT, intervention=EDITS[name], **held))


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("block", MAPS)
def test_the_map_the_tiles_and_the_numbers_of_a_head(
    visit: Visit, runs: Callable[[str], Runs], name: str, block: str
) -> None:
    app = visit(edits=EDITS[name].to_json(), block=block, layer="1", head="1", token="2")
    assert not app.exception and not app.error
    now, before = runs(name).now, runs(name).before
    assert np.array_equal(weights(app), now.attention(block, layer=1)[1])
    assert np.array_equal(tiles(app), now.thumbnail(block))

    stack, kind = MAPS[block]
    place = f"stack == '{stack}' and block == '{kind}' and layer == 1 and head == 1"
    text = part(app, "head")[0]["numbers"]
    for column in ("entropy", "distance"):
        told = [float(n) for n in re.findall(rf"{column} ([\d.]+)(?: → ([\d.]+))?", text)[0] if n]
        wanted = [run.heads.query(place)[column].item() for run in (before, now)]
        assert told == [round(n, 2) for n in (wanted if name != "clean" else wanted[:1])]


@pytest.mark.parametrize("name", EDITS)
def test_probabilities_and_candidates(visit: Visit, runs: Callable[[str], Runs], name: str) -> None:
    app = visit(edits=EDITS[name].to_json(), answer="1")
    now, before = runs(name).now, runs(name).before
    page = html(app)
    for token, label in enumerate(before.produced.labels):
        was, is_now = before.produced.probability[token], now.produced.probability[token]
        shown = f"{was:.2f}" + ("" if name == "clean" else f" → {is_now:.2f}")
        assert shown in page, label
    for run in (before, now) if name != "clean" else (before,):
        logits = run.logits[1].astype(np.float64)
        chances = np.exp(logits) / np.exp(logits).sum()
        for probability in np.sort(chances)[::-1][:5]:
            assert f"{probability:.3f}" in page


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("name", ["clean", "dropped", "padded"])
def test_the_table_of_positions(
    visit: Visit, runs: Callable[[str], Runs], name: str, stack: str
) -> None:
    app = visit("positions", edits=EDITS[name].to_json(), stack=stack)
    assert not app.exception and not app.error
    table = runs(name).now.positions[f"table.{stack}"]
    assert np.array_equal(heatmap(chart(app, "position-table")), table)
    if name == "dropped" and stack == "encoder":
        assert (table == 0).all()
        return
    rows = table.astype(np.float64)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    drawn = heatmap(chart(app, "position-similarity"))
    assert np.abs(drawn - unit @ unit.T).max() <= 1e-6


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("name", EDITS)
def test_the_norms_in_map_sentence_and_table(
    visit: Visit, runs: Callable[[str], Runs], name: str, stack: str
) -> None:
    now, before = runs(name).now, runs(name).before
    turn = list(EDITS).index(name) + (stack == "decoder")  # each pair another statistic
    statistic = STATISTICS[turn % len(STATISTICS)]
    sites, values = norm_statistic(now, statistic.name, stack)
    link = {"edits": EDITS[name].to_json(), "stack": stack, "statistic": statistic.name}
    app = visit("norms", **link, site=sites[1], word="2")
    assert not app.exception and not app.error
    assert np.allclose(heatmap(chart(app, "norm-map")), values, rtol=1e-6, atol=0)
    table = app.dataframe[0].value
    assert np.allclose(table[statistic.name], values.ravel(), rtol=1e-12)
    was = norm_statistic(before, statistic.name, stack)[1][1, 2]
    shown = f"{was:.4f}" + ("" if name == "clean" else f" → {values[1, 2]:.4f}")
    assert shown in said(app, "norm")
