"""Pictures for print: true outlines and words, read back by other libraries."""

from __future__ import annotations

import io
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


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("dark", [False, True])
def test_another_library_renders_the_svg(name: str, dark: bool) -> None:
    content = printed(CLEAN, *PICTURES[name], dark=dark)
    picture = Image.open(io.BytesIO(cairosvg.svg2png(bytestring=content))).convert("RGB")
    assert picture.width == pytest.approx(WIDTH * 96 / 72, abs=2)
    card = (DARK if dark else LIGHT).card
    assert "#{:02X}{:02X}{:02X}".format(*picture.getpixel((2, 2))) == card
    drawn = np.asarray(picture).reshape(-1, 3)
    assert len(np.unique(drawn, axis=0)) > 40
    assert 0.02 < (drawn != drawn[0]).any(axis=1).mean() < 0.98


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_outlines_and_words_with_its_manifest_inside(name: str) -> None:
    root = tree(printed(CLEAN, *PICTURES[name]))
    assert not list(root.iter(f"{SVG}image"))
    assert root.get("role") == "img"
    assert words(root)
    dc = "{http://purl.org/dc/elements/1.1/}"
    title, said = (next(root.iter(SVG + tag)).text for tag in ("title", "desc"))
    assert title and title.startswith("Cross-attention")
    assert said and HONEST in said and "Model by hand; clean run" in said
    metadata = next(root.iter(f"{SVG}metadata"))
    (subject,) = metadata.iter(f"{dc}subject")
    about = json.loads("".join(subject.itertext()))
    assert (about["picture"], about["block"]) == (name, "cross")
    assert about["caption"] == said
    assert about["run"] == CLEAN.manifest


def test_every_visible_cell_of_a_map_is_an_outline_of_its_colour() -> None:
    root = tree(printed(CLEAN, "map", "svg", "decoder", 1, 2))
    weights = CLEAN.attention("decoder", layer=1)[2]
    seen = np.tril(np.ones((4, 4), bool))
    steps = np.round(weights[seen] / weights.max() * 254).astype(int)
    shades = sheet.shades(LIGHT.amounts)
    assert shapes(groups(root, "cells-")) == (steps > 0).sum()
    assert colours(groups(root, "cells-")) == {shades[step] for step in steps if step}
    assert shapes(groups(root, "masked")) >= 3
    assert {"die", "Ka", "tze", "</s>", "<s>", f"{weights.max():.2g}"} <= set(words(root))
    assert "masked: may not look there" in words(root)


def test_a_map_stands_where_its_words_stand() -> None:
    boxes = sheet.grid(10, 20, 300, 120, (4, 5))
    assert np.allclose(boxes[0], [10, 20, 59.5, 29.5])
    assert np.allclose(boxes[-1], [250, 110, 59.5, 29.5])
    dense = sheet.grid(0, 0, 10, 10, (10, 10))
    assert (dense[:, 2:] > 1).all()  # no seams where there is no room for gaps


def test_colours_are_the_palette_s_between_its_stops() -> None:
    shades = sheet.shades(LIGHT.amounts, 255)
    stop = dict(zip(np.linspace(0, 254, len(LIGHT.amounts)), LIGHT.amounts, strict=True))
    for place in (0, 127, 254):
        assert shades[place] == stop[place]
    near, far = (int(shades[n][1:3], 16) for n in (42, 43))
    wanted = 0xDC + (0xB3 - 0xDC) * (43 / 254 * 6 - 1)
    assert near >= far == round(wanted)
    assert sheet.levels(np.array([0, 0.4, 0.8, np.nan]), 0.8, False).tolist() == [0, 127, 254, -1]
    assert sheet.levels(np.array([-0.2, 0, 0.2]), 0.2, True).tolist() == [0, 127, 254]


def test_other_ramps_draw_zero_too() -> None:
    root = tree(printed(CLEAN, "map", "svg", "decoder", 1, 2, ramp="viridis"))
    assert shapes(groups(root, "cells-")) == 10
    assert colours(groups(root, "cells-")) <= set(sheet.shades(ramps()["viridis"]))


def test_a_difference_is_drawn_around_zero() -> None:
    content = printed(WARM, "map", "svg", "cross", 1, 2, before=CLEAN)
    change = difference(cells(WARM, "cross", 1, 2), cells(CLEAN, "cross", 1, 2))
    limit = np.abs(change).max()
    steps = np.round((change / limit + 1) / 2 * 254).astype(int)
    shades = sheet.shades(LIGHT.changes)
    drawn = colours(groups(tree(content), "cells-"))
    assert drawn == {shades[step] for step in steps.reshape(-1) if step != 127}
    assert {f"−{limit:.2g}", f"+{limit:.2g}"} <= set(words(tree(content)))
    assert "change since the other run" in content.decode()


def test_edits_stand_in_the_caption_and_in_the_manifest() -> None:
    edits = Intervention((Temperature(value=2.5, stack="decoder", block="cross", layer=1),))
    run = {"intervention": edits.to_json()}
    edited = replace(WARM, intervention=edits, manifest=WARM.manifest | run)
    content = printed(edited, "map", "svg", "cross", 1, 2, words=True, special=False)
    said = next(tree(content).iter(f"{SVG}desc")).text or ""
    assert "cross L1: temperature 2.5" in said
    assert "Special tokens are hidden" in said and "merged to words" in said
    assert "temperature" in content.decode().partition("<metadata>")[2].partition("</metadata>")[0]


@pytest.mark.parametrize("block", ["encoder", "cross"])
def test_lines_draw_every_link_from_a_hundredth(block: str) -> None:
    sharp = make_trace(temperature=0.3)
    content = printed(sharp, "lines", "svg", block, 1, 2)
    weights = sharp.attention(block, layer=1)[2].astype(np.float64)
    drawn = weights >= 0.01
    root = tree(content)
    assert shapes(groups(root, "lines")) == drawn.sum()
    left = f"{(~drawn).sum()}, {weights[~drawn].sum() / weights.sum():.1%} of all weight"
    assert f"Lines below 0.01 are left out: {left}." in content.decode()
    widths = re.findall(
        r"stroke-width: ([\d.]+)", ElementTree.tostring(groups(root, "lines")[0], "unicode")
    )
    wanted = sorted(0.4 + 2.0 * weights[drawn])
    assert np.allclose(sorted(map(float, widths)), wanted, atol=1e-5)


def test_the_source_stands_above_the_target() -> None:
    root = tree(printed(CLEAN, "lines", "svg", "cross", 1, 2))
    places = {text.text: float(text.get("y", "nan")) for text in root.iter(f"{SVG}text")}
    above = [places[label] for label in ("the", "c", "at", "the (2)")]
    below = [places[label] for label in ("die", "Ka", "tze")]
    assert max(above) < min(below)


def test_several_heads_have_their_own_colours_and_dashes() -> None:
    content = printed(CLEAN, "lines", "svg", "cross", 0, 0, also=((1, 1), (1, 2)))
    root = tree(content)
    total = sum((CLEAN.attention("cross", layer=n)[h] >= 0.01).sum() for n, h in ((0, 0), (1, 1), (1, 2)))  # fmt: skip  # noqa: E501
    assert shapes(groups(root, "lines")) == total
    text = content.decode()
    assert all(colour in text for colour in ("#0072b2", "#e69f00", "#009e73"))
    assert "stroke-dasharray" in text
    assert {"L0 H0", "L1 H1", "L1 H2"} <= set(words(root))
    assert next(root.iter(f"{SVG}title")).text == "Cross-attention L0 H0, L1 H1, L1 H2"


def test_changes_as_lines_share_one_scale() -> None:
    heads = ((0, 0), (1, 2))
    content = printed(WARM, "lines", "svg", "cross", 0, 0, also=heads[1:], before=CLEAN)
    changes = [difference(cells(WARM, "cross", *h), cells(CLEAN, "cross", *h)) for h in heads]
    limit = max(np.abs(change).max() for change in changes)
    assert {f"less, −{limit:.2g}", f"more, +{limit:.2g}"} <= set(words(tree(content)))
    drawn = ElementTree.tostring(groups(tree(content), "lines")[0], "unicode")
    widths = list(map(float, re.findall(r"stroke-width: ([\d.]+)", drawn)))
    assert max(widths) == pytest.approx(0.4 + 2.0 * np.abs(changes[0]).max() / limit, abs=1e-5)


def test_an_atlas_has_every_head_on_its_own_scale() -> None:
    root = tree(printed(CLEAN, "atlas", "svg", "encoder"))
    tiles = CLEAN.thumbnail("encoder").astype(np.float32)
    parts = tiles / tiles.max(axis=(2, 3), keepdims=True)
    assert shapes(groups(root, "cells-")) == (np.round(parts * 254) > 0).sum()
    assert {"L0", "L1", "H0", "H1", "H2"} <= set(words(root))


@pytest.mark.slow
def test_what_is_pooled_is_said() -> None:
    said = printed(long_trace(300), "map", "svg", "encoder", 0, 1).decode()
    assert "Pooled: a cell is the largest of up to 2 × 2 weights." in said
    said = printed(long_trace(300), "atlas", "svg", "encoder").decode()
    assert f"up to {-(-300 // SIDE)} × {-(-300 // SIDE)} weights" in said
    assert (
        "Pooled"
        not in printed(long_trace(MAX_SIDE_CELLS // 4), "map", "svg", "encoder", 0, 1).decode()
    )


@pytest.mark.parametrize("name", PICTURES)
def test_png_of_300_dots_an_inch_with_its_manifest(name: str) -> None:
    picture, _, *place = PICTURES[name]
    read = Image.open(io.BytesIO(printed(CLEAN, picture, "png", *place)))
    assert read.width == pytest.approx(160 / 25.4 * 300, abs=2)
    assert read.info["dpi"] == pytest.approx((300, 300), abs=1)
    assert json.loads(read.info["manifest"])["picture"] == name
    assert read.info["Title"].startswith("Cross-attention")
    assert len(read.convert("RGB").getcolors(1 << 24)) > 40


def test_png_shows_the_colour_of_the_strongest_cell() -> None:
    read = Image.open(io.BytesIO(printed(CLEAN, "map", "png", "encoder", 1, 2))).convert("RGB")
    found = {colour for count, colour in read.getcolors(1 << 24) if count > 500}
    last = LIGHT.amounts[-1]
    assert tuple(int(last[at : at + 2], 16) for at in (1, 3, 5)) in found


@pytest.mark.parametrize("name", PICTURES)
def test_pdf_has_vectors_words_and_keywords(name: str) -> None:
    picture, _, *place = PICTURES[name]
    content = printed(CLEAN, picture, "pdf", *place)
    assert content.startswith(b"%PDF-1.4")
    assert b"/Subtype /Image" not in content
    assert b"/FontFile2" in content  # a TrueType font, so that words can be searched
    (keywords,) = re.findall(rb"/Keywords \(((?:\\.|[^\\)])*)\)", content, re.DOTALL)
    assert json.loads(re.sub(rb"\\(.)", rb"\1", keywords))["picture"] == name


@pytest.mark.slow
def test_the_same_picture_gives_the_same_bytes() -> None:
    for kind in ("svg", "png", "pdf"):
        assert printed(CLEAN, "map", kind, "cross", 1, 2) == printed(
            CLEAN, "map", kind, "cross", 1, 2
        )


def test_words_are_never_read_as_formulas_or_markup() -> None:
    names = ("$x^2$", "</text><script>alert(1)</script>", "日本", "🙂", "&amp;")
    hostile = replace(CLEAN, source=replace(CLEAN.source, labels=names))
    root = tree(printed(hostile, "map", "svg", "encoder", 0, 0))
    assert not list(root.iter(f"{SVG}script"))
    shown = words(root)
    assert "$x^2$" in shown and "&amp;" in shown and "日本" in shown
    for kind in ("png", "pdf"):
        assert printed(hostile, "lines", kind, "encoder", 0, 0)


def test_settings_of_matplotlib_stay_as_they_were() -> None:
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


def test_without_matplotlib_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "transformer_viz.views.paper.sheet", raising=False)
    monkeypatch.delattr("transformer_viz.views.paper.sheet", raising=False)
    with pytest.raises(ValueError, match="pip install matplotlib"):
        printed(CLEAN, "map", "svg", "cross", 1, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"picture": "grid"}, "no picture 'grid'"),
        ({"kind": "gif"}, "becomes svg, png or pdf; got 'gif'"),
        ({"width": 3}, "60 to 1000 millimetres"),
        ({"picture": "lines", "also": [(0, n) for n in range(9)]}, "1 to 8 heads"),
        ({"before": replace(CLEAN, source=CLEAN.target)}, "different words"),
    ],
)
def test_what_cannot_be_printed_is_said(words: dict[str, Any], said: str) -> None:
    place = {"picture": "map", "kind": "svg", "block": "cross", "layer": 1, "head": 2} | words
    with pytest.raises(ValueError, match=said):
        printed(CLEAN, **place)


def test_lines_between_too_many_words_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 256 words"):
        printed(long_trace(257), "lines", "svg", "encoder", 0, 0)
    with pytest.raises(LookupError, match="heads 0 to 2; got 9"):
        printed(CLEAN, "map", "svg", "cross", 0, 9)


def test_a_map_follows_the_look_of_the_screen() -> None:
    """Threshold, gamma, the enlarged part and the end of the colours, by the screen's own rule."""
    weights = CLEAN.attention("encoder", layer=1)[2].astype(np.float64)
    shades = sheet.shades(LIGHT.amounts)
    for look in (
        {"threshold": 0.2},
        {"gamma": 0.4},
        {"gamma": 2.0, "most": 1.0},
        {"zoom": ((1, 3), (0, 2))},
        {"zoom": ((0, 1), (1, 4)), "threshold": 0.25, "gamma": 0.5},
    ):
        root = tree(printed(CLEAN, "map", "svg", "encoder", 1, 2, **look))  # type: ignore[arg-type]
        limit = max(weights.max(), look.get("most", 0))
        rows, columns = look.get("zoom", ((0, 99), (0, 99)))  # type: ignore[misc]
        part = weights[slice(*rows), slice(*columns)]
        part = np.where(part < look.get("threshold", 0), 0, part)
        steps = np.round((part / limit) ** look.get("gamma", 1) * 254).astype(int)
        assert shapes(groups(root, "cells-")) == (steps > 0).sum(), look
        assert colours(groups(root, "cells-")) == {shades[n] for n in steps[steps > 0]}, look
        assert f"{limit:.2g}" in words(root), look


def test_the_run_of_a_change_and_the_run_before_share_their_scale() -> None:
    most = max(float(run.attention("cross", layer=1)[2].max()) for run in (CLEAN, WARM))
    ends = [
        f"{most:.2g}" in words(tree(printed(run, "map", "svg", "cross", 1, 2, most=most)))
        for run in (CLEAN, WARM)
    ]
    assert ends == [True, True]


def test_only_the_strongest_lines_of_each_word_are_drawn() -> None:
    weights = CLEAN.attention("encoder", layer=1)[2]
    for top in (1, 2):
        content = printed(CLEAN, "lines", "svg", "encoder", 1, 2, top=top)
        drawn = (np.sort(weights, axis=1)[:, -top:] >= 0.01).sum()
        assert shapes(groups(tree(content), "lines")) == drawn, top
        assert f"at most {top} lines" in content.decode()


def test_an_atlas_follows_threshold_gamma_and_a_common_scale() -> None:
    plain = printed(CLEAN, "atlas", "svg", "cross")
    for look, said in (
        ({"threshold": 0.3}, "below 0.3"),
        ({"gamma": 0.5}, "power 0.5"),
        ({"common": True}, "one scale for all heads"),
    ):
        content = printed(CLEAN, "atlas", "svg", "cross", **look)  # type: ignore[arg-type]
        assert said in content.decode(), look
        cells_drawn, plainly = (
            [p.get("d") for g in groups(tree(c), "cells-") for p in g.iter(f"{SVG}path")]
            for c in (content, plain)
        )
        assert cells_drawn != plainly, look


def test_a_part_that_the_map_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="from 2 to 99 was asked for"):
        printed(CLEAN, "map", "svg", "cross", 1, 2, zoom=((2, 99), (0, 1)))
