"""Tiles of a difference against the full matrices of both runs."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import pytest

import transformer_viz as tv
from tests.support import long_models
from tests.support.refusals import refuses
from transformer_viz.core.interventions import BlockKeys, Edit, Intervention, Temperature, Window
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.attention import tile_changes, tile_pyramid
from transformer_viz.metrics.attention.tile_pyramid import Square

TOKENS = 1100
CLOSE = 2e-6
EDITS: dict[str, tuple[Edit, ...]] = {
    "": (),
    "temperature": (Temperature(value=2.0),),
    "window": (Window(radius=40),),
    "hidden words": (BlockKeys(keys=(3, 700)),),
}


@lru_cache(maxsize=8)
def run(layout: str, keep: str, edit: str = "", tokens: int = TOKENS) -> Trace:
    model, edits = tv.load(long_models.made(layout)), Intervention(EDITS[edit])
    return tv.trace(model, long_models.ids(tokens), keep=(keep,), check=False, intervention=edits)


def change_of(layout: str, edit: str, layer: int) -> np.ndarray:
    """Return what an edit changes in head 1 of a layer, from the weights of both runs."""
    now, was = (run(layout, "weights", one).attention("decoder", layer)[1] for one in (edit, ""))
    return now - was


def both(edit: str = "temperature") -> tuple[Trace, Trace]:
    return run("gpt2", "tiles", edit), run("gpt2", "tiles")


def signed_largest(change: np.ndarray, step: int) -> np.ndarray:
    """Return the change of largest size under each cell; 0 stands beyond the edges."""
    padded = np.pad(change, [(0, -size % step) for size in change.shape])
    high, wide = (size // step for size in padded.shape)
    cells = padded.reshape(high, step, wide, step).swapaxes(1, 2).reshape(high, wide, -1)
    at = np.abs(cells).argmax(-1)
    return np.take_along_axis(cells, at[..., None], -1)[..., 0]


@pytest.mark.slow
def test_a_tile_is_the_difference_of_the_matrices():
    for case in product(("gpt2", "mistral", "bloom"), [edit for edit in EDITS if edit]):
        layout, edit = case
        last = run(layout, "tiles").layers("decoder") - 1
        site, change = Site(*MAPS["decoder"], last, 1), change_of(layout, edit, last)
        tiles = run(layout, "tiles", edit), run(layout, "tiles")
        assert np.abs(change).max() > 1e-3, case
        for square in (Square(0, 4, 1), Square(0, 0, 0), Square(0, 4, 4)):
            found, hidden = tile_changes.part(*tiles, site, square)
            place = tile_pyramid.within(change.shape, square)
            assert np.abs(found - change[place]).max() <= CLOSE, (case, square)
            assert not found[hidden].any(), (case, square)
        found, _ = tile_changes.part(*tiles, site, Square(3, 0, 0))
        wanted = signed_largest(change, 8)
        assert np.abs(np.abs(found) - np.abs(wanted)).max() <= CLOSE, case
        clear = np.abs(wanted) > 1e-4  # but where two sizes are alike
        assert (np.abs(found - wanted)[clear] <= CLOSE).mean() > 0.999, case
        assert (found < 0).any() and (found > 0).any(), case


def test_the_whole_that_is_kept_gives_the_same_tiles(monkeypatch):
    monkeypatch.setattr(tile_pyramid, "KEPT", 256)
    monkeypatch.setattr(tile_changes, "CELLS", 10_000)
    tiles, site = both(), Site(*MAPS["decoder"], 0, 1)
    shape = tiles[0].map_shape("decoder", 0)
    kept = tile_changes.whole(*tiles, site, lambda done, of: None)
    assert max(kept[0].shape) <= 256
    square = Square(tile_pyramid.kept_level(shape), 0, 0)
    cut, direct = tile_changes.cut(kept, shape, square), tile_changes.part(*tiles, site, square)
    assert np.array_equal(cut[0], direct[0]) and np.array_equal(cut[1], direct[1])


def test_colours_end_where_two_in_a_hundred_changes_are_larger():
    tiles, site = both(), Site(*MAPS["decoder"], 1, 1)
    sizes = np.abs(change_of("gpt2", "temperature", 1))
    wanted = float(np.quantile(sizes[sizes > 0], 0.98))
    every = tile_changes.colour_end(*tiles, site, rows=TOKENS)
    assert abs(every - wanted) <= 1e-4 * wanted + CLOSE
    assert 0.5 < tile_changes.colour_end(*tiles, site) / wanted < 2
    assert tile_changes.colour_end(tiles[1], tiles[1], site) == 1.0
    # runs of other lengths have no difference
    said = r"1,096 × 1,096 weights now and had 1,100 × 1,100"
    shorter = run("gpt2", "tiles", tokens=TOKENS - 4)
    refuses(said, tile_changes.part, shorter, tiles[1], site, Square(0, 0, 0))
