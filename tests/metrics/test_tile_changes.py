"""Tiles of a difference against the full matrices of both runs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import transformer_viz as tv
from tests.support import long_models
from transformer_viz.core.interventions import (
    BlockKeys,
    Edit,
    Intervention,
    Temperature,
    Window,
)
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.attention import tile_changes, tile_pyramid
from transformer_viz.metrics.attention.tile_pyramid import Square

TOKENS = 1100
CLOSE = 2e-6
EDITS: dict[str, tuple[Edit, ...]] = {
    "temperature": (Temperature(value=2.0),),
    "window": (Window(radius=40),),
    "hidden words": (BlockKeys(keys=(3, 700)),),
}


@lru_cache(maxsize=8)
def run(layout: str, keep: str, edit: str = "") -> Trace:
    model = tv.load(long_models.made(layout))
    edits = Intervention(EDITS[edit] if edit else ())
    return tv.trace(model, long_models.ids(TOKENS), keep=(keep,), check=False, intervention=edits)


def signed_largest(change: np.ndarray, step: int) -> np.ndarray:
    """The change of largest size under each cell; 0 stands beyond the edges."""
    padded = np.pad(change, [(0, -size % step) for size in change.shape])
    high, wide = (size // step for size in padded.shape)
    cells = padded.reshape(high, step, wide, step).swapaxes(1, 2).reshape(high, wide, -1)
    at = np.abs(cells).argmax(-1)
    return np.take_along_axis(cells, at[..., None], -1)[..., 0]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("layout", ["gpt2", "mistral", "bloom"])
def test_a_tile_is_the_difference_of_the_matrices(layout: str, edit: str) -> None:
    last = run(layout, "tiles").layers("decoder") - 1
    site = Site(*MAPS["decoder"], last, 1)
    now, was = (run(layout, "weights", one).attention("decoder", last)[1] for one in (edit, ""))
    change = now - was
    tiles = run(layout, "tiles", edit), run(layout, "tiles")
    assert np.abs(change).max() > 1e-3
    for square in (Square(0, 4, 1), Square(0, 0, 0), Square(0, 4, 4)):
        found, hidden = tile_changes.part(*tiles, site, square)
        place = tile_pyramid.within(change.shape, square)
        assert np.abs(found - change[place]).max() <= CLOSE
        assert not found[hidden].any()
    found, _ = tile_changes.part(*tiles, site, Square(3, 0, 0))
    wanted = signed_largest(change, 8)
    assert np.abs(np.abs(found) - np.abs(wanted)).max() <= CLOSE
    clear = np.abs(wanted) > 1e-4
    assert (np.abs(found - wanted)[clear] <= CLOSE).mean() > 0.999  # but where two sizes are alike
    assert (found < 0).any() and (found > 0).any()


def test_the_whole_that_is_kept_gives_the_same_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_pyramid, "KEPT", 256)
    monkeypatch.setattr(tile_changes, "CELLS", 10_000)
    tiles, site = (
        (run("gpt2", "tiles", "temperature"), run("gpt2", "tiles")),
        Site(*MAPS["decoder"], 0, 1),
    )
    shape = tiles[0].map_shape("decoder", 0)
    kept = tile_changes.whole(*tiles, site, lambda done, of: None)
    assert max(kept[0].shape) <= 256
    level = tile_pyramid.kept_level(shape)
    for square in [Square(level, 0, 0)]:
        cut, direct = tile_changes.cut(kept, shape, square), tile_changes.part(*tiles, site, square)
        assert np.array_equal(cut[0], direct[0]) and np.array_equal(cut[1], direct[1])


def test_colours_end_where_two_in_a_hundred_changes_are_larger() -> None:
    tiles, site = (
        (run("gpt2", "tiles", "temperature"), run("gpt2", "tiles")),
        Site(*MAPS["decoder"], 1, 1),
    )
    now, was = (
        run("gpt2", "weights", one).attention("decoder", 1)[1] for one in ("temperature", "")
    )
    sizes = np.abs(now - was)
    wanted = float(np.quantile(sizes[sizes > 0], 0.98))
    every = tile_changes.colour_end(*tiles, site, rows=TOKENS)
    assert abs(every - wanted) <= 1e-4 * wanted + CLOSE
    assert 0.5 < tile_changes.colour_end(*tiles, site) / wanted < 2
    assert tile_changes.colour_end(tiles[1], tiles[1], site) == 1.0


def test_runs_of_other_lengths_have_no_difference() -> None:
    model = tv.load(long_models.made("gpt2"))
    padded = tv.trace(
        model, long_models.ids(TOKENS - 4), keep=("tiles",), check=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"1,096 × 1,096 weights now and had 1,100 × 1,100"):
        tile_changes.part(
            padded, run("gpt2", "tiles"), Site(*MAPS["decoder"], 0, 0), Square(0, 0, 0)
        )
