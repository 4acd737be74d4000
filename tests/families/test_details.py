"""What holds for some families: stacks, experts, cut links, norms' places, models left alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from tests.support import device
from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.capture.handlers.sinusoids import drawn, stored
from transformer_viz.capture.lineage import KEY
from transformer_viz.capture.module_names import Names
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
)
from transformer_viz.core.sites import Site

from . import hands, laws
from .catalogue import (
    BERT,
    BOTH,
    BY_NAME,
    HEADS,
    LAYERS,
    SMALL,
    SOURCE,
    VOCABULARY,
    answer,
    built,
    copied,
    inputs,
    real,
    run,
)
from .laws import clean, far, watched

pytestmark = pytest.mark.families
TWO_STACKS = ("t5", "bart", "marian", "whisper")
WAYS = ("eager", "sdpa")


def test_the_model_stays_as_it_was() -> None:
    for name in ("bert", "gpt2", "llama", "t5", "mixtral"):
        family = BY_NAME[name]
        model = built(family, "sdpa")
        before = {k: v.clone() for k, v in model.state_dict().items()}
        config = copy.deepcopy(model.config.to_dict())
        attributes = [sorted(vars(module)) for module in model.modules()]
        watched(model, family, Temperature(value=2))
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items()), name
        assert model.config.to_dict() == config, name
        assert [sorted(vars(module)) for module in model.modules()] == attributes, name
        hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
        assert not hooks, name


def test_sites_norms_and_sums_of_both_stacks() -> None:
    for name in TWO_STACKS:
        family = BY_NAME[name]
        for implementation in WAYS:
            seen, _ = clean(family, implementation)
            expected = {Site(stack, kind, n) for _, stack, kind in BOTH for n in range(LAYERS)}
            assert set(seen.sites) == expected, (name, implementation)
            assert len(seen.attentions) == len(expected)
            assert {a.heads for a in seen.attentions} == {HEADS}
            own = [a for a in seen.attentions if a.kind == "self"]
            assert all(a.path.removeprefix("model.").startswith(a.stack) for a in own)
        seen, _ = clean(family)
        sums = {(r.site.stack, r.site.block) for r in seen.residuals}
        assert sums >= {("encoder", "self"), ("decoder", "self"), ("decoder", "cross")}, name
        assert sums >= {("encoder", "feed_forward"), ("decoder", "feed_forward")}, name
        stacks = {
            ("encoder" if "encoder." in r.path else "decoder"): r.stack
            for r in seen.norms
            if r.stack
        }
        assert stacks == {"encoder": "encoder", "decoder": "decoder"}, name


def test_residual_lengths_are_those_of_the_hidden_states() -> None:
    for name in ("bert", "gpt2", "llama", "t5"):
        family = BY_NAME[name]
        seen, _ = clean(family)
        out = run(built(family), family, output_hidden_states=True)
        states = out.hidden_states if hasattr(out, "hidden_states") else out.encoder_hidden_states
        if name == "bert":  # its states are normed after the sums
            states = states[:1]
        stack = seen.attentions[0].stack
        lengths = [
            r.norm
            for r in seen.residuals
            if r.site.stack == stack and r.site.block in ("embedding", "feed_forward")
        ]
        for state, length in list(zip(states, lengths, strict=False))[:2]:
            assert far(length, torch.linalg.vector_norm(state, dim=-1)) <= 1e-5, name


def test_only_attention_is_taken_for_attention() -> None:
    seen, _ = clean(BY_NAME["albert"])  # layers share one module
    assert len({a.path for a in seen.attentions}) == 1
    assert [a.layer for a in seen.attentions] == [0, 1, 2]
    for name in ("mixtral", "jamba", "gpt_oss"):  # routers and the output's softmax
        family = BY_NAME[name]
        with probe(built(family)) as watching:
            run(built(family), family).logits.softmax(-1)
        assert len(watching.attentions) == 2, name
        assert not any("mlp" in a.path or "router" in a.path for a in watching.attentions), name


def test_weights_of_chosen_experts_are_no_values() -> None:
    """On a graphics card the library makes the matrices of each token's experts."""
    for name in ("gpt_oss", "mixtral", "jamba"):
        family = BY_NAME[name]
        model = copied(family)
        for count in (SOURCE, 1):
            seen = []
            for way in ("grouped_mm", "batched_mm"):
                model.set_experts_implementation(way)
                with torch.no_grad(), probe(model) as watching:
                    model(input_ids=inputs(family)["input_ids"][:1, :count])
                seen.append(watching.attentions)
            one, other = seen
            assert [a.path for a in one] == [a.path for a in other] and one, (name, count)
            for a, b in zip(one, other, strict=True):
                assert far(a.weights, b.weights) <= 1e-5, (name, count)


def test_runs_that_differ_from_one_plain_call() -> None:
    with probe(built(BY_NAME["bert"])) as seen, torch.no_grad():  # inputs made inside
        ids = device.placed(torch.cat((torch.randint(3, 60, (1, 4)), torch.full((1, 2), 5)), dim=1))
        built(BY_NAME["bert"])(ids)
    assert [a.shape for a in seen.attentions] == [(6, 6)] * LAYERS
    family = BY_NAME["bart"]
    with probe(built(family)) as seen:  # two passes
        first, second = (answer(run(built(family), family)) for _ in range(2))
    assert torch.equal(first, second)
    assert [str(a.site) for a in seen.attentions[:6]] == [str(a.site) for a in seen.attentions[6:]]
    assert {a.offset for a in seen.attentions} == {0}
    # No mark is left on any tensor.
    family = BY_NAME["gptj"]
    model, given = built(family), inputs(family)
    want = CaptureRequest(positions=True, check=True)
    seen, out = watched(model, family, Temperature(value=2), want=want)
    owned = [*model.parameters(), *model.buffers(), *given.values(), out.logits]
    caches = [x for layer in out.past_key_values.layers for x in (layer.keys, layer.values)]
    captured = [record.weights for record in seen.attentions]
    left = [x for x in (*owned, *caches, *captured) if x is not None]
    assert not any(name.startswith(KEY) for x in left for name in vars(x))
    copy.deepcopy(out.logits)


def test_edits_that_few_families_take() -> None:
    family = BY_NAME["xlnet"]  # a silenced head is its part of the projection
    _, out = watched(built(family), family, ScaleHead(value=0, layer=1, head=1))
    model = copied(family)
    model.layer[1].rel_attn.o.data[:, 1] = 0
    assert far(answer(out), answer(run(model, family))) <= 1e-5
    for name in ("gpt2", "llama", "bert"):  # hidden keys and cut links are masked cells
        family = BY_NAME[name]
        causal = family.maps[0][1] == "decoder"
        mask = hands.visible(
            family,
            lambda query, key, causal=causal: (
                (key != 2) & ~((query == 4) & (key == 1)) & ((key <= query) | (not causal))
            ),
        )
        edits = (BlockKeys(keys=(2,)), BlockEdges(edges=((4, 1),)))
        for implementation in WAYS:
            assert laws.masked(family, implementation, edits, mask) <= 1e-5, (name, implementation)
    for name in ("gpt2", "bert", "t5"):  # a uniform head sees all visible keys alike
        family = BY_NAME[name]
        for implementation in WAYS:
            seen, _ = watched(built(family, implementation), family, UniformHead(head=2))
            weights = seen.attentions[0].weights[:, 2]
            visible = (clean(family, implementation)[0].attentions[0].weights[:, 2] > 0).float()
            expected = visible / visible.sum(-1, keepdim=True)
            assert far(real(weights, 1), real(expected, 1)) <= 1e-6, (name, implementation)
    # An edit of no site names the sites.
    for name in ("bert", "gpt2", "t5"):
        family = BY_NAME[name]
        with pytest.raises(ValueError, match=r"L1 \(4 heads\)"):
            watched(built(family), family, ScaleHead(value=0, layer=7))
        with pytest.raises(ValueError, match=r"4 heads"):
            watched(built(family), family, Temperature(value=2, head=SOURCE))


def test_models_without_a_map_say_so() -> None:
    def made(name: str, **words: Any) -> nn.Module:
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **words)
        return getattr(transformers, f"{name}Model")(config).eval()

    ids = torch.randint(3, VOCABULARY, (2, 8))
    model = made("Mamba", hidden_size=32, num_hidden_layers=2, state_size=4)
    with torch.no_grad(), probe(model) as seen:
        out = model(ids)
    assert seen.attentions == [] and "no attention was seen" in seen.unrecognised[0]
    with torch.no_grad():
        assert torch.equal(out[0], model(ids)[0])
    warm = Intervention((Temperature(value=2),))
    with pytest.raises(ValueError, match="it has none"), probe(model, warm):
        model(ids)
    model = made("Longformer", attention_window=[4, 4], **BERT, **SMALL)  # bands, no matrices
    with torch.no_grad(), probe(model) as seen:
        model(ids)
    assert seen.attentions == []
    assert any("encoder.layer.1.attention.self" in line for line in seen.unrecognised)


# ---- angles read back from stored sines and cosines ----------------------------------------------

ROWS, STEPS = 61, torch.tensor([1.0, 0.31, 0.01, 0.0004])
ANGLES = torch.arange(ROWS)[:, None] * STEPS


def holding(*tables: torch.Tensor) -> nn.Module:
    """A module with some tables for buffers."""
    module = nn.Module()
    for number, table in enumerate(tables):
        module.register_buffer(f"table_{number}", table)
    return module


def test_angles_are_read_back() -> None:
    twice = torch.cat((ANGLES, ANGLES), 1)
    for case, tables in {
        "two": (ANGLES.sin(), ANGLES.cos()),
        "halves": (torch.cat((ANGLES.sin(), ANGLES.cos()), 1)[None],),
        "repeated": (twice.cos()[None, None], twice.sin()),
        "complex": (torch.polar(torch.ones_like(ANGLES), ANGLES),),
    }.items():
        module = holding(*tables)
        waves = stored(Names(module).tensors)
        assert set(waves) == {id(x) for x in module.buffers()}, case
        for table in module.buffers():
            wave = waves[id(table)]
            assert wave.shape == table.shape, case
            angle = wave.real.reshape(ROWS, -1)
            assert (angle - ANGLES.repeat(1, angle.shape[1] // 4)).abs().max() < 1e-4, case
            assert (drawn(wave.imag.long(), wave.real) - table).abs().max() < 1e-4, case
    for rows in (1024, 8192):  # small frequencies of cosines cannot be told from their first rows
        for width in (64, 128):
            steps = 1 / 10000 ** (torch.arange(0, width, 2).double() / width)
            angles = torch.arange(rows)[:, None] * steps
            angles = torch.cat((angles, angles), 1)
            module = holding(angles.cos().float(), angles.sin().float(), angles.sin().float())
            waves = stored(Names(module).tensors)
            assert len(waves) == 3
            for table in module.buffers():  # of up to 8,191 radians
                assert (waves[id(table)].real - angles).abs().max() < 1e-2, (rows, width)


def test_other_tables_are_no_waves_and_changed_ones_are_read_anew() -> None:
    lower = torch.tril(torch.ones(9, 9))
    for table in (torch.ones(9, 4), torch.eye(9), lower, torch.randn(9, 4), ANGLES):
        assert stored(Names(holding(table)).tensors) == {}, table
    module = holding(ANGLES.sin(), ANGLES.cos())
    first, again = (stored(Names(module).tensors) for _ in range(2))
    assert first and all(torch.equal(first[n], again[n]) for n in first)
    with torch.inference_mode():
        inside = stored(Names(module).tensors)
    assert not any(wave.is_inference() for wave in inside.values())
    slower = ANGLES / 2
    with torch.no_grad():
        for table, values in zip(module.buffers(), (slower.sin(), slower.cos()), strict=True):
            table.copy_(values)
    for wave in stored(Names(module).tensors).values():
        assert (wave.real - slower).abs().max() < 1e-4
    module.table_0[7] += 0.5
    assert id(module.table_0) not in stored(Names(module).tensors)
