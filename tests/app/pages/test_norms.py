"""Norms in Streamlit's own test runner: every choice, and the table that one takes along."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.metrics.residual.norm_statistics import STATISTICS

from ...support.page_content import address, chart, charts, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=4.0),)).to_json()


def test_the_page_shows_map_stream_gains_and_who_stands_out(visit: Visit) -> None:
    app = visit("norms")
    assert not app.exception and not app.error and not app.warning
    assert list(charts(app)) == ["norm-map", "stream", "gains"]
    page = html(app)
    assert "What stands out?" in page and "Dimensions of the residual stream" in page
    assert "temperature or heads below" in told(app)  # how a change gets here


@pytest.mark.parametrize("statistic", [s.name for s in STATISTICS])
def test_each_number_can_be_chosen(visit: Visit, statistic: str) -> None:
    app = visit("norms")
    app.selectbox(key="statistic").set_value(statistic).run()
    assert not app.exception and not app.error
    assert next(s.question for s in STATISTICS if s.name == statistic) in html(app)


def test_choosing_sentence_norm_and_word(visit: Visit) -> None:
    app = visit("norms")
    encoder = app.selectbox(key="site").options
    app.button_group(key="stack").set_value("decoder")
    app.run()
    assert app.selectbox(key="site").options != encoder
    assert any("cross-attention" in name for name in app.selectbox(key="site").options)
    site = "decoder.layers.1.cross_norm"
    app.selectbox(key="site").set_value(site)
    app.selectbox(key="word").set_value(2)
    app.run()
    assert not app.exception and not app.error
    link = address(app)
    assert (link["stack"], link["site"], link["word"]) == ("decoder", site, "2")


def test_an_edit_of_explore_is_seen_before_after_and_as_difference(visit: Visit) -> None:
    app = visit("norms", edits=WARM)
    drawn = {}
    for word in ("now", "before", "difference"):
        app.button_group(key="compare").set_value(word)
        app.run()
        drawn[word] = heatmap(chart(app, "norm-map"))
    assert not app.exception and not app.error
    assert np.allclose(drawn["now"] - drawn["before"], drawn["difference"], atol=1e-5)
    assert np.abs(drawn["difference"]).max() > 0
    assert "→" in said(app, "norm") and "changed most" in said(app, "change")
    app.button(key="clean").click().run()
    assert "edits" not in address(app) and "→" not in said(app, "norm")


@pytest.mark.parametrize("edits", [Intervention().to_json(), WARM], ids=["clean", "warm"])
def test_the_csv_is_the_table(visit: Visit, edits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[bytes] = []
    monkeypatch.setattr(
        "streamlit.download_button", lambda *words, data, **more: handed.append(data)
    )
    app = visit("norms", edits=edits)
    table = app.dataframe[0].value
    read = pd.read_csv(io.BytesIO(handed[-1]), keep_default_na=False)
    assert list(read.columns) == list(table.columns) and len(read) == len(table)
    for name in [s.name for s in STATISTICS]:
        assert np.allclose(read[name], table[name], rtol=1e-12)
    assert ("mean_clean" in table) == (edits == WARM)


def test_a_norm_that_is_not_there_falls_back(visit: Visit) -> None:
    app = visit("norms", site="nowhere", statistic="input_norm")
    assert not app.exception and not app.error
    assert app.session_state["site"].startswith("encoder.")
