"""The probe on hand-written modules: clean, and under every edit of scores and weights."""

from __future__ import annotations

import numpy as np
import torch

from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    Temperature,
    Window,
)

from .styles import STYLES, example, oracle, ramp

CASES = {
    "clean": ((), {}),
    "temperature": (
        (Temperature(value=2.0), Temperature(value=0.5, head=1)),
        {"temperature": (2.0, 0.5)},
    ),
    "scale": ((ScaleHead(value=0.0, head=0), ScaleHead(value=1.5, head=1)), {"scale": (0.0, 1.5)}),
    "window": ((Window(radius=1),), {"window": 1}),
    "hide": ((BlockKeys(keys=(2,)),), {"keys": (2,)}),
    "all": (
        (Temperature(value=3.0), Window(radius=2), ScaleHead(value=0.25, head=1)),
        {"temperature": (3.0, 3.0), "window": 2, "scale": (1.0, 0.25)},
    ),
    "causal off": ((Causal(on=False),), {"causal": False}),
}


def run(style, edits, want=None):
    module = ramp(style())
    x, padding = example()
    with torch.inference_mode():
        plain = module(x, padding)
        with probe(module, Intervention(edits), want) as seen:
            out = module(x, padding)
    return module, x, padding, plain, out, seen


def test_weights_and_output_equal_the_oracle():
    for style in STYLES:
        for case, (edits, words) in CASES.items():
            module, x, padding, _, out, seen = run(style, edits)
            weights, expected = oracle(module, x, padding, **words)
            (record,) = seen.attentions
            named = f"{style.__name__}, {case}"
            np.testing.assert_allclose(record.weights.numpy(), weights, atol=3e-6, err_msg=named)
            np.testing.assert_allclose(out.numpy(), expected, atol=3e-6, err_msg=named)


def test_a_watched_clean_run_changes_nothing():
    for style in STYLES:
        *_, plain, out, seen = run(style, (), CaptureRequest(check=True, qkv=lambda s: True))
        torch.testing.assert_close(out, plain, atol=1e-6, rtol=0)
        (record,) = seen.attentions
        place = record.stack, record.kind, record.layer, record.heads
        assert place == ("decoder", "self", 0, 2), style
        assert record.rebuilt is not None and record.rebuilt < 1e-6, style
        assert record.q.shape == record.k.shape == record.v.shape == (3, 2, 7, 7), style
        assert len(seen.residuals) == 2 and not seen.unrecognised, style
