"""A report is never green for an attention that is missed, misnumbered or shown in part."""

from __future__ import annotations

import pytest
import torch

import transformer_viz as tv
from tests.foreign import blind_spots
from transformer_viz.core.trace_parts import Report

IDS = [int(n) for n in torch.randperm(40, generator=torch.Generator().manual_seed(2))[:12]]


def report_of(make) -> Report:
    torch.manual_seed(0)
    return tv.trace(tv.load(blind_spots.strong(make())), IDS).report


#: Kind and first word of the styles that try each order of tokens.
WAYS = (("keys", "keys"), ("keys", "queries"), ("rows", "tokens"), ("causal", "tokens"))


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["unseen", "keys", "rows", "causal", "windows"])
def test_no_style_is_green(kind, every):
    """Each order of tokens in two of the four ways; in all of them in soak."""
    left = {
        (one, f"{word} {order}")
        for number, order in enumerate(blind_spots.ORDERS)
        for way, (one, word) in enumerate(WAYS)
        if (number + way) % 2 and not every
    }
    models = blind_spots.models()
    assert left <= set(models)
    styles = {name: models[one, name] for one, name in models.keys() - left if one == kind}
    assert len(styles) >= 10
    green = [name for name, make in styles.items() if report_of(make).status == "green"]
    assert not green


@pytest.mark.slow
def test_what_is_shown_rightly_stays_green():
    reports = {name: report_of(make) for name, make in blind_spots.SOUND.items()}
    wrong = {name: report for name, report in reports.items() if report.status != "green"}
    assert not wrong, {n: (r.broken, r.untold, r.unrecognised) for n, r in wrong.items()}


def test_an_attention_that_runs_beside_another_one_is_named():
    for name, make in blind_spots.BESIDE.items():
        report = report_of(make)
        assert report.status == "amber", name
        assert any("ran beside it and is not shown" in said for said in report.untold), name


def test_tokens_that_a_convolution_moves_are_in_no_order():
    for name, make in blind_spots.SHIFTED.items():
        broken = report_of(make).broken.values()
        assert any("token order" in laws for laws in broken), name
