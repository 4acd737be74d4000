"""A long mask is read at sampled places, and kept as edges: the answers stay the same."""

from __future__ import annotations

import numpy as np
import torch

from transformer_viz.capture.axes.layout import Layout
from transformer_viz.capture.handlers.fused_attention import Mask
from transformer_viz.capture.site_numbering import Seen, hides_later, looks_causal, sampled
from transformer_viz.capture.tiles.edges import Edges
from transformer_viz.core.tiles import Visible

LONG, NEW = 2600, 5
QUERY, KEY = torch.arange(LONG)[:, None], torch.arange(LONG)
SEEN = {
    "all": QUERY == QUERY + 0 * KEY,
    "causal": QUERY >= KEY,
    "causal window": (QUERY >= KEY) & (QUERY - KEY < 7),
    "window both ways": (QUERY - KEY).abs() <= 2,
    "picture first": (QUERY >= KEY) | ((QUERY < 1500) & (KEY < 1500)),
    "padding behind": (QUERY == QUERY) & (KEY < 2000),
    "causal, padding before": (QUERY >= KEY) & (KEY >= 2000),
}


def told(visible: torch.Tensor, offset: int = 0) -> tuple[object, ...]:
    """What the whole mask says, and what its sample says."""
    queries, keys = visible.shape
    layout = Layout(("b", "h", "q", "k"), (1, 1, queries, keys))
    mask = Mask.__new__(Mask)
    mask.causal, mask.bias, mask.changed, mask.keys = False, None, False, keys
    mask.hidden = layout.canonical(~visible[None, None])
    answers = []
    for seen in (Seen.all(~visible), mask.sample(queries, keys)):
        answers.append((looks_causal(seen, offset), hides_later(seen, offset)))
    return tuple(answers)


def test_a_sample_of_a_mask_says_what_the_whole_says():
    for name, visible in SEEN.items():
        whole, some = told(visible)
        assert whole == some, name
    assert len(sampled(LONG)) < LONG
    whole, some = told(SEEN["causal"][-NEW:], LONG - NEW)  # rows behind a cache
    assert whole == some == (True, True)


def test_masks_come_back_from_their_edges():
    for heads in (1, 3):
        draw = torch.Generator().manual_seed(heads)
        visible = torch.rand(heads, 23, 31, generator=draw) > 0.4
        visible[:, 5], visible[:, 6] = False, True
        edges = Edges()
        for first in range(0, 23, 4):
            edges.add(visible[:, first : first + 4])
        found = Visible(*(x.numpy() for x in edges.result()))
        for head in range(heads):
            for rows, columns in ((slice(0, 23), slice(0, 31)), (slice(4, 9), slice(11, 12))):
                wanted = visible[head, rows, columns].numpy()
                np.testing.assert_array_equal(found.tile(head, rows, columns), wanted)
    short, whole = Edges(), Edges()
    short.add_causal(0, 9)
    short.add_causal(9, 20)
    whole.add(torch.ones(3, 20, 20).tril() > 0)
    for one, other in zip(short.result(), whole.result(), strict=True):
        assert torch.equal(one, other)
