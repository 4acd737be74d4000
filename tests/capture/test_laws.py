"""Every edit against its law: the same thing done by hand to weights, masks or tables."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.conftest import ramp
from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.capture.handlers.positions import permutation
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    ShufflePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.model.config import CHOICES

SCORES = CHOICES["score"]
SOURCE = torch.tensor([[5, 17, 6, 29, 8, 3, 11]])
TARGET = torch.tensor([[2, 7, 31, 9, 4]])
PADDED = torch.tensor([[5, 17, 6, 29, 8, 0, 0]])
LATER = torch.ones(5, 5, dtype=torch.bool).triu(1)
CLOSE = {"atol": 2e-6, "rtol": 1e-5}


def run(module, *edits, source=SOURCE, want=None):
    with torch.inference_mode(), probe(module, Intervention(edits), want) as seen:
        out = module(source, TARGET)
    return out, seen


def plain(module, source=SOURCE):
    with torch.inference_mode():
        return module(source, TARGET)


def masked(module, encoder=None, decoder=None, cross=None, source=SOURCE):
    """The model's logits with masks written by hand (true = may look)."""
    padding = module.padding_mask(source)
    encoder = padding if encoder is None else encoder & padding
    cross = padding if cross is None else cross & padding
    decoder = module.causal_mask(TARGET) if decoder is None else decoder
    with torch.inference_mode():
        memory = module.encoder(source, encoder)
        return module.logits(module.decoder(TARGET, decoder, memory, cross))


def causes(attention):
    """The parameters whose division by t divides the scores by t."""
    if attention.score.kind in ("additive", "location"):
        return [attention.score.weight]
    return [attention.query.weight, attention.query.bias]


@pytest.mark.parametrize("score", SCORES)
def test_watching_changes_no_bit(score, build_module):
    module = build_module(score=score)
    out, seen = run(module, want=CaptureRequest(check=True, positions=True, hidden=True))
    assert torch.equal(out, plain(module))
    assert len(seen.attentions) == 7 and not seen.unrecognised
    assert all(record.rebuilt is not None and record.rebuilt < 2e-6 for record in seen.attentions)


@pytest.mark.parametrize("value", [0.5, 2.0, 3.7])
@pytest.mark.parametrize("score", SCORES)
def test_temperature_divides_the_cause_of_the_scores(score, value, build_module):
    module = build_module(score=score)
    out, _ = run(module, Temperature(value=value))
    by_hand = copy.deepcopy(module)
    with torch.no_grad():
        for part in by_hand.modules():
            if hasattr(part, "score"):
                for parameter in causes(part):
                    parameter /= value
    torch.testing.assert_close(out, plain(by_hand), **CLOSE)


@pytest.mark.parametrize("score", SCORES)
def test_temperature_of_one_head_leaves_the_others(score, build_module):
    module = build_module(score=score)
    edit = Temperature(value=2.0, stack="decoder", block="cross", layer=1, head=1)
    out, seen = run(module, edit)
    by_hand = copy.deepcopy(module)
    attention = by_hand.decoder.layers[1].cross_attention
    with torch.no_grad():
        for parameter in causes(attention):
            rows = parameter.shape[0] // 2
            parameter[rows:] /= 2.0
    torch.testing.assert_close(out, plain(by_hand), **CLOSE)
    clean = run(module)[1].attentions[-1].weights
    assert torch.equal(clean[:, 0], seen.attentions[-1].weights[:, 0])


@pytest.mark.parametrize("score", SCORES)
def test_temperature_zero_is_hard_attention(score, build_module):
    module = build_module(score=score)
    _, seen = run(module, Temperature(value=0.0, stack="encoder", layer=0))
    clean = run(module)[1].attentions[0].weights
    hard = seen.attentions[0].weights
    assert torch.equal(hard, nn.functional.one_hot(clean.argmax(-1), 7).float())


@pytest.mark.parametrize("value", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("score", SCORES)
def test_a_scaled_head_is_scaled_columns_of_the_projection(score, value, build_module):
    module = build_module(score=score)
    out, seen = run(module, ScaleHead(value=value, stack="encoder", layer=2, head=1))
    by_hand = copy.deepcopy(module)
    with torch.no_grad():
        by_hand.encoder.layers[2].self_attention.output.weight[:, 13:] *= value
    torch.testing.assert_close(out, plain(by_hand), **CLOSE)
    sums = seen.attentions[2].weights[0].sum(-1)
    np.testing.assert_allclose(sums[1], value, atol=1e-6)
    np.testing.assert_allclose(sums[0], 1.0, atol=1e-6)


@pytest.mark.parametrize("source", [SOURCE, PADDED])
@pytest.mark.parametrize("score", SCORES)
def test_a_uniform_head_looks_at_all_visible_keys_alike(score, source, build_module):
    module = build_module(score=score)
    _, seen = run(module, UniformHead(head=0), source=source)
    visible = float((source != 0).sum())
    expected = (source != 0).float() / visible
    assert torch.allclose(seen.attentions[0].weights[0, 0], expected.expand(7, 7))
    below = torch.ones(5, 5).tril()
    decoder = next(r for r in seen.attentions if str(r.site) == "decoder L1")
    assert torch.allclose(decoder.weights[0, 0], below / below.sum(-1, keepdim=True))


@pytest.mark.parametrize("score", SCORES)
def test_causal_off_keeps_padding_and_causal_on_reaches_the_encoder(score, build_module):
    module = build_module(score=score)
    target = torch.tensor([[2, 7, 31, 9, 0]])  # the last target token is padding
    with torch.inference_mode():
        with probe(module, Intervention((Causal(on=False),))):
            free = module(SOURCE, target)
        memory = module.encoder(SOURCE, module.padding_mask(SOURCE))
        mask = module.padding_mask(target)
        expected = module.logits(module.decoder(target, mask, memory, module.padding_mask(SOURCE)))
    torch.testing.assert_close(free, expected, **CLOSE)
    out, _ = run(module, Causal(on=True, stack="encoder"), source=PADDED)
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    torch.testing.assert_close(out, masked(module, encoder=lower, source=PADDED), **CLOSE)


@pytest.mark.parametrize("radius", [0, 1, 3])
@pytest.mark.parametrize("score", SCORES)
def test_a_window_stands_on_top_of_the_models_mask(score, radius, build_module):
    module = build_module(score=score)
    out, _ = run(module, Window(radius=radius))

    def near(queries, keys):
        return (torch.arange(queries)[:, None] - torch.arange(keys)).abs() <= radius

    expected = masked(module, near(7, 7), near(5, 5) & ~LATER, near(5, 7))
    # A row that the window empties is zero with us and NaN with a mask of -inf.
    expected = torch.where(expected.isnan(), out, expected)
    torch.testing.assert_close(out, expected, **CLOSE)


@pytest.mark.parametrize("score", SCORES)
def test_hidden_words_and_cut_links(score, build_module):
    module = build_module(score=score)
    edits = (
        BlockKeys(keys=(2, 4), stack="encoder"),
        BlockKeys(keys=(2, 4), block="cross"),
        BlockEdges(edges=((3, 1), (4, 0)), stack="decoder", block="self"),
    )
    out, _ = run(module, *edits)
    keys = torch.ones(1, 7, dtype=torch.bool)
    keys[0, [2, 4]] = False
    edges = ~LATER
    edges[3, 1] = edges[4, 0] = False
    torch.testing.assert_close(out, masked(module, keys, edges, keys), **CLOSE)


@pytest.mark.parametrize("score", SCORES)
def test_a_row_that_an_edit_empties_is_zero(score, build_module):
    module = build_module(score=score)
    out, seen = run(module, BlockKeys(keys=tuple(range(7)), stack="encoder", layer=0))
    assert (seen.attentions[0].weights == 0).all()
    assert out.isfinite().all()


@pytest.mark.parametrize("fill", [float("-inf"), -1e9])
def test_a_row_that_the_model_empties_shows_what_the_model_did(fill, build_module):
    module = build_module(mask_fill=fill)
    source = torch.zeros(1, 7, dtype=torch.long)  # nothing but padding
    clean = run(module, source=source)[1].attentions[0].weights
    warm = run(module, Temperature(value=2.0), source=source)[1].attentions[0].weights
    assert torch.allclose(clean, warm, equal_nan=True)
    assert (
        clean.isnan().all()
        if math.isinf(fill)
        else torch.allclose(clean, torch.full_like(clean, 1 / 7))
    )


def test_of_two_edits_the_later_wins_at_each_place(build_module):
    module = build_module()
    wide, narrow = Temperature(value=2.0), Temperature(value=3.0, stack="encoder", layer=1)
    both = run(module, wide, narrow)[1].attentions
    first, second = run(module, wide)[1].attentions, run(module, narrow)[1].attentions
    assert torch.equal(both[0].weights, first[0].weights)
    only_two = run(module, narrow, wide)[1].attentions
    assert torch.equal(only_two[1].weights, first[1].weights)
    assert not torch.equal(both[1].weights, first[1].weights)
    assert second[0].weights.shape == (1, 2, 7, 7)


# ---- positions -----------------------------------------------------------------------------------


def edited_tables(module, change):
    by_hand = copy.deepcopy(module)
    with torch.no_grad():
        for stack, length in ((by_hand.encoder, 7), (by_hand.decoder, 5)):
            positions = stack.embedding.positions
            table = positions.table
            if isinstance(table, nn.Embedding):
                table.weight[:length] = change(table.weight[:length])
            else:
                table[:length] = change(table[:length])
    return by_hand


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned"])
@pytest.mark.parametrize("norm", CHOICES["norm"])
def test_positions_scaled_or_shuffled_are_the_table_edited_by_hand(positions, norm, build_module):
    module = build_module(positions=positions, norm=norm)
    scaled, _ = run(module, ScalePositions(value=0.25))
    by_hand = edited_tables(module, lambda table: table * 0.25)
    torch.testing.assert_close(scaled, plain(by_hand), **CLOSE)
    shuffled, _ = run(module, ShufflePositions(seed=4))
    by_hand = edited_tables(
        module, lambda table: table[torch.as_tensor(permutation(len(table), (), 4))].clone()
    )
    torch.testing.assert_close(shuffled, plain(by_hand), **CLOSE)
    assert not torch.allclose(shuffled, plain(module), atol=1e-3)


class Turned(nn.Module):
    """Rotary positions written with complex numbers, at given places."""

    def __init__(self, frequency, places):
        super().__init__()
        self.frequency, self.places = frequency, places

    def forward(self, x, first=0):
        places = self.places(first + x.shape[2])[first:]
        turn = torch.polar(torch.ones(()), places[:, None] * self.frequency)
        half = x.shape[-1] // 2
        pairs = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
        return torch.cat((pairs.real, pairs.imag), -1)


@pytest.mark.parametrize("edit", [ScalePositions(value=0.5), ShufflePositions(seed=4)])
def test_rotary_positions_are_the_angles_edited_by_hand(edit, build_module):
    module = build_module(positions="rotary", d_k=10)
    out, _ = run(module, edit)
    by_hand = copy.deepcopy(module)

    def places(length):
        if isinstance(edit, ScalePositions):
            return torch.arange(length) * 0.5
        return torch.as_tensor(permutation(length, (), 4)).float()

    for stack in (by_hand.encoder, by_hand.decoder):
        stack.rotary = Turned(stack.rotary.frequency, places)
    torch.testing.assert_close(out, plain(by_hand), atol=5e-6, rtol=1e-5)
    assert not torch.allclose(out, plain(module), atol=1e-3)


def test_positions_of_one_stack_leave_the_other(build_module):
    module = build_module()
    _, seen = run(module, ScalePositions(value=0.0, stack="encoder"))
    clean = run(module)[1]
    assert torch.equal(seen.attentions[3].weights, clean.attentions[3].weights)
    assert not torch.equal(seen.attentions[0].weights, clean.attentions[0].weights)


def test_special_tokens_keep_their_places():
    special = (True, False, False, False, False, False, True)
    order = permutation(7, special, seed=3)
    assert order[0] == 0 and order[6] == 6
    assert sorted(order) == list(range(7)) and list(order) != list(range(7))


def test_a_model_without_positions_refuses_the_edit(build_module):
    module = build_module(positions="none")
    with pytest.raises(ValueError, match=r"positions scaled by 0.5.*found no positions"):
        run(module, ScalePositions(value=0.5))


# ---- residual sums -------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", CHOICES["norm"])
@pytest.mark.parametrize("block", ["self", "cross", "feed_forward"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_a_scaled_residual_is_the_sum_written_by_hand(norm, block, positions, build_module):
    module = build_module(norm=norm, positions=positions, d_k=10)
    out, _ = run(module, ScaleResidual(value=0.3, stack="decoder", layer=1, block=block))
    by_hand = copy.deepcopy(module)

    def forward(x, mask, memory, memory_mask, rotary, layer=by_hand.decoder.layers[1]):
        for name in ("self", "cross", "feed_forward"):
            sub_norm = getattr(layer, f"{name}_norm")
            y = x if norm == "post" else sub_norm(x)
            if name == "self":
                z = layer.self_attention(y, x if norm == "query_only" else y, mask, rotary)
            elif name == "cross":
                z = layer.cross_attention(y, memory, memory_mask)
            else:
                z = layer.feed_forward(y)
            x = (0.3 if name == block else 1.0) * x + z
            x = sub_norm(x) if norm == "post" else x
        return x

    by_hand.decoder.layers[1].forward = forward
    torch.testing.assert_close(out, plain(by_hand), **CLOSE)


@pytest.mark.parametrize("value", [1e-31, 1e-46, 5e-324])
def test_a_temperature_next_to_nothing_is_hard_attention(value, build_module):
    near, hard = (run(build_module(), Temperature(value=t))[0] for t in (value, 0))
    assert torch.equal(near, hard)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (ScaleResidual(value=0.3, stack="encoder", layer=0), ScaleResidual(value=0.5)),
        (ScalePositions(value=0.3, stack="encoder"), ScalePositions(value=0.5)),
        (ShufflePositions(seed=1, stack="decoder"), ShufflePositions(seed=2)),
    ],
)
def test_a_later_wide_edit_overrides_a_narrow_one(narrow, wide, build_module):
    module = build_module()
    assert torch.equal(run(module, narrow, wide)[0], run(module, wide)[0])
    assert not torch.equal(run(module, wide, narrow)[0], run(module, wide)[0])


@pytest.mark.parametrize("place", [{"layer": 0}, {"head": 1}, {"block": "cross"}])
def test_positions_of_less_than_a_stack_are_refused(place, build_module):
    for edit in (ScalePositions(value=0.5, **place), ShufflePositions(seed=4, **place)):
        with pytest.raises(ValueError, match=r"names less than a stack.*leave block, layer and"):
            run(build_module(), edit)


@pytest.mark.parametrize("norm_kind", CHOICES["norm_kind"])
@pytest.mark.parametrize("norm", CHOICES["norm"])
def test_norms_and_stream_are_what_the_modules_saw(norm, norm_kind, build_module):
    module = build_module(norm=norm, norm_kind=norm_kind, embedding_norm=True)
    caught = {}

    def hook(name):
        def catch(_, inputs, output):
            caught[name] = (inputs[0], output)

        return catch

    handles = [
        part.register_forward_hook(hook(name))
        for name, part in module.named_modules()
        if name.endswith("norm")
    ]
    plain(module)
    for handle in handles:
        handle.remove()
    _, seen = run(module)
    assert {record.path for record in seen.norms} == set(caught)
    assert len(seen.norms) == len(caught)
    for record in seen.norms:
        x, y = caught[record.path]
        for name, value in {
            "mean": x.mean(-1),
            "std": x.std(-1, unbiased=False),
            "rms": x.square().mean(-1).sqrt(),
            "input_norm": x.norm(dim=-1),
            "output_norm": y.norm(dim=-1),
            "output_mean": y.mean(-1),
        }.items():
            torch.testing.assert_close(record.statistics[name], value, atol=1e-4, rtol=2e-4)
        weight = module.get_submodule(record.path).weight
        assert torch.equal(record.gain, weight)
        assert record.kind == norm_kind
    assert len(seen.residuals) == 2 + 3 * 2 + 2 * 3


class Experts(nn.Module):
    """One attention whose result is cut in two, each half with a projection of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.halves = nn.Linear(14, 42), nn.ModuleList(nn.Linear(14, 14) for _ in "ab")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part[:, None] for part in self.inner(x).chunk(3, -1))
        made = (torch.softmax(q @ k.transpose(-2, -1), -1) @ v)[:, 0]
        first, second = made.split([2, 3], dim=1)
        return x + torch.cat((self.halves[0](first), self.halves[1](second)), 1)


def test_a_projection_in_parts_is_not_checked_rather_than_guessed() -> None:
    module, x = ramp(Experts()).eval(), torch.linspace(-1, 1, 70).view(1, 5, 14)
    with torch.inference_mode(), probe(module, want=CaptureRequest(check=True)) as run:
        module(x)
    assert [record.rebuilt for record in run.attentions] == [None]
