"""Tables as HTML: heads with rows, chance and interval; values of words; parts of a logit."""

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
    measure_rows,
    written,
)
from transformer_viz.views.html.small_map import CELL, MOST, small_map
from transformer_viz.views.html.word_answers import (
    WordValues,
    direct_table,
    lens_table,
    word_answers,
)

PLACE = {"stack": ["encoder"] * 2, "block": ["self"] * 2}
TABLE = pd.DataFrame(
    {
        **PLACE,
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
        **PLACE,
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
SITE = Site("encoder", "self", 1, 0)


def rows_of(html: str) -> list[str]:
    return re.findall(r"<tr data-head.*?</tr>", html)


def test_a_number_stands_with_rows_chance_and_interval() -> None:
    assert set(ROLE_TEXTS) == set(ROLES)
    first, second = rows_of(head_table(TABLE, ["previous"]))
    assert "0.75" in first and "1,234 rows · chance 0.10 · 95 %: 0.70 to 0.80" in first
    lefts = dict(re.findall(r'class="(tv-\w+)" style="left:([\d.]+)px', first))
    assert float(lefts["tv-chance"]) == round(0.1 * BAR, 1)
    assert float(lefts["tv-interval"]) == round(0.7 * BAR, 1)
    assert "looks at the word before" in first
    assert DASH in second and "no row could be asked" in second and "0.00" not in second
    assert "no role found" in second and "parks" in second
    row = re.findall(r"<tr data-measure.*?</tr>", measure_rows(TABLE.iloc[0], ["previous"]))[0]
    numbers = [cell for cell in re.findall(r"<td>(.*?)</td>", row) if "tv-track" not in cell]
    assert numbers == ["0.75", "0.10", "0.70 to 0.80", "1,234"]
    asked = re.findall(r"<td>(.*?)</td>", measure_rows(TABLE.iloc[1], ["previous"]))
    assert asked == [DASH, "", DASH, DASH, DASH]
    assert (written(-0.001), written(-0.01)) == ("0.00", "-0.01")


def test_costs_are_joined_by_head_and_unfold_without_a_pointer() -> None:
    costs = costs_of(RANKING)
    assert costs[SITE] == Cost(0.4, 0.3, 0.5, 1, 1, 1, False)
    first, second = rows_of(head_table(TABLE, [], costs))
    assert "+0.001" in first and "tv-dull" in first and "not told from no effect" in first
    assert "+0.400" in second and "tv-dull" not in second and "1 (1–1)" in second
    first = rows_of(head_table(TABLE, ["previous"], costs))[0]
    details = re.findall(r"<details.*?</details>", first)
    assert len(details) == 2 and all("<summary><b>" in one for one in details)
    assert '<span class="tv-told">1,234 rows · chance 0.10 · 95 %: 0.70 to 0.80</span>' in first
    assert '<span class="tv-told">95 %: −0.010 to +0.020 · not told from no effect' in first


def test_heads_are_marked_linked_and_sectioned() -> None:
    html = head_table(TABLE, [], opened=SITE, addresses={SITE: './?a=1&b="<x>'})
    assert 'data-head="encoder L1 H0" class="tv-opened"' in html
    assert "&amp;b=&quot;&lt;x&gt;" in html
    sections = [Section("copies", (1, 0)), Section("no role found", (1,))]  # a head stands twice
    html = head_table(TABLE, ["previous"], sections=sections)
    found = re.findall(r'data-head="(.*?)"|colspan="3">(.*?)<', html)
    assert [one or other for one, other in found] == [
        *("copies: 2 heads", "encoder L1 H0", "encoder L0 H2"),
        *("no role found: 1 head", "encoder L1 H0"),
    ]
    html = removal_table(RANKING, Site("encoder", "self", 0, 2))
    assert re.findall(r'data-head="(.*?)"', html) == ["encoder L1 H0", "encoder L0 H2"]
    assert "12.5%" in html and html.count("tv-opened") == 1
    html = removal_table(RANKING, addresses={SITE: "./?layer=1&head=0"})
    assert '<a href="./?layer=1&amp;head=0" target="_self">encoder L1 H0</a>' in html


def test_a_small_map_has_the_colours_of_its_weights() -> None:
    weights = np.array([[0.0, 0.5, 0.25], [0.5, 0.0, 0.5]])
    for dark in (False, True):
        html = small_map(weights, ["a", "<b>"], ["x", "y", "z" * 40], dark=dark)
        assert "“a” looks most at “y”: 0.50" in html and "&lt;b&gt;" in html
        assert f"width:{3 * CELL}px;height:{2 * CELL}px" in html and "z" * 11 + "…" in html
        code = re.search(r"base64,([^\"]+)", html).group(1)
        drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(code))))
        stops = palette(dark).amounts
        ends = [tuple(int(c[n : n + 2], 16) for n in (1, 3, 5)) for c in (stops[0], stops[-1])]
        assert drawn.shape == (2, 3, 3)
        assert tuple(drawn[0, 0]) == tuple(drawn[1, 1]) == ends[0], dark
        assert tuple(drawn[0, 1]) == tuple(drawn[1, 0]) == ends[1], dark
        assert tuple(drawn[0, 2]) not in ends, dark
    names = [f"w{n}" for n in range(MOST + 5)]
    html = small_map(np.eye(MOST + 5), names, names)
    assert f"the first {MOST} words" in html and f">w{MOST - 1}<" in html
    assert f">w{MOST}<" not in html
    with pytest.raises(ValueError, match="has other names"):
        small_map(np.eye(3), names, names)


# ---- Why this word: bars to one scale a method, signs, dashes, sums ------------------------------

VALUES = pd.DataFrame(
    {
        "sentence": ["source", "source", "target", "target"],
        "token": [0, 1, 0, 1],
        "label": ["<b>", "dog", "<s>", "Der"],
        "special": [False, False, True, False],
        "value": [0.5, -0.25, np.nan, -0.001],
    }
)


def test_bars_of_source_and_target_share_the_scale_of_their_method() -> None:
    html = word_answers([WordValues("removal", "Removal", "says", VALUES, "{:.2f}", "nats")])
    assert re.findall(r"width:([\d.]+)%", html) == ["100.0", "50.0", "0.2"]
    assert re.findall(r'class="tv-(more|less)"', html) == ["more", "less", "less"]
    assert re.findall(r"</i></td><td>([^<]+)</td>", html) == ["0.50", "-0.25", "0.00"]
    assert "longest bar: 0.50 nats" in html and "&lt;b&gt;" in html and "<b>" not in html
    assert "<td>–</td>" in html  # no value is a dash
    assert html.index("says") > html.index("Der")
    html = word_answers([WordValues("gradient", "Gradient", "", missing="No <output> layer.")])
    assert "No &lt;output&gt; layer." in html and "<table>" not in html
    nothing = VALUES.assign(value=0.0)
    assert "width:0.0%" in word_answers([WordValues("weights", "W", "", nothing)])


def test_the_parts_of_a_logit_and_the_lens() -> None:
    rows = [
        ("embedding", -1, -1, 0.25),
        ("self", 0, 0, 1.0),
        ("self", 0, 1, -0.5),
        ("bias", 0, -1, 0.125),
        ("bias", 0, -1, 0.125),
        ("feed_forward", 0, -1, 2.0),
        ("bias", -1, -1, -1.0),
    ]
    html = direct_table(pd.DataFrame(rows, columns=["part", "layer", "head", "value"]))
    assert re.findall(r"<td><b>([^<]+)</b></td>", html) == ["+0.25", "+2.75", "−1.00", "+2.00"]
    parts = re.findall(r"%, transparent\)\">([^<]+)</td>", html)
    assert parts == ["+2.00", "+0.25", "+1.00", "−0.50"]
    columns = ["layer", "logit", "probability", "rank", "best"]
    table = pd.DataFrame([(0, 1.0, 0.0, 1234, "x"), (1, 2.0, 0.5, 1, "y")], columns=columns)
    html = lens_table(table, "y")
    assert re.findall(r"<b>([^<]+)</b>", html) == ["0.0%", "50.0%"]
    assert "1,234" in html and "width:32.0px" in html
