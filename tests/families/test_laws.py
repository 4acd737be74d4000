"""Every law on every family, eager and fused: the model's own report, and edits by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests.capture.tiles.law import ALONE, CLOSE, ROUNDED, TILED, apart, named
from tests.given import outputs
from transformer_viz import trace
from transformer_viz.capture import Capture, CaptureRequest
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.numerics import MASK_SCORE
from transformer_viz.core.tiles.edited import EditedMap, beneath
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Report, Tokens
from transformer_viz.inference.capture_to_numpy import (
    attentions_of,
    ordered,
    thumbnails_of,
    to_numpy,
)
from transformer_viz.inference.inspection import sample_source, sample_target
from transformer_viz.metrics.attention.qk_steps import chain

from . import generation, hands, laws, table, test_positions
from .catalogue import DECODER, FAMILIES, Family, built, real
from .laws import clean, far, watched

pytestmark = pytest.mark.families
#: A mask of four dimensions lifts these; the windowed ones take it too.
LIFTABLE = {"gpt2", "gpt_neox", "gptj", "falcon", "mpt", "llama", "mistral", "gemma2", "gpt_oss"}
WINDOWED = LIFTABLE | {"bert", "roberta", "qwen2"}

BIASED = {"mpnet", "bloom", "falcon_alibi", "mpt", "t5", "swin"}
OTHER = {"deberta_v2", "xlnet"}  # products with relative positions beside q·k
GROUPED = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "olmo2", "phi3", "gemma2", "gpt_oss"}
GROUPED |= {"jamba", "falcon"}
TURNED = {"llama", "modernbert", "gptj", "roformer", "gpt_neox", "phi"}
#: No scale at all, or q or k scaled before they meet.
UNSCALED = {"t5", "gpt_neo", "xlm", "xglm", "opt", "whisper", "deberta_v2"}
SINKS = "gpt_oss"  # part of each row's attention goes to no token, so no edited map can be made

TILE_EDITS: dict[str, tuple[Edit, ...]] = {
    "clean": (),
    "temperatures": (Temperature(value=2.0), Temperature(value=0.0, head=1)),
    "window": (Window(radius=2), ScaleHead(value=0.5, head=1), UniformHead(head=0)),
    "cells": (BlockKeys(keys=(2,)), BlockEdges(edges=((4, 1),)), ScaleHead(value=0.0, head=1)),
    "causal off": (Causal(on=False),),
    "causal on": (Causal(on=True),),
}


@cache
def full(family: Family, implementation: str) -> Capture:
    """A clean run with scores, q, k and v, positions and rebuilt outputs."""
    stack = "decoder" if family.maps == DECODER else None  # as a trace asks it of a lone decoder
    every = {"scores": lambda _: True, "qkv": lambda _: True, "positions": True, "check": True}
    want = CaptureRequest(**every, **({"stack": stack} if stack else {}))
    return watched(built(family, implementation), family, want=want)[0]


# ---- capture -------------------------------------------------------------------------------------


def captured_attention_is_reported(family: Family, implementation: str) -> None:
    # Falcon's own fused code rounds ALiBi otherwise than its eager code.
    if (family.name, implementation) != ("falcon_alibi", "sdpa"):
        assert laws.capture(family, implementation) <= 1e-5


def attention_is_far_from_uniform(family: Family, implementation: str) -> None:
    seen, _ = clean(family, implementation)
    peaks = [a.weights.amax(-1).mean() * a.shape[1] for a in seen.attentions]
    assert min(peaks) > 1.3


def watching_changes_nothing(family: Family, implementation: str) -> None:
    assert laws.output(family, implementation) <= (0.0 if implementation == "eager" else 1e-5)


def each_block_is_rebuilt_from_its_weights(family: Family, implementation: str) -> None:
    found = [record.rebuilt for record in full(family, implementation).attentions]
    assert found and all(value is not None and value <= 1e-5 for value in found)


def norms_are_found_with_their_gains(family: Family, implementation: str) -> None:
    if implementation == "sdpa":
        return
    seen, _ = clean(family, implementation)
    records = [record for record in seen.norms if record.statistics["mean"].dim() == 2]
    expected = laws.norms_by_hooks(family)
    assert [record.path for record in records] == [path for path, *_ in expected]
    for record, (_, module, x, out) in zip(records, expected, strict=True):
        assert record.kind == family.norm and record.gain is not None
        assert far(record.gain, module.weight.detach() + family.plus) == 0
        assert (record.bias is None) == (getattr(module, "bias", None) is None)
        statistics = {
            "mean": x.mean(-1),
            "std": x.std(-1, unbiased=False),
            "rms": x.square().mean(-1).sqrt(),
            "input_norm": x.norm(dim=-1),
            "output_norm": out.norm(dim=-1),
            "output_mean": out.mean(-1),
        }
        for name, value in statistics.items():
            assert far(record.statistics[name], value) <= 1e-4, name


def the_report_is_green_and_complete(family: Family, implementation: str) -> None:
    if implementation == "sdpa":  # the model opened from a folder chooses its own code
        return
    model = table.opened(family)
    if not isinstance(model, Model):  # nothing is shown, so nothing is proved
        assert family.name in ("clip", "swin")
        return
    report = trace(model, sample_source(model), sample_target(model)).report
    assert report.status == "green", (report.broken, report.untold, report.missed)
    assert report.kernels
    assert len(report.laws) == len(set(report.laws))
    gaps = [gap for found in report.laws.values() for gap in found.values()]
    assert np.isfinite(np.array(gaps, float)).all()


# ---- edits ---------------------------------------------------------------------------------------


def temperature_is_halved_queries_and_biases(family: Family, implementation: str) -> None:
    assert laws.temperature(family, implementation) <= 1e-5


def silenced_head_is_a_zeroed_slice(family: Family, implementation: str) -> None:
    if family.output:
        assert laws.ablation(family, implementation) <= 1e-5


def edits_of_the_mask_are_a_mask_by_hand(family: Family, implementation: str) -> None:
    if family.name in LIFTABLE:
        mask = hands.visible(family, lambda query, key: key == key + 0 * query)
        assert laws.masked(family, implementation, (Causal(on=False),), mask) <= 1e-5
    if family.name in WINDOWED:
        causal = family.maps[0][1] == "decoder"
        mask = hands.visible(
            family, lambda query, key: ((key - query).abs() <= 1) & ((key <= query) | (not causal))
        )
        assert laws.masked(family, implementation, (Window(radius=1),), mask) <= 1e-5


def temperature_reaches_its_site_and_no_earlier_one(family: Family, implementation: str) -> None:
    if implementation == "sdpa":
        return
    before = clean(family, implementation)[0].attentions
    for _, stack, kind in family.maps:
        edit = Temperature(value=3, stack=stack, block=kind, layer=1, head=1)
        after = watched(built(family), family, edit)[0].attentions
        place = [(a.stack, a.kind, a.layer) for a in before].index((stack, kind, 1))
        pairs = zip(before, after, strict=True)
        changes = [far(real(b.weights, 2), real(a.weights, 2)) for b, a in pairs]
        assert max(changes[:place]) == 0 < 1e-3 < changes[place], (stack, kind)


# ---- tiles ---------------------------------------------------------------------------------------


def tiles_are_pieces_of_the_matrix(family: Family, implementation: str) -> None:
    for name in TILE_EDITS:
        seen = tiled(family, implementation, TILE_EDITS[name])
        if family.name in OTHER:
            assert all(not record.tiles for record in seen.attentions)
            assert all("a further part that the words make" in r.untiled for r in seen.attentions)
        else:
            assert apart(seen) <= CLOSE, name


@cache
def tiled(family: Family, implementation: str, edits: tuple[Edit, ...]) -> Capture:
    return watched(built(family, implementation), family, *edits, want=TILED)[0]


def an_edited_map_is_the_matrix_of_the_edited_run(family: Family, implementation: str) -> None:
    plain = named(watched(built(family, implementation), family, want=ALONE)[0])
    assert bool(plain) is (family.name not in OTHER)
    compared = 0
    for name, edits in TILE_EDITS.items():
        warm = tuple(e for e in edits if not (isinstance(e, Temperature) and not e.value))
        own = Intervention(tuple(dataclasses.replace(e, layer=0, block="self") for e in warm))
        for record in ordered(tiled(family, implementation, warm)):
            tiles = plain.get((record.site.map, record.site.layer))
            if tiles is None or record.site.block != "self" or record.site.layer:
                continue
            weights, scores = record.weights[0].cpu().numpy(), record.scores[0].cpu()
            unit = max(1.0, float(scores[scores > MASK_SCORE].abs().amax()) / ROUNDED)
            for head in range(tiles.heads):
                assert not beneath(own, dataclasses.replace(tiles.site, head=head))
                try:
                    made = EditedMap(tiles, tiles, own, head).pooled(1)[0]
                except LookupError as error:
                    part = tiles.parts[0]
                    assert part.sinks or (name == "causal off" and part.bias is not None), error
                    continue
                off = np.abs(made - np.nan_to_num(weights[head])).max()
                assert off / unit <= CLOSE, (name, record.site.label, head)
                compared += 1
    assert compared or family.name in (*OTHER, SINKS)


# ---- from q·k to the weight ----------------------------------------------------------------------


@cache
def traced(family: Family, implementation: str) -> Trace:
    """The full run as a trace of nothing but its attention; the first input has no padding."""
    run, nobody = full(family, implementation), Tokens((), (), (), (), ())
    kept = ("weights", "scores", "qkv")
    return Trace(
        source=nobody, target=nobody, produced=None, heads=pd.DataFrame(),
        thumbnails=thumbnails_of(run),
        attentions=attentions_of(run, kept, None, "encoder-decoder", None),
        norms=pd.DataFrame(), gains={}, residuals=pd.DataFrame(),
        positions={name: to_numpy(found) for name, found in run.positions.items()},
        logits=None, report=Report((), 0.0, None, {}),
        manifest={"keep": kept, "dtype": "float32"},
    )  # fmt: skip


def steps_add_up_to_the_scores_and_the_weights(family: Family, implementation: str) -> None:
    run, names = traced(family, implementation), set()
    for attention in run.attentions:
        head = min(1, len(attention.weights) - 1)
        places = np.argwhere(np.ones(attention.weights.shape[1:])[::2, ::2]) * 2
        for query, key in places.tolist():
            found = chain(run, attention.site.map, attention.site.layer, head, query, key)
            names |= {step.kind for step in found.steps}
            steps_of_a_cell_add_up(attention, head, query, key, found)
    assert "after" not in names
    assert ("bias" in names) == (family.name in BIASED)
    assert ("other" in names) == (family.name in OTHER)
    assert ("cap" in names) == (family.name == "gemma2")
    assert ("row" in names) == (family.name == "gpt_oss")  # it takes the row's largest score away


def steps_of_a_cell_add_up(attention, head, query, key, found) -> None:
    own = attention.q[head, query].astype(np.float64)
    other = attention.k[head // (len(attention.weights) // len(attention.k)), key]
    total, sizes = own @ other.astype(np.float64), abs(own) @ abs(other)
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


def scale_cap_and_notes_are_those_of_the_run(family: Family, implementation: str) -> None:
    run = traced(family, implementation)
    for attention in run.attentions:
        expected = 1.0 if family.name in UNSCALED else attention.q.shape[-1] ** -0.5
        assert attention.scale == pytest.approx(expected, rel=1e-6)
        assert attention.cap == (50.0 if family.name == "gemma2" else None)
    first = run.attentions[0].site
    notes = " ".join(chain(run, first.map, first.layer, 1, 0, 0).notes)
    assert ("share their keys" in notes) == (family.name in GROUPED)
    assert "rotary" in notes or family.name not in TURNED


LAWS: tuple[Callable[[Family, str], None], ...] = (
    captured_attention_is_reported,
    attention_is_far_from_uniform,
    watching_changes_nothing,
    each_block_is_rebuilt_from_its_weights,
    norms_are_found_with_their_gains,
    the_report_is_green_and_complete,
    temperature_is_halved_queries_and_biases,
    silenced_head_is_a_zeroed_slice,
    edits_of_the_mask_are_a_mask_by_hand,
    temperature_reaches_its_site_and_no_earlier_one,
    tiles_are_pieces_of_the_matrix,
    an_edited_map_is_the_matrix_of_the_edited_run,
    steps_add_up_to_the_scores_and_the_weights,
    scale_cap_and_notes_are_those_of_the_run,
    *test_positions.LAWS,
    *generation.LAWS,
    *outputs.LAWS,
)


def broken(family: Family, implementation: str, chosen=LAWS) -> dict[str, str]:
    """The laws that fail for a family, with what failed."""
    failed = {}
    for law in chosen:
        try:
            law(family, implementation)
        except AssertionError as error:
            failed[law.__name__] = str(error)
    return failed


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_law_holds(family: Family) -> None:
    ways = ("eager", "sdpa") if family.fused else ("eager",)
    failed = {way: found for way in ways if (found := broken(family, way))}
    assert failed == {}
    for kept in (clean, full, tiled, traced):
        kept.cache_clear()
