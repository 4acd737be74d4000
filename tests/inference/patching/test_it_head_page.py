"""docs/it-head.md is what was measured, and its sums are right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from training.tables import it_head, it_head_page
from training.tables.pronouns import read


def test_the_page_is_what_was_measured():
    kept = json.loads(it_head.KEPT.read_text(encoding="utf-8"))
    assert it_head.PAGE.read_text(encoding="utf-8") == it_head_page.page(kept, list(kept))
    found = kept[list(kept)[-1]]
    assert found["pairs"] == len(it_head.pairs(read())) and 0 < found["told_apart"] <= 60
    assert len(found["heads"]) == it_head.SHOWN
    moved = [one["moved"] for one in found["heads"]]
    assert moved == sorted(moved, reverse=True)
    assert all(one["low"] <= one["moved"] <= one["high"] for one in found["heads"])
    assert found["together"][0]["moved"] == moved[0]
    kinds = found["kinds"].values()
    assert sum(one["pairs"] for one in kinds) == found["told_apart"]
    for place, mean in enumerate(moved):  # the kinds add up to the whole
        total = sum(one["pairs"] * one["heads"][place]["moved"] for one in kinds)
        assert total / found["told_apart"] == pytest.approx(mean, abs=1e-3)
    kept = json.loads(it_head.KEPT.read_text(encoding="utf-8"))
    name = list(kept)[-1]
    picture = kept[name]["picture"]
    for turned, said in ((0, "not reached"), (picture["pairs"], "reached")):
        changed = {name: kept[name] | {"picture": picture | {"turned": turned}}}
        first = it_head_page.page(changed, [name]).split("## Its link")[0]
        assert f"**{said}**" in first
    assert it_head_page.sign_test(0, 0) == 1
    assert it_head_page.sign_test(1, 0) == 1
    assert it_head_page.sign_test(6, 0) == pytest.approx(2 / 64)
    assert it_head_page.sign_test(3, 3) == 1
    draws = np.random.default_rng(0).integers(0, 2, (200_000, 9)).sum(1)
    uneven = np.mean(np.minimum(draws, 9 - draws) <= 1)
    assert it_head_page.sign_test(8, 1) == pytest.approx(float(uneven), abs=0.005)
