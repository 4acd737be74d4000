"""The columns of Why this word as HTML: bars to one scale a method, signs, dashes, sums."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from transformer_viz.views.html.word_answers import (
    WordValues,
    direct_table,
    lens_table,
    word_answers,
)

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


def test_a_method_that_the_model_lacks_says_why() -> None:
    html = word_answers([WordValues("gradient", "Gradient", "", missing="No <output> layer.")])
    assert "No &lt;output&gt; layer." in html and "<table>" not in html
    nothing = VALUES.assign(value=0.0)
    assert "width:0.0%" in word_answers([WordValues("weights", "W", "", nothing)])


def test_the_parts_of_a_logit_stand_with_their_sums() -> None:
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
    assert re.findall(r"%, transparent\)\">([^<]+)</td>", html) == [
        *("+2.00", "+0.25", "+1.00", "−0.50")
    ]


def test_the_lens_has_a_line_a_layer() -> None:
    table = pd.DataFrame(
        {
            "layer": [0, 1],
            "logit": [1.0, 2.0],
            "probability": [0.0, 0.5],
            "rank": [1234, 1],
            "best": ["x", "y"],
        }
    )
    html = lens_table(table, "y")
    assert re.findall(r"<b>([^<]+)</b>", html) == ["0.0%", "50.0%"]
    assert "1,234" in html and "width:32.0px" in html
