"""Every family is proved on an input of its own: kernels, axes and edits, at every place."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz import trace
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.inspection import sample_source, sample_target

from . import table
from .catalogue import FAMILIES


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_report_is_green_and_nothing_is_left_out(family):
    model = table.opened(family)
    if not isinstance(model, Model):  # a sentence: nothing is shown, so nothing is proved
        assert family.name in ("whisper", "clip", "swin")
        return
    report = trace(model, sample_source(model), sample_target(model)).report
    assert report.status == "green", (report.broken, report.untold, report.missed)
    assert report.kernels
    assert len(report.laws) == len(set(report.laws))
    gaps = [gap for laws in report.laws.values() for gap in laws.values()]
    assert np.isfinite(np.array(gaps, float)).all()
