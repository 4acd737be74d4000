"""Pictures for print: true outlines and words, read back by other libraries."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
import threading
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import cairosvg
import matplotlib
import numpy as np
import pytest
from PIL import Image

from tests.views.conftest import make_trace
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import DARK, LIGHT, ramps
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.attention.map_cells import cells
from transformer_viz.metrics.attention.map_difference import difference
from transformer_viz.views.paper import sheet
from transformer_viz.views.paper.atlas import SIDE
from transformer_viz.views.paper.figure_file import HONEST, printed
from transformer_viz.views.paper.head_map import MAX_SIDE_CELLS

CLEAN, WARM = make_trace(), make_trace(temperature=3.0)
WIDTH = 160 / 25.4 * 72  # points of a sheet that is not told otherwise
SVG = "{http://www.w3.org/2000/svg}"
PICTURES: dict[str, tuple[Any, ...]] = {
    "map": ("map", "svg", "cross", 1, 2),
    "lines": ("lines", "svg", "cross", 1, 2),
    "atlas": ("atlas", "svg", "cross"),
}


def tree(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)


def groups(root: ElementTree.Element, start: str) -> list[ElementTree.Element]:
    return [one for one in root.iter(f"{SVG}g") if one.get("id", "").startswith(start)]


def shapes(found: list[ElementTree.Element]) -> int:
    """How many outlines some groups hold: every one begins with a move."""
    paths = [path.get("d", "") for group in found for path in group.iter(f"{SVG}path")]
    return sum(path.count("M") for path in paths)


def colours(found: list[ElementTree.Element]) -> set[str]:
    text = " ".join(path.get("style", "") for g in found for path in g.iter(f"{SVG}path"))
    return {colour.upper() for colour in re.findall(r"fill: (#[0-9a-f]{6})", text)}


def words(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def long_trace(tokens: int) -> Trace:
    """The same run, its encoder's first layer a sentence of so many words with one strong link."""
    names = tuple(f"w{n}" for n in range(tokens))
    source = replace(
        CLEAN.source, ids=tuple(range(tokens)), pieces=names, labels=names,
        words=tuple(range(tokens)), special=(False,) * tokens,
    )  # fmt: skip
    weights = np.full((3, tokens, tokens), 0.5 / (tokens - 1), np.float32)
    weights[:, :, 3] = 0.5
    block = replace(CLEAN.block("encoder", 0), weights=weights, scores=None)
    side = min(tokens, 64)
    small = {"encoder": np.full((1, 3, side, side), 7, np.uint8)}
    return replace(CLEAN, source=source, attentions=(block,), thumbnails=small)


def svg(trace: Trace, *place: Any, **look: Any) -> ElementTree.Element:
    """A picture as SVG, read back."""
    picture, *rest = place
    return tree(printed(trace, picture, "svg", *rest, **look))


@pytest.mark.slow
def test_another_library_renders_the_svg() -> None:
    for name, dark in itertools.product(PICTURES, (False, True)):
        content = printed(CLEAN, *PICTURES[name], dark=dark)
        picture = Image.open(io.BytesIO(cairosvg.svg2png(bytestring=content))).convert("RGB")
        assert picture.width == pytest.approx(WIDTH * 96 / 72, abs=2), name
        card = (DARK if dark else LIGHT).card
        assert "#{:02X}{:02X}{:02X}".format(*picture.getpixel((2, 2))) == card, name
        drawn = np.asarray(picture).reshape(-1, 3)
        assert len(np.unique(drawn, axis=0)) > 40, name
        assert 0.02 < (drawn != drawn[0]).any(axis=1).mean() < 0.98, name


@pytest.mark.slow
def test_every_kind_of_file_holds_outlines_words_and_its_manifest() -> None:
    dc = "{http://purl.org/dc/elements/1.1/}"
    for name, (picture, _, *place) in PICTURES.items():
        root = svg(CLEAN, picture, *place)
        assert not list(root.iter(f"{SVG}image")) and root.get("role") == "img" and words(root)
        title, said = (next(root.iter(SVG + tag)).text for tag in ("title", "desc"))
        assert title and title.startswith("Cross-attention"), name
        assert said and HONEST in said and "Model by hand; clean run" in said, name
        (subject,) = next(root.iter(f"{SVG}metadata")).iter(f"{dc}subject")
        about = json.loads("".join(subject.itertext()))
        assert (about["picture"], about["block"]) == (name, "cross")
        assert about["caption"] == said and about["run"] == CLEAN.manifest, name
        read = Image.open(io.BytesIO(printed(CLEAN, picture, "png", *place)))
        assert read.width == pytest.approx(160 / 25.4 * 300, abs=2), name
        assert read.info["dpi"] == pytest.approx((300, 300), abs=1), name
        assert json.loads(read.info["manifest"])["picture"] == name
        assert read.info["Title"].startswith("Cross-attention"), name
        assert len(read.convert("RGB").getcolors(1 << 24)) > 40, name
        pdf = printed(CLEAN, picture, "pdf", *place)
        assert pdf.startswith(b"%PDF-1.4") and b"/Subtype /Image" not in pdf, name
        assert b"/FontFile2" in pdf, name  # a TrueType font, so that words can be searched
        (keywords,) = re.findall(rb"/Keywords \(((?:\\.|[^\\)])*)\)", pdf, re.DOTALL)
        assert json.loads(re.sub(rb"\\(.)", rb"\1", keywords))["picture"] == name
    read = Image.open(io.BytesIO(printed(CLEAN, "map", "png", "encoder", 1, 2))).convert("RGB")
    found = {colour for count, colour in read.getcolors(1 << 24) if count > 500}
    last = LIGHT.amounts[-1]  # the colour of the strongest cell
    assert tuple(int(last[at : at + 2], 16) for at in (1, 3, 5)) in found


# ---- maps ----------------------------------------------------------------------------------------


def test_every_visible_cell_of_a_map_is_an_outline_of_its_colour() -> None:
    root = svg(CLEAN, "map", "decoder", 1, 2)
    weights = CLEAN.attention("decoder", layer=1)[2]
    steps = np.round(weights[np.tril(np.ones((4, 4), bool))] / weights.max() * 254).astype(int)
    shades = sheet.shades(LIGHT.amounts)
    assert shapes(groups(root, "cells-")) == (steps > 0).sum()
    assert colours(groups(root, "cells-")) == {shades[step] for step in steps if step}
    assert shapes(groups(root, "masked")) >= 3
    assert {"die", "Ka", "tze", "</s>", "<s>", f"{weights.max():.2g}"} <= set(words(root))
    assert "masked: may not look there" in words(root)
    root = svg(CLEAN, "map", "decoder", 1, 2, ramp="viridis")  # another ramp draws zero too
    assert shapes(groups(root, "cells-")) == 10
    assert colours(groups(root, "cells-")) <= set(sheet.shades(ramps()["viridis"]))


def test_cells_and_colours_are_where_the_sheet_says() -> None:
    boxes = sheet.grid(10, 20, 300, 120, (4, 5))
    assert np.allclose(boxes[0], [10, 20, 59.5, 29.5])
    assert np.allclose(boxes[-1], [250, 110, 59.5, 29.5])
    dense = sheet.grid(0, 0, 10, 10, (10, 10))
    assert (dense[:, 2:] > 1).all()  # no seams where there is no room for gaps
    shades = sheet.shades(LIGHT.amounts, 255)
    stop = dict(zip(np.linspace(0, 254, len(LIGHT.amounts)), LIGHT.amounts, strict=True))
    for place in (0, 127, 254):
        assert shades[place] == stop[place]
    near, far = (int(shades[n][1:3], 16) for n in (42, 43))
    wanted = 0xDC + (0xB3 - 0xDC) * (43 / 254 * 6 - 1)
    assert near >= far == round(wanted)
    assert sheet.levels(np.array([0, 0.4, 0.8, np.nan]), 0.8, False).tolist() == [0, 127, 254, -1]
    assert sheet.levels(np.array([-0.2, 0, 0.2]), 0.2, True).tolist() == [0, 127, 254]


def test_a_difference_is_drawn_around_zero_and_edits_are_named() -> None:
    content = printed(WARM, "map", "svg", "cross", 1, 2, before=CLEAN)
    change = difference(cells(WARM, "cross", 1, 2), cells(CLEAN, "cross", 1, 2))
    limit = np.abs(change).max()
    steps = np.round((change / limit + 1) / 2 * 254).astype(int)
    shades = sheet.shades(LIGHT.changes)
    drawn = colours(groups(tree(content), "cells-"))
    assert drawn == {shades[step] for step in steps.reshape(-1) if step != 127}
    assert {f"−{limit:.2g}", f"+{limit:.2g}"} <= set(words(tree(content)))
    assert "change since the other run" in content.decode()
    edits = Intervention((Temperature(value=2.5, stack="decoder", block="cross", layer=1),))
    run = {"intervention": edits.to_json()}
    edited = replace(WARM, intervention=edits, manifest=WARM.manifest | run)
    content = printed(edited, "map", "svg", "cross", 1, 2, words=True, special=False)
    said = next(tree(content).iter(f"{SVG}desc")).text or ""
    for part in ("cross L1: temperature 2.5", "Special tokens are hidden", "merged to words"):
        assert part in said
    assert "temperature" in content.decode().partition("<metadata>")[2].partition("</metadata>")[0]


@pytest.mark.slow
def test_a_map_follows_the_look_of_the_screen() -> None:
    """Threshold, gamma, the enlarged part and the end of the colours, by the screen's own rule."""
    weights = CLEAN.attention("encoder", layer=1)[2].astype(np.float64)
    shades = sheet.shades(LIGHT.amounts)
    looks: tuple[dict[str, Any], ...] = (
        {"threshold": 0.2},
        {"gamma": 0.4},
        {"gamma": 2.0, "most": 1.0},
        {"zoom": ((1, 3), (0, 2))},
        {"zoom": ((0, 1), (1, 4)), "threshold": 0.25, "gamma": 0.5},
    )
    for look in looks:
        root = svg(CLEAN, "map", "encoder", 1, 2, **look)
        limit = max(weights.max(), look.get("most", 0))
        rows, columns = look.get("zoom", ((0, 99), (0, 99)))
        part = weights[slice(*rows), slice(*columns)]
        part = np.where(part < look.get("threshold", 0), 0, part)
        steps = np.round((part / limit) ** look.get("gamma", 1) * 254).astype(int)
        assert shapes(groups(root, "cells-")) == (steps > 0).sum(), look
        assert colours(groups(root, "cells-")) == {shades[n] for n in steps[steps > 0]}, look
        assert f"{limit:.2g}" in words(root), look
    most = max(float(run.attention("cross", layer=1)[2].max()) for run in (CLEAN, WARM))
    for run in (CLEAN, WARM):  # both sides of a change share their scale
        assert f"{most:.2g}" in words(svg(run, "map", "cross", 1, 2, most=most))


# ---- lines and atlas -----------------------------------------------------------------------------


def test_lines_draw_every_link_from_a_hundredth() -> None:
    sharp = make_trace(temperature=0.3)
    for block in ("encoder", "cross"):
        content = printed(sharp, "lines", "svg", block, 1, 2)
        weights = sharp.attention(block, layer=1)[2].astype(np.float64)
        drawn = weights >= 0.01
        root = tree(content)
        assert shapes(groups(root, "lines")) == drawn.sum(), block
        left = f"{(~drawn).sum()}, {weights[~drawn].sum() / weights.sum():.1%} of all weight"
        assert f"Lines below 0.01 are left out: {left}." in content.decode()
        wanted = sorted(0.4 + 2.0 * weights[drawn])
        assert np.allclose(sorted(widths(root)), wanted, atol=1e-5), block
    weights = CLEAN.attention("encoder", layer=1)[2]
    for top in (1, 2):  # the strongest of each word alone
        content = printed(CLEAN, "lines", "svg", "encoder", 1, 2, top=top)
        kept = (np.sort(weights, axis=1)[:, -top:] >= 0.01).sum()
        assert shapes(groups(tree(content), "lines")) == kept, top
        assert f"at most {top} lines" in content.decode()


def widths(root: ElementTree.Element) -> list[float]:
    drawn = ElementTree.tostring(groups(root, "lines")[0], "unicode")
    return [float(width) for width in re.findall(r"stroke-width: ([\d.]+)", drawn)]


def test_lines_of_several_heads_and_of_changes() -> None:
    root = svg(CLEAN, "lines", "cross", 1, 2)
    places = {text.text: float(text.get("y", "nan")) for text in root.iter(f"{SVG}text")}
    above = [places[label] for label in ("the", "c", "at", "the (2)")]  # source above target
    assert max(above) < min(places[label] for label in ("die", "Ka", "tze"))
    content = printed(CLEAN, "lines", "svg", "cross", 0, 0, also=((1, 1), (1, 2)))
    root, heads = tree(content), ((0, 0), (1, 1), (1, 2))
    total = sum((CLEAN.attention("cross", layer=n)[h] >= 0.01).sum() for n, h in heads)
    assert shapes(groups(root, "lines")) == total
    for mark in (b"#0072b2", b"#e69f00", b"#009e73", b"stroke-dasharray"):
        assert mark in content
    assert {"L0 H0", "L1 H1", "L1 H2"} <= set(words(root))
    assert next(root.iter(f"{SVG}title")).text == "Cross-attention L0 H0, L1 H1, L1 H2"
    heads = ((0, 0), (1, 2))  # changes share one scale
    root = svg(WARM, "lines", "cross", 0, 0, also=heads[1:], before=CLEAN)
    changes = [difference(cells(WARM, "cross", *h), cells(CLEAN, "cross", *h)) for h in heads]
    limit = max(np.abs(change).max() for change in changes)
    assert {f"less, −{limit:.2g}", f"more, +{limit:.2g}"} <= set(words(root))
    widest = 0.4 + 2.0 * np.abs(changes[0]).max() / limit
    assert max(widths(root)) == pytest.approx(widest, abs=1e-5)


def test_an_atlas_has_every_head_and_follows_the_look() -> None:
    root = svg(CLEAN, "atlas", "encoder")
    tiles = CLEAN.thumbnail("encoder").astype(np.float32)
    parts = tiles / tiles.max(axis=(2, 3), keepdims=True)  # each head on its own scale
    assert shapes(groups(root, "cells-")) == (np.round(parts * 254) > 0).sum()
    assert {"L0", "L1", "H0", "H1", "H2"} <= set(words(root))

    def outlines(content: bytes) -> list[str | None]:
        found = groups(tree(content), "cells-")
        return [path.get("d") for group in found for path in group.iter(f"{SVG}path")]

    plain = outlines(printed(CLEAN, "atlas", "svg", "cross"))
    looks: tuple[tuple[dict[str, Any], str], ...] = (
        ({"threshold": 0.3}, "below 0.3"),
        ({"gamma": 0.5}, "power 0.5"),
        ({"common": True}, "one scale for all heads"),
    )
    for look, said in looks:
        content = printed(CLEAN, "atlas", "svg", "cross", **look)
        assert said in content.decode() and outlines(content) != plain, look


@pytest.mark.slow
def test_long_texts_are_pooled_and_words_stay_words() -> None:
    side = -(-300 // SIDE)
    pooled = "Pooled: a cell is the largest of up to 2 × 2 weights."
    for tokens, picture, said in (
        (300, ("map", "svg", "encoder", 0, 1), pooled),
        (300, ("atlas", "svg", "encoder"), f"up to {side} × {side} weights"),
    ):
        assert said in printed(long_trace(tokens), *picture).decode(), picture
    few = printed(long_trace(MAX_SIDE_CELLS // 4), "map", "svg", "encoder", 0, 1)
    assert "Pooled" not in few.decode()
    # Words are never read as formulas or markup.
    names = ("$x^2$", "</text><script>alert(1)</script>", "日本", "🙂", "&amp;")
    hostile = replace(CLEAN, source=replace(CLEAN.source, labels=names))
    root = svg(hostile, "map", "encoder", 0, 0)
    assert not list(root.iter(f"{SVG}script"))
    assert {"$x^2$", "&amp;", "日本"} <= set(words(root))
    for kind in ("png", "pdf"):
        assert printed(hostile, "lines", kind, "encoder", 0, 0)


# ---- what stays the same, and what is refused ----------------------------------------------------


@pytest.mark.slow
def test_threads_get_the_same_bytes_and_settings_stay() -> None:
    before = dict(matplotlib.rcParams)
    found: dict[str, bytes] = {}

    def draw(kind: str) -> None:
        found[kind] = printed(CLEAN, "map", kind, "cross", 1, 2)

    threads = [threading.Thread(target=draw, args=(kind,)) for kind in ("svg", "pdf", "png")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(matplotlib.rcParams) == before
    assert found == {kind: printed(CLEAN, "map", kind, "cross", 1, 2) for kind in found}


def test_what_cannot_be_printed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"picture": "grid"}, "no picture 'grid'"),
        ({"kind": "gif"}, "becomes svg, png or pdf; got 'gif'"),
        ({"width": 3}, "60 to 1000 millimetres"),
        ({"picture": "lines", "also": [(0, n) for n in range(9)]}, "1 to 8 heads"),
        ({"before": replace(CLEAN, source=CLEAN.target)}, "different words"),
        ({"zoom": ((2, 99), (0, 1))}, "from 2 to 99 was asked for"),
        ({"head": 9}, "heads 0 to 2; got 9"),
    )
    for look, said in cases:
        place = {"picture": "map", "kind": "svg", "block": "cross", "layer": 1, "head": 2} | look
        with pytest.raises((ValueError, LookupError), match=said):
            printed(CLEAN, **place)
    with pytest.raises(ValueError, match="more than 256 words"):
        printed(long_trace(257), "lines", "svg", "encoder", 0, 0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "transformer_viz.views.paper.sheet", raising=False)
    monkeypatch.delattr("transformer_viz.views.paper.sheet", raising=False)
    with pytest.raises(ValueError, match="pip install matplotlib"):
        printed(CLEAN, "map", "svg", "cross", 1, 2)
