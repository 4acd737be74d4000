"""The table of heads as HTML: each number with its rows, its chance and its interval."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from transformer_viz.core.sites import Site
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_rules import ROLES
from transformer_viz.views.html.head_table import (
    BAR,
    DASH,
    MEASURE_TEXTS,
    ROLE_TEXTS,
    Cost,
    costs_of,
    head_table,
    removal_table,
)

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
        "contains_zero": [False, True],
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
