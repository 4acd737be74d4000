"""What the components are given: blobs decoded by hand, and clicks that may be anything."""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any

import numpy as np
import pytest

from tests.views.conftest import make_trace
from transformer_viz.components import (
    Chip,
    ChipRow,
    Picked,
    heads_data,
    heads_height,
    picked,
    script,
    style,
    tokens_data,
)
from transformer_viz.records import Trace
from transformer_viz.views.theme import DARK, LIGHT

from .test_tiles import appended


def decoded(blob: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """The header and the tiles, read as the browser reads them."""
    magic, length = struct.unpack_from("<II", blob)
    assert magic.to_bytes(4, "little") == b"TVH1"
    header = json.loads(blob[8 : 8 + length])
    start = (8 + length + 7) // 8 * 8
    shape = [header[word] for word in ("layers", "heads", "h", "w")]
    assert len(blob) == start + np.prod(shape)
    return header, np.frombuffer(blob, np.uint8, offset=start).reshape(shape)


@pytest.fixture(scope="module")
def clean() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def test_each_tile_reaches_255_and_keeps_its_proportions(clean: Trace) -> None:
    header, tiles = decoded(heads_data(clean, "cross", selected=(1, 2)))
    assert tiles.shape == (2, 3, 4, 5)
    assert (tiles.max(axis=(2, 3)) == 255).all()
    weights = clean.attention("cross")
    own = weights / weights.max(axis=(2, 3), keepdims=True)
    assert np.abs(tiles / 255 - own).max() < 2.5 / 255  # rounded twice, once before the division
    assert header["selected"] == [1, 2] and not header["change"]


def test_changes_share_one_scale_around_128(clean: Trace, warm: Trace) -> None:
    header, tiles = decoded(heads_data(warm, "encoder", before=clean))
    changes = warm.attention("encoder").astype(float) - clean.attention("encoder")
    limit = np.abs(changes).max()
    assert header["change"] and tiles.min() >= 1
    assert np.abs((tiles.astype(float) - 128) / 127 * limit - changes).max() < 1.5 / 255
    same = decoded(heads_data(clean, "encoder", before=clean))[1]
    assert (same == 128).all()


def test_rows_that_did_not_exist_are_empty(clean: Trace) -> None:
    square = np.full((2, 3, 7, 7), 51, np.uint8)
    padded = dataclasses.replace(
        clean, source=appended(clean.source, 2), thumbnails={"encoder": square}
    )
    _, tiles = decoded(heads_data(padded, "encoder", before=clean))
    assert (tiles[:, :, 5:] == 0).all() and (tiles[:, :, :5] > 0).all()
    assert (tiles[:, :, :5, 5:] > 128).all()


def test_every_head_says_its_numbers(clean: Trace, warm: Trace) -> None:
    heads = clean.heads
    row = heads[(heads["block"] == "cross") & (heads["layer"] == 1) & (heads["head"] == 2)].iloc[0]
    header, _ = decoded(heads_data(clean, "cross"))
    words = f"L1 H2 · entropy {row['entropy']:.2f} bits · largest {row['max']:.2f}"
    assert header["labels"][1][2] == words
    header, _ = decoded(heads_data(warm, "cross", before=clean))
    changes = warm.thumbnail("cross")[1, 2] / 255 - clean.thumbnail("cross")[1, 2] / 255
    most = changes.flat[np.abs(changes).argmax()]
    assert f"{row['entropy']:.2f} → " in header["labels"][1][2]
    assert header["labels"][1][2].endswith(f"largest change {most:+.2f}")


def test_the_header_knows_colours_and_what_is_lit_together(clean: Trace) -> None:
    header, _ = decoded(heads_data(clean, "cross", rows=[(0,), (1, 2)], columns=[(0, 1)]))
    assert header["rows"] == [[0], [1, 2]] and header["columns"] == [[0, 1]]
    assert header["colours"]["light"]["amounts"] == list(LIGHT.amounts)
    assert header["colours"]["dark"]["accent"] == DARK.accent
    assert header["pooled"] == [1, 1] and header["chart"] == "head-map"
    assert decoded(heads_data(clean, "cross", chart="other"))[0]["chart"] == "other"
    assert "rows are layers" in header["caption"]
    long = dataclasses.replace(
        clean,
        source=appended(clean.source, 95),
        thumbnails={"encoder": np.zeros((2, 3, 50, 50), np.uint8)},
    )
    assert decoded(heads_data(long, "encoder"))[0]["pooled"] == [2, 2]


def test_heights_grow_with_layers_and_end() -> None:
    heights = [heads_height(layers) for layers in range(1, 49)]
    assert heights[0] >= 140 and heights[-1] == max(heights) == 520


def test_a_map_that_is_not_there_is_named(clean: Trace) -> None:
    with pytest.raises(LookupError, match="it has encoder, decoder, cross"):
        heads_data(clean, "sideways")


ROWS = (
    ChipRow("source", (Chip("a", column=0), Chip("<b>", column=1, gone=True, mark=True))),
    ChipRow("target", (Chip("c", row=0, on=True),)),
)


def test_chips_come_as_plain_json() -> None:
    data = tokens_data(ROWS, dark=True, chart="map")
    assert json.loads(json.dumps(data)) == data
    assert data["rows"][0]["chips"][1] == {
        "text": "<b>",
        "row": None,
        "column": 1,
        "on": False,
        "gone": True,
        "mark": True,
    }
    assert (data["dark"], data["chart"]) == (True, "map")


def test_a_click_means_the_chip_that_was_drawn() -> None:
    forged = {"side": "source", "token": 1, "row": 99, "column": 99}
    assert picked(ROWS, forged) == Picked("source", 1, None, 1)
    assert picked(ROWS, {"side": "target", "token": 0}) == Picked("target", 0, 0, None)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "source",
        [1],
        {},
        {"side": "sideways", "token": 0},
        {"side": "source", "token": 2},
        {"side": "source", "token": -1},
        {"side": "source", "token": float("nan")},
        {"side": "source", "token": "1"},
        {"side": ["source"], "token": 1},
    ],
)
def test_a_click_that_means_nothing_is_let_go(value: object) -> None:
    assert picked(ROWS, value) is None


@pytest.mark.parametrize("name", ["heads", "tokens"])
def test_scripts_name_no_address_and_no_colour_of_their_own(name: str) -> None:
    words = script(name)
    assert words.count("export default") == 1 and "http" not in words + style(name)
    assert "innerHTML = `" not in words and "eval(" not in words
