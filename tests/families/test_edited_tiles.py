"""The map of a head under edits, made of a run without them, against runs with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.capture.tiles.law import ALONE, CLOSE, ROUNDED, TILED, named
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.numerics import MASK_SCORE
from transformer_viz.core.tiles.edited import EditedMap, beneath
from transformer_viz.inference.capture_to_numpy import ordered

from . import laws
from .catalogue import Family
from .test_capture import EACH, label
from .test_qk import OTHER
from .test_tiles import EDITS

SINKS = "gpt_oss"  # a part of each row's attention goes to no word, so none can be made
pytestmark = pytest.mark.families


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_an_edited_map_is_the_matrix_of_the_edited_run(family: Family, implementation: str) -> None:
    model = laws.built(family, implementation)
    clean = named(laws.watched(model, family, want=ALONE)[0])
    assert bool(clean) is (family.name not in OTHER)
    compared = 0
    for name, edits in EDITS.items():
        warm = (edit for edit in edits if not (isinstance(edit, Temperature) and not edit.value))
        own = tuple(dataclasses.replace(edit, layer=0, block="self") for edit in warm)
        intervention = Intervention(own)
        seen, _ = laws.watched(model, family, *own, want=TILED)
        for record in ordered(seen):
            tiles = clean.get((record.site.map, record.site.layer))
            if tiles is None or record.site.block != "self" or record.site.layer:
                continue
            weights, scores = record.weights[0].cpu().numpy(), record.scores[0].cpu()
            unit = max(1.0, float(scores[scores > MASK_SCORE].abs().amax()) / ROUNDED)
            for head in range(tiles.heads):
                assert not beneath(intervention, dataclasses.replace(tiles.site, head=head))
                try:
                    made = EditedMap(tiles, tiles, intervention, head).pooled(1)[0]
                except LookupError as error:
                    part = tiles.parts[0]
                    assert part.sinks or (name == "causal off" and part.bias is not None), error
                    continue
                off = np.abs(made - np.nan_to_num(weights[head])).max()
                assert off / unit <= CLOSE, (name, record.site.label, head)
                compared += 1
    assert compared or family.name in (*OTHER, SINKS)
