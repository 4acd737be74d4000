"""A row of a head over its picture: the numbers are the trace's, each at the place of its patch."""

from __future__ import annotations

import base64
import dataclasses
import io

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Produced, Tokens
from transformer_viz.metrics.attention.image_patches import patch_row
from transformer_viz.preprocessing.images import ImageReader
from transformer_viz.views import over_image

from .conftest import softmax

READER = ImageReader(6, 15, 3, (3, 5), prefix=("class", "register 0"))  # two rows, three columns
TOKENS, HEADS = 8, 2
SHOWN = np.random.default_rng(0).integers(0, 256, (6, 15, 3), dtype=np.uint8)


@pytest.fixture
def seen(clean: Trace) -> Trace:
    """A run over a picture of two rows and three columns of patches, two tokens before them."""
    query, key = np.mgrid[:TOKENS, :TOKENS]
    scores = np.stack([np.cos(1.3 * query + key * (1 + head)) * 2 for head in range(HEADS)])
    weights = softmax(scores).astype(np.float32)
    gradients = (np.sin(query * 2 + key) - 0.2).astype(np.float32)[None] * [[[1.0]], [[0.0]]]
    block = Attention(
        weights,
        Site("encoder", "self", 0),
        "source",
        "source",
        gradients=gradients.astype(np.float32),
    )
    said = Produced((4,), ("a <b>",), ("a <b>",), np.ones(1, np.float32), np.ones(1, np.int64))
    return dataclasses.replace(
        clean,
        source=READER.tokens(),
        target=None,
        produced=said,
        attentions=(block,),
        manifest={"model": "by hand", "image": {"grid": [2, 3], "prefix": 2}},
    )


def heatmaps(picture: go.Figure) -> list[go.Heatmap]:
    return [trace for trace in picture.data if isinstance(trace, go.Heatmap)]


def markers(picture: go.Figure) -> list[go.Scatter]:
    return [trace for trace in picture.data if isinstance(trace, go.Scatter)]


def test_each_weight_stands_on_its_patch_and_those_in_front_beside(seen: Trace) -> None:
    row = seen.attention("encoder", layer=0)[1, 4]
    patches, front = heatmaps(over_image(seen, "encoder", 0, 1, 4, SHOWN))
    expected = [[row[2], row[3], row[4]], [row[5], row[6], row[7]]]
    assert np.array_equal(patches.z, np.array(expected))
    assert np.array_equal(front.z, np.array([[row[0]], [row[1]]]))
    for shades in (patches, front):  # one scale for both
        assert (shades.zmin, shades.zmax) == (0, row.max())
    picture = over_image(seen, "encoder", 0, 1, 4, SHOWN, most=0.5)
    assert heatmaps(picture)[0].zmax == 0.5
    names = picture.layout.yaxis2.ticktext
    assert names == (f"class {row[0]:.2g}", f"register 0 {row[1]:.2g}")


def test_a_click_gives_the_token(seen: Trace) -> None:
    row = seen.attention("encoder", layer=0)[0, 0]
    picture = over_image(seen, "encoder", 0, 0, 0, SHOWN)
    on, beside = markers(picture)
    assert on.name == beside.name == "cells"
    assert [tuple(place) for place in zip(on.y, on.x, on.customdata[:, 0], strict=True)] == [
        *((0, 0, 2), (0, 1, 3), (0, 2, 4)),
        *((1, 0, 5), (1, 1, 6), (1, 2, 7)),
    ]
    assert beside.customdata[:, 0].tolist() == [0, 1] and beside.yaxis == "y2"
    assert np.allclose(on.customdata[:, 1], row[2:])
    assert np.allclose(beside.customdata[:, 1], row[:2])


@pytest.mark.parametrize(("query", "axis", "place"), [(1, "x2", (0, 1)), (6, "x", (1, 1))])
def test_the_token_that_looks_is_outlined(
    query: int, axis: str, place: tuple[int, int], seen: Trace
) -> None:
    (shape,) = over_image(seen, "encoder", 0, 0, query, SHOWN).layout.shapes
    assert shape.xref == axis
    assert ((shape.x0 + shape.x1) / 2, (shape.y0 + shape.y1) / 2) == place


def test_the_picture_lies_under_it_pixel_for_pixel(seen: Trace) -> None:
    (under,) = over_image(seen, "encoder", 0, 0, 0, SHOWN).layout.images
    file = base64.b64decode(under.source.removeprefix("data:image/png;base64,"))
    drawn = np.asarray(Image.open(io.BytesIO(file)))
    times = drawn.shape[0] // SHOWN.shape[0]
    assert times > 1 and np.array_equal(drawn, SHOWN.repeat(times, 0).repeat(times, 1))
    assert (under.x, under.y, under.sizex, under.sizey) == (-0.5, -0.5, 3, 2)
    assert under.layer == "below" and under.opacity < 1


def test_an_edge_that_no_patch_reaches_hangs_over(seen: Trace) -> None:
    wider = np.pad(SHOWN, ((0, 1), (0, 2), (0, 0)))
    picture = over_image(seen, "encoder", 0, 0, 0, wider)
    assert picture.layout.images[0].sizex == 17 / 5
    assert picture.layout.yaxis.scaleratio == 3 / 5  # patches are 3 pixels high and 5 wide


@pytest.mark.parametrize("dark", [False, True])
def test_gradients_go_both_ways_around_nothing(dark: bool, seen: Trace) -> None:
    picture = over_image(seen, "encoder", 0, 0, 3, SHOWN, what="gradients", dark=dark)
    row = seen.gradients("encoder", layer=0)[0, 3]
    patches = heatmaps(picture)[0]
    assert np.array_equal(patches.z.ravel(), row[2:])
    assert patches.zmax == -patches.zmin == np.abs(row).max()
    less, *middle, more = (colour for _, colour in patches.colorscale)
    assert all(colour.endswith(",0)") for colour in middle)
    ramp = (DARK if dark else LIGHT).changes
    for colour, wanted in ((less, ramp[0]), (more, ramp[-1])):
        channels = [str(int(wanted[at : at + 2], 16)) for at in (1, 3, 5)]
        assert colour.startswith(f"rgba({','.join(channels)},")


def test_no_weight_lets_the_picture_through(seen: Trace) -> None:
    patches = heatmaps(over_image(seen, "encoder", 0, 0, 0, SHOWN))[0]
    assert patches.colorscale[0][1].endswith(",0)")


def test_the_text_names_place_direction_scale_and_the_five_strongest(seen: Trace) -> None:
    row = seen.attention("encoder", layer=0)[1, 4]
    text = over_image(seen, "encoder", 0, 1, 4, SHOWN).layout.meta["alt"]
    assert text.startswith("encoder L0 H1 · “0,2” looks at the patches · shades from 0 to ")
    strongest = sorted(range(2, TOKENS), key=lambda token: -row[token])[:5]
    listed = ", ".join(f"{READER.tokens().labels[t]} ({row[t]:.2g})" for t in strongest)
    assert text.endswith(listed) and listed.count("(") == 5


def test_the_text_of_gradients_claims_no_more_than_they_are(seen: Trace) -> None:
    told = over_image(seen, "encoder", 0, 0, 0, SHOWN, what="gradients").layout.meta
    assert "gradient of the logit of “a <b>” with respect to the weights" in told["alt"]
    assert "not an explanation" in told["alt"]
    assert "a &lt;b&gt;" in told["caption"]
    empty = over_image(seen, "encoder", 0, 1, 0, SHOWN, what="gradients")
    assert empty.layout.meta["alt"].endswith("all are zero: nothing depends on this row")


def test_the_strongest_are_told_by_size_whatever_their_sign(seen: Trace) -> None:
    row = patch_row(seen, "encoder", 0, 0, 3, "gradients")
    values = seen.gradients("encoder", layer=0)[0, 3]
    assert np.array_equal(row.values, values)
    order = sorted(range(2, TOKENS), key=lambda token: -abs(values[token]))
    assert [name for name, _ in row.strongest(3)] == [row.names[token] for token in order[:3]]
    assert [value for _, value in row.strongest(3)] == [values[token] for token in order[:3]]


def test_what_cannot_be_drawn_is_refused(seen: Trace, clean: Trace) -> None:
    plain = dataclasses.replace(clean, manifest={"model": "by hand"})
    with pytest.raises(LookupError, match="not over a picture"):
        over_image(plain, "encoder", 0, 0, 0, SHOWN)
    with pytest.raises(LookupError, match="has heads 0 to 1; got 2"):
        over_image(seen, "encoder", 0, 2, 0, SHOWN)
    with pytest.raises(LookupError, match="has tokens 0 to 7; got 8"):
        over_image(seen, "encoder", 0, 0, 8, SHOWN)
    with pytest.raises(LookupError, match="were not kept"):
        over_image(clean, "encoder", 0, 0, 0, SHOWN, what="gradients")
    with pytest.raises(ValueError, match="weights or gradients; got 'scores'"):
        over_image(seen, "encoder", 0, 0, 0, SHOWN, what="scores")
    with pytest.raises(ValueError, match=r"uint8 \[height, width, 3\]; got float64 \[6, 15\]"):
        over_image(seen, "encoder", 0, 0, 0, SHOWN[..., 0] / 255)


def test_two_runs_are_subtracted_patch_by_patch(seen: Trace) -> None:
    block = seen.attentions[0]
    other = dataclasses.replace(
        seen, attentions=(dataclasses.replace(block, weights=block.weights[:, ::-1]),)
    )
    picture = over_image(seen, "encoder", 0, 1, 4, SHOWN, minus=other)
    patches, front = heatmaps(picture)
    difference = seen.attention("encoder", layer=0)[1, 4] - seen.attention("encoder", layer=0)[1, 3]
    assert np.allclose(patches.z.ravel(), difference[2:])
    assert np.allclose(front.z.ravel(), difference[:2])
    assert patches.zmin == -patches.zmax == -np.abs(difference).max()
    assert "change since the clean run" in picture.layout.meta["caption"]
    same = over_image(seen, "encoder", 0, 1, 4, SHOWN, minus=seen)
    assert "nothing was changed in this row" in same.layout.meta["caption"]


@pytest.fixture
def beside(seen: Trace) -> Trace:
    """The same weights, over two words, a picture of one row and four columns, and two words."""
    names = ("what", "?", "image 0,0", "image 0,1", "image 0,2", "image 0,3", "a", "cat")
    tokens = Tokens((5, 6, 4, 4, 4, 4, 7, 8), names, names, tuple(range(8)), (False,) * 8)
    cut = {"model": "by hand", "image": {"grid": [1, 4], "prefix": 2}}
    return dataclasses.replace(seen, source=tokens, manifest=cut)


def test_beside_a_text_only_the_patches_are_on_the_picture(beside: Trace) -> None:
    row = beside.attention("encoder", layer=0)[1, 7]
    shown = np.zeros((3, 20, 3), np.uint8)
    picture = over_image(beside, "encoder", 0, 1, 7, shown)
    patches, front = heatmaps(picture)
    assert np.array_equal(patches.z, row[2:6][None])
    assert front.z.shape == (0, 1)
    (clicks,) = markers(picture)
    assert [int(token) for token, _ in clicks.customdata] == [2, 3, 4, 5]
    assert not picture.layout.shapes  # the row is that of a word
    alt = picture.layout.meta["alt"]
    assert f"{row[2:6].sum():.0%} of its weight is on the picture" in alt
    strongest = int(row[2:6].argmax())
    assert f"(row,column): image 0,{strongest} (" in alt
    (frame,) = over_image(beside, "encoder", 0, 1, 4, shown).layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (1.5, 2.5, -0.5, 0.5)


def test_a_runs_patches_are_numbers_of_its_tokens(seen: Trace, beside: Trace) -> None:
    assert seen.patches is not None and beside.patches is not None
    assert seen.patches.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert beside.patches.tolist() == [[2, 3, 4, 5]]
    assert dataclasses.replace(seen, manifest={}).patches is None
