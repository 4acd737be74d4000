"""From q·k to the weight in every family: each number adds up, and what is added has its name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from transformer_viz.capture import CaptureRequest
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Report, Tokens
from transformer_viz.inference.capture_to_numpy import attentions_of, thumbnails_of, to_numpy
from transformer_viz.metrics.attention.qk_steps import chain

from . import laws
from .catalogue import DECODER, Family, built
from .test_capture import EACH, label

pytestmark = pytest.mark.families
ALL = CaptureRequest(scores=lambda _: True, qkv=lambda _: True, positions=True)
LONE = replace(ALL, stack="decoder")  # as a trace asks it of a decoder-only model
WORDS = ("weights", "scores", "qkv")
BIASED = {"mpnet", "bloom", "falcon_alibi", "mpt", "t5", "swin"}
OTHER = {"deberta_v2", "xlnet"}  # products with relative positions beside q·k
GROUPED = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "olmo2", "phi3", "gemma2", "gpt_oss"}
GROUPED |= {"jamba", "falcon"}
TURNED = {"llama", "modernbert", "gptj", "roformer", "gpt_neox", "phi"}
UNSCALED = {"t5", "gpt_neo"}
SCALED_BEFORE = {"xlm", "xglm", "opt", "whisper", "deberta_v2"}  # q or k, before they meet


@cache
def traced(family: Family, implementation: str) -> Trace:
    """A family's run as a trace of nothing but its attention; the first input has no padding."""
    want = LONE if family.maps == DECODER else ALL
    run, _ = laws.watched(built(family, implementation), family, want=want)
    nobody = Tokens((), (), (), (), ())
    return Trace(
        source=nobody,
        target=nobody,
        produced=None,
        heads=pd.DataFrame(),
        thumbnails=thumbnails_of(run),
        attentions=attentions_of(run, WORDS, None, "encoder-decoder", None),
        norms=pd.DataFrame(),
        gains={},
        residuals=pd.DataFrame(),
        positions={name: to_numpy(table) for name, table in run.positions.items()},
        logits=None,
        report=Report((), 0.0, None, {}),
        manifest={"keep": WORDS, "dtype": "float32"},
    )


def cells(run: Trace):
    """Some cells of every block."""
    for attention in run.attentions:
        head = min(1, len(attention.weights) - 1)
        for query in range(0, attention.weights.shape[1], 2):
            for key in range(0, attention.weights.shape[2], 2):
                yield attention, head, query, key


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_each_number_adds_up_to_the_scores_and_the_weights(family, implementation) -> None:
    run = traced(family, implementation)
    names = set()
    for attention, head, query, key in cells(run):
        found = chain(run, attention.site.map, attention.site.layer, head, query, key)
        names |= {step.kind for step in found.steps}
        own = attention.q[head, query].astype(np.float64)
        group = len(attention.weights) // len(attention.k)
        dot = own @ attention.k[head // group, key].astype(np.float64)
        total, sizes = dot, abs(own) @ abs(attention.k[head // group, key])
        for step in found.steps[1:]:
            if step.kind == "scale":
                total *= step.amount
            elif step.kind == "cap":
                total = step.amount * np.tanh(total / step.amount)
            elif step.kind in ("bias", "row", "other"):
                total += step.amount
        score = float(attention.scores[head, query, key])
        if found.seen[key]:
            assert abs(total - score) <= 1e-5 * max(sizes, abs(score))
        else:
            assert score <= -1e3 and found.steps[-1].result == 0
        row = attention.scores[head, query].astype(np.float64)  # with a sink, where there is one
        weights = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        shown = float(attention.weights[head, query, key])
        assert abs(weights[key] - shown) <= 1e-5
        assert abs(found.steps[-1].result - shown) <= 1e-5
    assert "after" not in names
    assert ("bias" in names) == (family.name in BIASED)
    assert ("other" in names) == (family.name in OTHER)
    assert ("cap" in names) == (family.name == "gemma2")
    assert ("row" in names) == (family.name == "gpt_oss")  # it takes the row's largest score away


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_the_scale_is_the_one_of_the_run(family, implementation) -> None:
    run = traced(family, implementation)
    one = family.name in UNSCALED | SCALED_BEFORE
    for attention in run.attentions:
        expected = 1.0 if one else attention.q.shape[-1] ** -0.5
        assert attention.scale == pytest.approx(expected, rel=1e-6)
        assert attention.cap == (50.0 if family.name == "gemma2" else None)


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_what_is_said_of_q_and_k(family, implementation) -> None:
    run = traced(family, implementation)
    first = run.attentions[0]
    notes = " ".join(chain(run, first.site.map, first.site.layer, 1, 0, 0).notes)
    assert ("share their keys" in notes) == (family.name in GROUPED)
    if family.name in TURNED:
        assert "rotary" in notes
