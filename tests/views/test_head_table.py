"""The table of heads as HTML: each number with its rows, its chance and its interval."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from transformer_viz.core.palette import palette
from transformer_viz.core.sites import Site
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_rules import ROLES
from transformer_viz.views.html.head_table import (
    ROLE_TEXTS,
    Cost,
    Section,
    costs_of,
    head_table,
    removal_table,
)
from transformer_viz.views.html.measure_cells import (
    BAR,
    DASH,
    MEASURE_TEXTS,
    measure_rows,
    written,
)
from transformer_viz.views.html.small_map import CELL, MOST, small_map

TABLE = pd.DataFrame(
    {
        "stack": ["encoder"] * 2,
        "block": ["self"] * 2,
        "layer": [0, 1],
        "head": [2, 0],
        "previous": [0.75, np.nan],
        "previous_rows": [1234, 0],
        "previous_chance": [0.1, np.nan],
        "previous_low": [0.7, np.nan],
        "previous_high": [0.8, np.nan],
        "roles": [("previous",), ()],
        "states": [(), ("sink",)],
    }
)
RANKING = pd.DataFrame(
    {
        "stack": ["encoder"] * 2,
        "block": ["self"] * 2,
        "layer": [1, 0],
        "head": [0, 2],
        "effect": [0.4, 0.001],
        "low": [0.3, -0.01],
        "high": [0.5, 0.02],
        "rank": [1, 2],
        "rank_low": [1, 2],
        "rank_high": [1, 2],
        "kl": [0.2, 0.0],
        "changed": [0.125, 0.0],
        "significant": [True, False],
    }
)


def test_every_measure_and_role_has_its_words() -> None:
    assert set(MEASURE_TEXTS) == {measure.name for measure in MEASURES}
    assert set(ROLE_TEXTS) == set(ROLES)


def test_a_number_stands_with_rows_chance_and_interval() -> None:
    html = head_table(TABLE, ["previous"])
    first, second = re.findall(r"<tr data-head.*?</tr>", html)
    assert "0.75" in first and "1,234 rows · chance 0.10 · 95 %: 0.70 to 0.80" in first
    lefts = dict(re.findall(r'class="(tv-\w+)" style="left:([\d.]+)px', first))
    assert float(lefts["tv-chance"]) == round(0.1 * BAR, 1)
    assert float(lefts["tv-interval"]) == round(0.7 * BAR, 1)
    assert "looks at the word before" in first
    assert DASH in second and "no row could be asked" in second and "0.00" not in second
    assert "no role found" in second and "parks" in second


def test_costs_are_joined_by_head_and_greyed_where_nothing_is_told() -> None:
    costs = costs_of(RANKING)
    assert costs[Site("encoder", "self", 1, 0)] == Cost(0.4, 0.3, 0.5, 1, 1, 1, False)
    first, second = re.findall(r"<tr data-head.*?</tr>", head_table(TABLE, [], costs))
    assert "+0.001" in first and "tv-dull" in first and "not told from no effect" in first
    assert "+0.400" in second and "tv-dull" not in second and "1 (1–1)" in second


def test_the_opened_head_is_marked_and_words_are_escaped() -> None:
    site = Site("encoder", "self", 1, 0)
    html = head_table(TABLE, [], opened=site, addresses={site: './?a=1&b="<x>'})
    assert 'data-head="encoder L1 H0" class="tv-opened"' in html
    assert "&amp;b=&quot;&lt;x&gt;" in html


def test_the_ranking_stands_in_its_order() -> None:
    html = removal_table(RANKING, Site("encoder", "self", 0, 2))
    assert re.findall(r'data-head="(.*?)"', html) == ["encoder L1 H0", "encoder L0 H2"]
    assert "12.5%" in html and html.count("tv-opened") == 1


def test_what_a_bar_means_unfolds_without_a_pointer() -> None:
    """A press on the number shows rows, chance and interval as text of their own."""
    html = head_table(TABLE, ["previous"], costs_of(RANKING))
    first = re.findall(r"<tr data-head.*?</tr>", html)[0]
    details = re.findall(r"<details.*?</details>", first)
    assert len(details) == 2 and all("<summary><b>" in one for one in details)
    assert '<span class="tv-told">1,234 rows · chance 0.10 · 95 %: 0.70 to 0.80</span>' in first
    assert '<span class="tv-told">95 %: −0.010 to +0.020 · not told from no effect' in first


def test_heads_stand_in_sections_and_may_stand_twice() -> None:
    sections = [Section("copies", (1, 0)), Section("no role found", (1,))]
    html = head_table(TABLE, ["previous"], sections=sections)
    found = re.findall(r'data-head="(.*?)"|colspan="3">(.*?)<', html)
    assert [one or other for one, other in found] == [
        "copies: 2 heads",
        "encoder L1 H0",
        "encoder L0 H2",
        "no role found: 1 head",
        "encoder L1 H0",
    ]


def test_all_measures_of_a_head_are_written_out() -> None:
    html = measure_rows(TABLE.iloc[0], ["previous"])
    row = re.findall(r"<tr data-measure.*?</tr>", html)[0]
    cells = re.findall(r"<td>(.*?)</td>", row)
    assert [cell for cell in cells if "tv-track" not in cell] == [
        "0.75",
        "0.10",
        "0.70 to 0.80",
        "1,234",
    ]
    asked = re.findall(r"<td>(.*?)</td>", measure_rows(TABLE.iloc[1], ["previous"]))
    assert asked == [DASH, "", DASH, DASH, DASH]
    assert (written(-0.001), written(-0.01)) == ("0.00", "-0.01")


def test_names_of_the_ranking_lead_to_the_head() -> None:
    site = Site("encoder", "self", 1, 0)
    html = removal_table(RANKING, addresses={site: "./?layer=1&head=0"})
    assert '<a href="./?layer=1&amp;head=0" target="_self">encoder L1 H0</a>' in html


@pytest.mark.parametrize("dark", [False, True])
def test_a_small_map_has_the_colours_of_its_weights(dark: bool) -> None:
    weights = np.array([[0.0, 0.5, 0.25], [0.5, 0.0, 0.5]])
    html = small_map(weights, ["a", "<b>"], ["x", "y", "z" * 40], dark=dark)
    assert "“a” looks most at “y”: 0.50" in html and "&lt;b&gt;" in html
    assert f"width:{3 * CELL}px;height:{2 * CELL}px" in html and "z" * 11 + "…" in html
    code = re.search(r"base64,([^\"]+)", html).group(1)
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(code))))
    stops = palette(dark).amounts
    ends = [tuple(int(c[n : n + 2], 16) for n in (1, 3, 5)) for c in (stops[0], stops[-1])]
    assert drawn.shape == (2, 3, 3)
    assert tuple(drawn[0, 0]) == tuple(drawn[1, 1]) == ends[0]
    assert tuple(drawn[0, 1]) == tuple(drawn[1, 0]) == ends[1]
    assert tuple(drawn[0, 2]) not in ends


def test_a_small_map_of_a_long_sentence_says_what_it_shows() -> None:
    names = [f"w{n}" for n in range(MOST + 5)]
    html = small_map(np.eye(MOST + 5), names, names)
    assert f"the first {MOST} words" in html and f">w{MOST - 1}<" in html
    assert f">w{MOST}<" not in html
    with pytest.raises(ValueError, match="has other names"):
        small_map(np.eye(3), names, names)
