"""The report of a long run in a real browser, offline: its tiles against the full matrices."""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support import long_models
from tests.support.scripts import script
from transformer_viz.components.bundle import bundle
from transformer_viz.core.trace import Trace
from transformer_viz.views.export.html_report import report

from .test_report import Offline, colours, offline, painted

__all__ = ["offline"]
#: Tokens of the text: more than the window of the layout that has one.
TOKENS, FEWER = 1500, 1030
CLOSE = 2e-6
TARGET = [0, 5, 6, 7, 8, 9, 30, 31]
EDITS = (
    '[{"kind": "temperature", "value": 0.0, "head": 0}, {"kind": "uniform_head", "head": 1}, '
    '{"kind": "window", "radius": 40}, {"kind": "block_keys", "keys": [3]}]'
)
BOOK = bundle("report/report.js").replace("startReport();\n", "", 1)


@cache
def both(layout: str, edits: str = "") -> tuple[Trace, Trace]:
    """The same run with tiles and with matrices, under edits as JSON."""
    model, words = (
        tv.load(long_models.made(layout)),
        long_models.ids(TOKENS if layout == "gpt2" else FEWER),
    )
    target = TARGET if layout == "t5" else None
    more: dict[str, Any] = {"target": target, "check": False}
    if edits:
        more["intervention"] = tv.Intervention.from_json(f'{{"edits": {edits}}}')
    tiled, whole = (tv.trace(model, words, keep=(keep,), **more) for keep in ("tiles", "weights"))
    return tiled, whole


def tiles(page: Page, place: tuple[str, int, int], squares: list[tuple[int, ...]], run: int = 0):
    """What the page computes: weights and masks ``[row, column]`` of each tile."""
    page.evaluate(f"() => {{ {BOOK}\n globalThis.module_report_book = module_report_book; }}")
    found = page.evaluate(script("tiles_of_report"), [run, place, squares])
    for one in found:
        yield tuple(
            np.frombuffer(base64.b64decode(one[name]), kind).reshape(one["shape"])
            for name, kind in (("weights", np.float32), ("masked", np.uint8))
        )


def pooled(weights: np.ndarray, level: int, row: int, column: int) -> np.ndarray:
    """The largest of the weights under each cell of a tile, by the matrix."""
    step, side = 2**level, 256 * 2**level
    part = weights[row * side : (row + 1) * side, column * side : (column + 1) * side]
    rows, columns = (np.arange(0, size, step) for size in part.shape)
    return np.maximum.reduceat(np.maximum.reduceat(part, rows, axis=0), columns, axis=1)


def size_of_heads(content: str) -> int:
    """How many letters the packed heads of a page have."""
    return sum(map(len, re.findall(r'id="tv-part-\d+">([^<]*)<', content)))


@pytest.mark.parametrize("half", [0, 1])
def test_tiles_are_pieces_of_the_matrix(half: int, offline: Offline) -> None:
    for layout in [*long_models.LAYOUTS][half::2]:
        _tiles_are_pieces(layout, offline)


def _tiles_are_pieces(layout: str, offline: Offline) -> None:
    tiled, whole = both(layout)
    page = offline.open(report(tiled))
    painted(page)
    seen = 0
    for block in tiled.maps:
        layer = tiled.layers(block) - 1
        head = int(tiled.head_counts(block)[layer]) - 1
        weights = whole.attention(block, layer)[head]
        rows, columns = weights.shape
        last = (0, (rows - 1) // 256, (columns - 1) // 256)
        squares = [(0, 0, 0), last, (0, last[1], last[2] // 2), (1, last[1] // 2, 0)]
        most = 3 if max(weights.shape) > 512 else 0
        squares += [(2, 0, 0), (most, 0, 0)] if most else []
        for square, (found, masked) in zip(
            squares, tiles(page, (block, layer, head), squares), strict=True
        ):
            wanted = pooled(weights, *square)
            coarse = float(weights.max()) / 65535 if square[0] == 3 else 0.0
            assert found.shape == wanted.shape, (layout, square)
            assert np.abs(found - wanted).max() <= CLOSE + coarse, (layout, square)
            side = 256 * 2 ** square[0]
            ends = zip(square[1:], weights.shape, strict=True)
            part = (slice(side * n, min(side * (n + 1), m)) for n, m in ends)
            _, hidden = tiled.pooled(block, layer, head, 2 ** square[0], *part)
            assert np.array_equal(masked > 0, hidden), (layout, square)
            seen += int(found.any())
    assert seen >= 3


def test_edits_runs_and_half_the_size(offline: Offline) -> None:
    # edits belong to the tiles
    tiled, whole = both("gpt2", EDITS)
    page = offline.open(report(tiled))
    painted(page)
    for head in (0, 1):
        weights = whole.attention("decoder", 0)[head]
        for square, (found, _) in zip(
            [(0, 0, 0), (1, 1, 1)],
            tiles(page, ("decoder", 0, head), [(0, 0, 0), (1, 1, 1)]),
            strict=True,
        ):
            assert np.abs(found - pooled(weights, *square)).max() <= CLOSE
    # half the size is off by no more than it says
    tiled, whole = both("gpt2")
    small, full = (report(tiled, precision=precision) for precision in ("int16", "float32"))
    assert size_of_heads(small) < 0.8 * size_of_heads(full)
    said = re.findall(r"off by at most ([\d.]+)% of itself", small)
    page = offline.open(small)
    painted(page)
    weights = whole.attention("decoder", 1)[1]
    ((found, _),) = tiles(page, ("decoder", 1, 1), [(0, 5, 1)])
    wanted = pooled(weights, 0, 5, 1)
    off = np.abs(found - wanted)
    assert (off <= float(said[0]) / 100 * wanted + CLOSE).all()
    assert off.max() > CLOSE  # else it would be no test
    # two runs can be switched
    warm, _ = both("gpt2", '[{"kind": "temperature", "value": 3.0}]')
    clean, whole = both("gpt2")
    page = offline.open(report(warm, clean, opened=("decoder", 0, 1)))
    painted(page)
    expect(page.get_by_role("radio", name="Difference")).to_have_count(0)
    page.get_by_role("radio", name="Before").click()
    ((found, _),) = tiles(page, ("decoder", 0, 1), [(0, 3, 2)], run=1)
    assert np.abs(found - pooled(whole.attention("decoder", 0)[1], 0, 3, 2)).max() <= CLOSE


def test_hands_and_what_is_not_in_the_page(offline: Offline, tmp_path: Path) -> None:
    # the hand comes down to one weight
    tiled, whole = both("gpt2")
    page = offline.open(report(tiled, opened=("decoder", 1, 0)))
    painted(page)
    weights = whole.attention("decoder", 1)[0]
    picture, tip = page.locator(".tv-map .picture"), page.locator(".tv-map .tip")
    expect(page.get_by_role("radio", name="Lines")).to_have_count(0)
    assert colours(page.locator(".tv-map .picture canvas").first) > 5
    picture.focus()
    page.keyboard.press("Home")
    expect(tip).to_contain_text("the largest of 4 × 4 weights")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    for _ in range(9):
        page.keyboard.press("+")
    expect(page.locator(".tv-map .note")).to_contain_text("Every cell is one weight.")
    page.keyboard.press("ArrowRight")
    names = tiled.source.labels
    expect(tip).to_have_text(re.compile(r": 0\.\d{4}$"))
    said = re.fullmatch(r"(.+) → (.+): ([\d.]+)", tip.inner_text())
    assert said and tiled.produced
    rows = [n for n, label in enumerate(tiled.produced.labels) if label == said[1]]
    key = names.index(said[2])
    assert min(abs(float(said[3]) - weights[row, key]) for row in rows) <= 0.51e-4
    page.keyboard.press("Enter")
    expect(page.locator(".tv-map .said")).to_contain_text("looks most at")
    # what is not in the page is said
    tiled, _ = both("gpt2")
    content = report(tiled, heads=[(1, 0)], max_mb=1.2)
    assert len(content.encode()) < 1.2e6
    page = offline.open(content)
    painted(page)
    expect(page.locator("h2")).to_have_text("decoder L1 H0")
    expect(page.locator("footer")).to_contain_text("the cells of 1 of 4 heads")
    page.locator(".tv-atlas .tv-frame").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("h2")).to_have_text("decoder L0 H0")
    note = page.locator(".tv-map .note")
    expect(note).to_contain_text("The cells of this head are not in this page")
    expect(note).to_contain_text("in steps of 1/255")
    # a page too large says so before it is made
    tiled, _ = both("gpt2")
    with pytest.raises(ValueError, match=r"The 4 heads that were chosen take about .* fewer heads"):
        report(tiled, layers=[0, 1], max_mb=0.8)
    with pytest.raises(LookupError, match="There is no layer 2; this run has layers 0 to 1"):
        report(tiled, layers=[2])
    with pytest.raises(ValueError, match="precision is one of float32, int16; got 'float16'"):
        report(tiled, precision="float16")
