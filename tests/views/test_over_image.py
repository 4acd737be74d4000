"""A row of a head over its picture: the trace's numbers, each at the place of its patch."""

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
    slopes = ((np.sin(query * 2 + key) - 0.2)[None] * [[[1.0]], [[0.0]]]).astype(np.float32)
    weights, site = softmax(scores).astype(np.float32), Site("encoder", "self", 0)
    block = Attention(weights, site, "source", "source", gradients=slopes)
    said = Produced((4,), ("a <b>",), ("a <b>",), np.ones(1, np.float32), np.ones(1, np.int64))
    about = {"model": "by hand", "image": {"grid": [2, 3], "prefix": 2}}
    return dataclasses.replace(
        clean,
        source=READER.tokens(),
        target=None,
        produced=said,
        attentions=(block,),
        manifest=about,
    )


def heatmaps(picture: go.Figure) -> list[go.Heatmap]:
    return [trace for trace in picture.data if isinstance(trace, go.Heatmap)]


def markers(picture: go.Figure) -> list[go.Scatter]:
    return [trace for trace in picture.data if isinstance(trace, go.Scatter)]


def drawn(run: Trace, head: int, query: int, shown: np.ndarray = SHOWN, **words: object):
    return over_image(run, "encoder", 0, head, query, shown, **words)


def test_each_weight_stands_on_its_patch_and_those_in_front_beside(seen: Trace) -> None:
    row = seen.attention("encoder", layer=0)[1, 4]
    picture = drawn(seen, 1, 4)
    patches, front = heatmaps(picture)
    assert np.array_equal(patches.z, row[2:].reshape(2, 3))
    assert np.array_equal(front.z, row[:2, None])
    for shades in (patches, front):  # one scale for both
        assert (shades.zmin, shades.zmax) == (0, row.max())
    assert patches.colorscale[0][1].endswith(",0)")  # no weight lets the picture through
    assert heatmaps(drawn(seen, 1, 4, most=0.5))[0].zmax == 0.5
    names = picture.layout.yaxis2.ticktext
    assert names == (f"class {row[0]:.2g}", f"register 0 {row[1]:.2g}")
    text = picture.layout.meta["alt"]
    assert text.startswith("encoder L0 H1 · “0,2” looks at the patches · shades from 0 to ")
    strongest = sorted(range(2, TOKENS), key=lambda token: -row[token])[:5]
    listed = ", ".join(f"{READER.tokens().labels[t]} ({row[t]:.2g})" for t in strongest)
    assert text.endswith(listed) and listed.count("(") == 5


def test_clicks_outlines_and_the_picture_below(seen: Trace) -> None:
    row = seen.attention("encoder", layer=0)[0, 0]
    on, beside = markers(drawn(seen, 0, 0))
    assert on.name == beside.name == "cells"
    places = [tuple(place) for place in zip(on.y, on.x, on.customdata[:, 0], strict=True)]
    assert places == [(y, x, 2 + 3 * y + x) for y in range(2) for x in range(3)]
    assert beside.customdata[:, 0].tolist() == [0, 1] and beside.yaxis == "y2"
    assert np.allclose(on.customdata[:, 1], row[2:])
    assert np.allclose(beside.customdata[:, 1], row[:2])
    for query, axis, place in ((1, "x2", (0, 1)), (6, "x", (1, 1))):
        (shape,) = drawn(seen, 0, query).layout.shapes
        assert shape.xref == axis
        assert ((shape.x0 + shape.x1) / 2, (shape.y0 + shape.y1) / 2) == place
    # The picture lies under it pixel for pixel.
    (under,) = drawn(seen, 0, 0).layout.images
    file = base64.b64decode(under.source.removeprefix("data:image/png;base64,"))
    pixels = np.asarray(Image.open(io.BytesIO(file)))
    times = pixels.shape[0] // SHOWN.shape[0]
    assert times > 1 and np.array_equal(pixels, SHOWN.repeat(times, 0).repeat(times, 1))
    assert (under.x, under.y, under.sizex, under.sizey) == (-0.5, -0.5, 3, 2)
    assert under.layer == "below" and under.opacity < 1
    wider = drawn(seen, 0, 0, np.pad(SHOWN, ((0, 1), (0, 2), (0, 0))))
    assert wider.layout.images[0].sizex == 17 / 5  # an edge that no patch reaches hangs over
    assert wider.layout.yaxis.scaleratio == 3 / 5  # patches are 3 pixels high and 5 wide


def test_gradients_go_both_ways_around_nothing(seen: Trace) -> None:
    values = seen.gradients("encoder", layer=0)[0, 3]
    for dark, palette in ((False, LIGHT), (True, DARK)):
        patches = heatmaps(drawn(seen, 0, 3, what="gradients", dark=dark))[0]
        assert np.array_equal(patches.z.ravel(), values[2:])
        assert patches.zmax == -patches.zmin == np.abs(values).max()
        less, *middle, more = (colour for _, colour in patches.colorscale)
        assert all(colour.endswith(",0)") for colour in middle)
        for colour, wanted in ((less, palette.changes[0]), (more, palette.changes[-1])):
            channels = [str(int(wanted[at : at + 2], 16)) for at in (1, 3, 5)]
            assert colour.startswith(f"rgba({','.join(channels)},")
    row = patch_row(seen, "encoder", 0, 0, 3, "gradients")  # the strongest, whatever their sign
    assert np.array_equal(row.values, values)
    order = sorted(range(2, TOKENS), key=lambda token: -abs(values[token]))[:3]
    assert list(row.strongest(3)) == [(row.names[token], values[token]) for token in order]
    told = drawn(seen, 0, 0, what="gradients").layout.meta
    assert "gradient of the logit of “a <b>” with respect to the weights" in told["alt"]
    assert "not an explanation" in told["alt"] and "a &lt;b&gt;" in told["caption"]
    empty = drawn(seen, 1, 0, what="gradients").layout.meta["alt"]
    assert empty.endswith("all are zero: nothing depends on this row")


def test_two_runs_are_subtracted_and_others_refused(seen: Trace, clean: Trace) -> None:
    block = seen.attentions[0]
    other = dataclasses.replace(block, weights=block.weights[:, ::-1])
    picture = drawn(seen, 1, 4, minus=dataclasses.replace(seen, attentions=(other,)))
    patches, front = heatmaps(picture)
    difference = block.weights[1, 4] - block.weights[1, 3]
    assert np.allclose(patches.z.ravel(), difference[2:])
    assert np.allclose(front.z.ravel(), difference[:2])
    assert patches.zmin == -patches.zmax == -np.abs(difference).max()
    assert "change since the clean run" in picture.layout.meta["caption"]
    same = drawn(seen, 1, 4, minus=seen)
    assert "nothing was changed in this row" in same.layout.meta["caption"]
    # What cannot be drawn is refused.
    plain = dataclasses.replace(clean, manifest={"model": "by hand"})
    grey = r"uint8 \[height, width, 3\]; got float64 \[6, 15\]"
    for draw, said in (
        (lambda: drawn(plain, 0, 0), "not over a picture"),
        (lambda: drawn(seen, 2, 0), "has heads 0 to 1; got 2"),
        (lambda: drawn(seen, 0, 8), "has tokens 0 to 7; got 8"),
        (lambda: drawn(clean, 0, 0, what="gradients"), "were not kept"),
        (lambda: drawn(seen, 0, 0, what="scores"), "weights or gradients; got 'scores'"),
        (lambda: drawn(seen, 0, 0, SHOWN[..., 0] / 255), grey),
    ):
        with pytest.raises((LookupError, ValueError), match=said):
            draw()


def test_beside_a_text_only_the_patches_are_on_the_picture(seen: Trace) -> None:
    """Two words, a picture of one row and four columns, and two words."""
    names = ("what", "?", "image 0,0", "image 0,1", "image 0,2", "image 0,3", "a", "cat")
    tokens = Tokens((5, 6, 4, 4, 4, 4, 7, 8), names, names, tuple(range(8)), (False,) * 8)
    cut = {"model": "by hand", "image": {"grid": [1, 4], "prefix": 2}}
    beside = dataclasses.replace(seen, source=tokens, manifest=cut)
    assert seen.patches is not None and seen.patches.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert beside.patches is not None and beside.patches.tolist() == [[2, 3, 4, 5]]
    assert dataclasses.replace(seen, manifest={}).patches is None
    row = beside.attention("encoder", layer=0)[1, 7]
    shown = np.zeros((3, 20, 3), np.uint8)
    picture = drawn(beside, 1, 7, shown)
    patches, front = heatmaps(picture)
    assert np.array_equal(patches.z, row[2:6][None]) and front.z.shape == (0, 1)
    (clicks,) = markers(picture)
    assert [int(token) for token, _ in clicks.customdata] == [2, 3, 4, 5]
    assert not picture.layout.shapes  # the row is that of a word
    alt = picture.layout.meta["alt"]
    assert f"{row[2:6].sum():.0%} of its weight is on the picture" in alt
    assert f"(row,column): image 0,{int(row[2:6].argmax())} (" in alt
    (frame,) = drawn(beside, 1, 4, shown).layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (1.5, 2.5, -0.5, 0.5)
