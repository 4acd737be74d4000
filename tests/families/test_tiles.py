"""Tiles of every family, eager and fused, against the matrices of the same pass."""

from __future__ import annotations

import pytest

from tests.capture.tiles.law import CLOSE, TILED, apart
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)

from . import laws
from .catalogue import Family
from .test_capture import EACH, label
from .test_qk import OTHER

pytestmark = pytest.mark.families
EDITS: dict[str, tuple[Edit, ...]] = {
    "clean": (),
    "temperatures": (Temperature(value=2.0), Temperature(value=0.0, head=1)),
    "window": (Window(radius=2), ScaleHead(value=0.5, head=1), UniformHead(head=0)),
    "cells": (BlockKeys(keys=(2,)), BlockEdges(edges=((4, 1),)), ScaleHead(value=0.0, head=1)),
    "causal off": (Causal(on=False),),
    "causal on": (Causal(on=True),),
}


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_tiles_are_pieces_of_the_matrix(family: Family, implementation: str) -> None:
    for edits in EDITS.values():
        seen, _ = laws.watched(laws.built(family, implementation), family, *edits, want=TILED)
        if family.name in OTHER:
            assert all(not record.tiles for record in seen.attentions)
            assert all("a further part that the words make" in r.untiled for r in seen.attentions)
        else:
            assert apart(seen) <= CLOSE
