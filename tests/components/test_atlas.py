"""The atlas as Python packs it: the captured numbers themselves, few bytes, correct labels."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests.support.component_stage import decoded
from tests.support.many_heads import blocks_max, many, repeated, sentence
from tests.views.conftest import make_trace
from transformer_viz.components.atlas import HeadNumber, atlas_data, atlas_height
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.head_metrics import shown_metrics
from transformer_viz.core.sites import MAPS
from transformer_viz.core.trace import Trace
from transformer_viz.i18n import speaking

BLOCKS = ("encoder", "decoder", "cross")
SHOWN = [metric.name for metric in shown_metrics()]  # the columns of the table


clean = cache(make_trace)


@cache
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def rows(trace: Trace, block: str) -> pd.DataFrame:
    """Return a map's rows of the table of heads."""
    stack, kind = MAPS[block]
    return trace.heads[(trace.heads["stack"] == stack) & (trace.heads["block"] == kind)]


def test_tiles_and_numbers_are_those_that_were_captured() -> None:
    header, arrays = decoded(atlas_data(clean(), BLOCKS, MapLook(seq=5), words="so it is"))
    assert (header["part"], header["seq"], header["words"]) == ("atlas", 5, "so it is")
    assert [one["name"] for one in header["blocks"]] == list(BLOCKS) and header["limit"] == 0
    sides = [(one["rows"], one["columns"]) for one in header["blocks"]]
    assert sides == [("source", "source"), ("produced", "target"), ("produced", "source")]
    assert header["sentences"]["produced"] == ["die", "Ka", "tze", "</s>"]
    assert header["blocks"][2]["stride"] == [1, 1] and header["blocks"][2]["counts"] == [3, 3]
    for number, block in enumerate(BLOCKS):
        tiles = arrays[f"tiles{number}"]
        assert np.array_equal(tiles, clean().thumbnail(block)) and tiles.dtype == np.uint8, block
        for row in rows(clean(), block).itertuples():
            numbers = arrays[f"numbers{number}"][:, row.layer, row.head]
            found = dict(zip(header["columns"], numbers, strict=True))
            assert list(found) == [*SHOWN, "strongest"] and found["strongest"] == found["max"]
            for name in SHOWN:
                wanted = np.float32(getattr(row, name))
                assert np.array_equal(found[name], wanted, equal_nan=True), (block, name)


def test_a_column_that_a_stored_trace_lacks_is_unknown() -> None:
    older = dataclasses.replace(clean(), heads=clean().heads.drop(columns=["sink", "max"]))
    for before in (None, older):
        header, arrays = decoded(atlas_data(clean() if before else older, ["cross"], before=before))
        found = dict(zip(header["columns"], arrays["numbers0"], strict=True))
        assert before or np.isnan([found["sink"], found["max"], found["strongest"]]).all()
        assert np.isfinite(found["entropy"]).all()


def test_the_header_lists_the_metrics_to_sort_by() -> None:
    metrics = decoded(atlas_data(clean(), ["cross"]))[0]["metrics"]
    assert [metric["name"] for metric in metrics] == SHOWN
    assert metrics[0]["before"] is None and metrics[0]["title"] == "entropy"
    assert metrics[2]["heading"] == metrics[2]["title"] == "largest weight"
    with speaking("zh"):
        header, _ = decoded(atlas_data(warm(), ["cross"], before=clean()))
    first, last = header["metrics"][0], header["metrics"][-1]
    assert (last["name"], last["title"], last["signed"]) == ("change", "变化", True)
    assert first["ranked"] == "按熵从高到低排列" and first["before"] in header["columns"]


def test_a_change_shares_one_symmetric_scale() -> None:
    header, arrays = decoded(atlas_data(warm(), BLOCKS, before=clean()))
    largest = 0.0
    for number, block in enumerate(BLOCKS):
        steps = warm().thumbnail(block).astype(float) - clean().thumbnail(block)
        largest = max(largest, np.abs(steps).max() / 255)
        shown = (arrays[f"tiles{number}"].astype(float) - 128) / 127 * header["limit"]
        assert np.abs(shown - steps / 255).max() <= header["limit"] / 254 + 1e-6
        told = dict(zip(header["columns"], arrays[f"numbers{number}"], strict=True))
        flat = steps.reshape(2, 3, -1) / 255
        most = np.take_along_axis(flat, np.abs(flat).argmax(-1)[..., None], -1)[..., 0]
        assert np.allclose(told["change"], most)
    assert header["limit"] == pytest.approx(largest)
    was = rows(clean(), "cross")["entropy"].to_numpy().reshape(2, 3)
    assert np.allclose(told["entropy before"], was)


def test_new_rows_and_missing_heads_are_marked() -> None:
    wide = np.pad(clean().thumbnail("encoder"), ((0, 0), (0, 0), (0, 2), (0, 2)))
    ids, pieces = (*clean().source.ids, 0, 0), (*clean().source.pieces, "x", "y")
    source = dataclasses.replace(sentence(7), ids=ids, pieces=pieces)
    padded = dataclasses.replace(clean(), source=source, thumbnails={"encoder": wide})
    _, arrays = decoded(atlas_data(padded, ["encoder"], before=clean()))
    assert (arrays["tiles0"][:, :, 5:] == 0).all() and (arrays["tiles0"][:, :, :5] == 128).all()
    heads = clean().heads
    fewer = heads[~((heads["block"] == "cross") & (heads["layer"] == 0) & (heads["head"] == 2))]
    header, arrays = decoded(atlas_data(dataclasses.replace(clean(), heads=fewer), ["cross"]))
    assert header["blocks"][0]["counts"] == [2, 3]
    assert np.isnan(arrays["numbers0"][:, 0, 2]).all()


def test_an_atlas_stays_below_a_megabyte() -> None:
    data = atlas_data(many(12, 12, 64, kept=False), ["encoder"])
    assert len(data) <= 650_000 and decoded(data)[0]["blocks"][0]["stride"] == [1, 1]
    three = many(12, 12, 64, blocks=BLOCKS, kept=False)
    data = atlas_data(three, BLOCKS)
    header, arrays = decoded(data)
    assert len(data) <= 1_000_000
    for number, block in enumerate(BLOCKS):
        assert header["blocks"][number]["stride"] == [2, 2], block
        assert np.array_equal(arrays[f"tiles{number}"], blocks_max(three.thumbnail(block), 2, 2))
    tile = many(1, 64, 128, kept=False)
    data = atlas_data(repeated(tile, 48), ["encoder"])  # three thousand heads
    header, arrays = decoded(data)
    assert len(data) < 1_000_000 and arrays["tiles0"].shape == (48, 64, 16, 16)
    assert header["blocks"][0]["stride"] == [8, 8]  # 2 of the thumbnail, and 4 of the atlas
    assert np.array_equal(arrays["tiles0"][7], blocks_max(tile.thumbnail("encoder")[0], 4, 4))


def test_the_height_grows_with_the_layers_up_to_a_limit() -> None:
    heights = [atlas_height(many(n, 4, 3, kept=False), ["encoder"]) for n in (1, 2, 4, 12, 48)]
    assert 250 < heights[0] < heights[1] < heights[2] and max(heights) == heights[-1] < 700
    assert decoded(atlas_data(many(4, 4, 3), ["encoder"]))[0]["height"] == heights[2]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(LookupError, match="it has encoder, decoder, cross"):
        atlas_data(clean(), ["sideways"])
    with pytest.raises(ValueError, match="An atlas needs a block"):
        atlas_data(clean(), [])
    with pytest.raises(ValueError, match="different words"):
        atlas_data(clean(), ["encoder"], before=many(2, 3, 9))


def test_other_numbers_of_heads_replace_those_of_the_run() -> None:
    values = {name: np.arange(6, dtype=float).reshape(2, 3) / 7 for name in BLOCKS}
    values["cross"][1, 2] = np.nan
    given = [HeadNumber("previous", "word before", values, told=True)]
    data = atlas_data(clean(), BLOCKS, sort="previous", scale="previous", numbers=given)
    header, arrays = decoded(data)
    (metric,) = header["metrics"]
    assert (metric["name"], metric["heard"]) == ("previous", "word before {number}")
    assert metric["ranked"] == "ranked by word before, highest first"
    assert header["how"]["sort"] == header["how"]["scale"] == "previous"
    for number, name in enumerate(BLOCKS):
        own = arrays[f"numbers{number}"][header["columns"].index("previous")]
        np.testing.assert_array_equal(own, values[name].astype(np.float32))
