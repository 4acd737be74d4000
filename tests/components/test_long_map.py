"""Where the colours of a long map end, of thumbnails that one can count by hand."""

from __future__ import annotations

import numpy as np

from transformer_viz.components.long_map import colour_end


def test_colours_end_at_the_98th_percentile_of_what_is_seen() -> None:
    small = np.tril(np.full((64, 64), 5, np.uint8))
    small[0, 0], small[1, :2] = 255, 128  # the first rows have few words to look at
    assert colour_end(small) == {"most": 5 / 255, "largest": 1.0}
    seen = np.sort(small[small > 0])
    place = 0.98 * (len(seen) - 1)
    small[np.tril_indices(64)] = np.arange(len(seen)) % 200 + 1
    ordered = np.sort(small[small > 0]).astype(float)
    low, high = ordered[int(place)], ordered[int(place) + 1]
    assert low / 255 <= colour_end(small)["most"] <= max(low, high) / 255


def test_of_weights_that_are_near_each_other_they_end_at_the_largest() -> None:
    small = np.full((64, 64), 100, np.uint8)
    small[3, 3] = 120
    assert colour_end(small) == {"most": 120 / 255, "largest": 120 / 255}
    assert colour_end(np.zeros((4, 4), np.uint8)) == {"most": 1.0, "largest": 1.0}
