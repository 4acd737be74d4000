"""The probe's largest differences, a line a module: ``python -m tests.capture.table``.

Hand-written styles against the float64 oracle; the reference Transformer's five scores against
the same change made by hand (weights, masks), as in test_laws.py.
"""

from __future__ import annotations

import copy

import numpy as np
import torch

from tests.capture import test_laws as laws
from tests.capture.styles import STYLES, example, oracle, ramp
from tests.capture.test_styles import CASES
from tests.conftest import make_module
from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.core.interventions import Causal, Intervention, ScaleHead, Temperature, Window
from transformer_viz.model.config import CHOICES


def style_row(style: type) -> list[float]:
    """Attention and output of the clean run, then the worse of both for every edit."""
    row: list[float] = []
    for name, (edits, words) in CASES.items():
        module = ramp(style())
        x, padding = example()
        with torch.inference_mode(), probe(module, Intervention(edits)) as run:
            out = module(x, padding)
        weights, expected = oracle(module, x, padding, **words)
        attention = float(np.abs(run.attentions[0].weights.numpy() - weights).max())
        output = float(np.abs(out.numpy() - expected).max())
        row += [attention, output] if name == "clean" else [max(attention, output)]
    return row


def score_row(score: str) -> list[float]:
    """Rebuilt output, watched against unwatched, then output of each edit against its law."""
    module = make_module(score=score)
    out, seen = laws.run(module, want=CaptureRequest(check=True))
    row = [
        max(r.rebuilt or 0.0 for r in seen.attentions),
        float((out - laws.plain(module)).abs().max()),
    ]
    warm = copy.deepcopy(module)
    with torch.no_grad():
        for part in warm.modules():
            for parameter in laws.causes(part) if hasattr(part, "score") else ():
                parameter /= 2.0
    silent = copy.deepcopy(module)
    with torch.no_grad():
        silent.encoder.layers[0].self_attention.output.weight[:, :13] = 0
    near = (torch.arange(7)[:, None] - torch.arange(7)).abs() <= 2
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    for edit, expected in (
        (Temperature(value=2.0), laws.plain(warm)),
        (ScaleHead(value=0.0, stack="encoder", layer=0, head=0), laws.plain(silent)),
        (Window(radius=2, stack="encoder"), laws.masked(module, encoder=near)),
        (Causal(on=True, stack="encoder"), laws.masked(module, encoder=lower)),
    ):
        row.append(float((laws.run(module, edit)[0] - expected).abs().max()))
    return row


def line(name: str, row: list[float]) -> str:
    return f"{name:22s}" + "".join(f"{value:12.1e}" for value in row)


def main() -> None:
    print(
        f"{'style':22s}" + "".join(f"{n:>12s}" for n in ("attention", "output", *list(CASES)[1:]))
    )
    for style in STYLES:
        print(line(style.__name__, style_row(style)))
    names = ("rebuilt", "watched", "temperature", "head off", "window", "causal on")
    print(f"\n{'score':22s}" + "".join(f"{name:>12s}" for name in names))
    for score in CHOICES["score"]:
        print(line(score, score_row(score)))


if __name__ == "__main__":
    main()
