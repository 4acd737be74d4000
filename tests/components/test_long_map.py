"""Where the colours of a long map end, of thumbnails that one can count by hand."""

from __future__ import annotations

import numpy as np

from transformer_viz.components.long_map import colour_end


def test_colours_end_at_the_98th_percentile_of_what_is_seen() -> None:
    small = np.tril(np.full((64, 64), 5, np.uint8))
    small[0, 0], small[1, :2] = 255, 128  # the first rows have few words to look at
    assert colour_end(small) == {"most": 5 / 255, "largest": 1.0}
    small[np.tril_indices(64)] = np.arange(2080) // 21 + 1  # 1 to 100, 21 of each, 1 of 100
    small[0, 0] = 255
    assert colour_end(small)["most"] == np.percentile(small[small > 0], 98) / 255


def test_of_weights_that_are_near_each_other_they_end_at_the_largest() -> None:
    small = np.full((64, 64), 100, np.uint8)
    small[3, 3] = 120
    assert colour_end(small) == {"most": 120 / 255, "largest": 120 / 255}
    assert colour_end(np.zeros((4, 4), np.uint8)) == {"most": 1.0, "largest": 1.0}
