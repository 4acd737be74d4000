"""What one move of a slider asks of Python: a trace of a short sentence on the shipped model."""

from __future__ import annotations

import torch

from benchmarks.measure import interleaved
from benchmarks.report import Budget, Section
from transformer_viz import Intervention, trace
from transformer_viz.checkpoints import available, load
from transformer_viz.checkpoints.common import native
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Temperature
from transformer_viz.core.sites import Site
from transformer_viz.model import ModelConfig, Transformer

LIMIT = 1.6  # a goal of ours, not of DESIGN
ROWS = 15


def small_model(quick: bool = False) -> Section:
    """CPU time of `trace` with statistics of all heads and one layer's matrices."""
    torch.set_num_threads(1)
    model, name = shipped()
    draw = torch.Generator().manual_seed(0)
    source, target = torch.randint(4, 8000, (2, 1, ROWS), generator=draw)
    site = (Site("decoder", "cross", 1),)
    edit = Intervention((Temperature(value=2.0, stack="decoder", block="cross", layer=1),))

    def alone() -> object:
        with torch.inference_mode():
            return model.calls.forward(source, target)

    def traced(intervention: Intervention) -> object:
        ids = source[0].tolist(), target[0].tolist()
        return trace(model, *ids, intervention=intervention, check=False, only=site)

    calls = {
        "forward alone": alone,
        "trace": lambda: traced(Intervention()),
        "trace, one temperature": lambda: traced(edit),
    }
    times = interleaved(calls, 20 if quick else 100)
    table = [("call", "CPU ms, median", "fastest", "factor")]
    table += [
        (
            call,
            f"{1e3 * t.middle:.1f}",
            f"{1e3 * t.least:.1f}",
            f"x{t.factor:.2f} ({t.factor_least:.2f})",
        )
        for call, t in times.items()
    ]
    notes = (
        f"{name}; {ROWS} source and {ROWS} target tokens, one thread. A trace holds statistics and "
        "thumbnails of all heads, norms, residual sums, tables and the logits; matrices of one "
        "layer. Factors: median of neighbouring runs (in brackets: fastest against fastest)."
    )
    what = "trace of the shipped model over its forward (our own goal)"
    return Section(
        "Slider path in Python", notes, table, [Budget(what, times["trace"].factor, LIMIT, "x")]
    )


def shipped() -> tuple[Model, str]:
    """The model in the box, or its shape with random weights where it is not there."""
    if "en-de" in available():
        return load("en-de", device="cpu"), "The shipped model en-de"
    torch.manual_seed(0)
    words = {"encoder_layers": 3, "decoder_layers": 3, "source_vocab": 8000, "target_vocab": 8000}
    config = ModelConfig(d_model=256, heads=8, d_ff=1024, embedding_scale=16.0, tied="all", **words)
    return native.wrap(Transformer(config)), "A model of the shipped one's shape, random weights"
