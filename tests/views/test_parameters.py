"""Where the parameters are: bars that sum to the model, in an order that a reader follows."""

from __future__ import annotations

import pandas as pd
import pytest

from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.views.charts.parameters import BLOCKS, parameters
from transformer_viz.views.charts.theme import escaped

TABLE = pd.DataFrame(
    [
        ("embedding", "embedding", 700),
        ("encoder L0", "self", 200),
        ("encoder L0", "feed-forward", 80),
        ("encoder L1", "self", 15),
        ("output", "output", 5),
    ],
    columns=["place", "block", "parameters"],
)


@pytest.mark.parametrize("dark", [False, True])
def test_each_block_is_a_colour_and_each_place_a_bar(dark: bool) -> None:
    picture = parameters(TABLE, dark=dark)
    shown = {
        (bars.name, place): count
        for bars in picture.data
        for place, count in zip(bars.y, bars.x, strict=True)
    }
    assert shown == {(b, p): n for p, b, n in TABLE.itertuples(index=False)}
    assert picture.layout.yaxis.categoryarray == ("embedding", "encoder L0", "encoder L1", "output")
    assert [bars.name for bars in picture.data] == [b for b in BLOCKS if b in set(TABLE["block"])]
    colours = [bars.marker.color for bars in picture.data]
    assert len(set(colours)) == len(colours)
    assert (DARK if dark else LIGHT).accent in colours


def test_the_caption_says_the_whole_and_the_shares() -> None:
    meta = parameters(TABLE).layout.meta
    assert meta["alt"].startswith(
        "1,000 parameters: embedding 70%, self 22%, feed-forward 8%, output 0%"
    )
    assert meta["caption"] == escaped(meta["alt"])


def test_more_layers_make_a_taller_picture_and_none_a_small_one() -> None:
    longer = pd.concat([TABLE, TABLE.assign(place=[f"decoder L{n}" for n in range(5)])])
    assert parameters(longer).layout.height > parameters(TABLE).layout.height
    empty = parameters(TABLE.iloc[:0])
    assert not empty.data and "0 parameters" in empty.layout.meta["alt"]


def test_every_block_that_a_model_can_have_has_a_colour() -> None:
    every = pd.DataFrame({"place": BLOCKS, "block": BLOCKS, "parameters": range(1, 8)})
    colours = {bars.marker.color for bars in parameters(every).data}
    assert len(colours) == len(BLOCKS)
