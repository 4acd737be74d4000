"""Every edit against its law: the same thing done by hand to weights, masks or tables."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import make_module
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


def close(got, expected, case):
    torch.testing.assert_close(got, expected, **CLOSE, msg=lambda text: f"{case}: {text}")


def causes(attention):
    """The parameters whose division by t divides the scores by t."""
    if attention.score.kind in ("additive", "location"):
        return [attention.score.weight]
    return [attention.query.weight, attention.query.bias]


def test_watching_changes_no_bit():
    for score in SCORES:
        module = make_module(score=score)
        out, seen = run(module, want=CaptureRequest(check=True, positions=True, hidden=True))
        assert torch.equal(out, plain(module)), score
        assert len(seen.attentions) == 7 and not seen.unrecognised, score
        assert all(r.rebuilt is not None and r.rebuilt < 2e-6 for r in seen.attentions), score


def test_temperature_divides_the_cause_of_the_scores():
    for score in SCORES:
        module = make_module(score=score)
        for value in (0.5, 2.0, 3.7):
            out, _ = run(module, Temperature(value=value))
            by_hand = copy.deepcopy(module)
            with torch.no_grad():
                for part in by_hand.modules():
                    for parameter in causes(part) if hasattr(part, "score") else ():
                        parameter /= value
            close(out, plain(by_hand), (score, value))
        edit = Temperature(value=2.0, stack="decoder", block="cross", layer=1, head=1)
        out, seen = run(module, edit)  # of one head leaves the others
        by_hand = copy.deepcopy(module)
        with torch.no_grad():
            for parameter in causes(by_hand.decoder.layers[1].cross_attention):
                parameter[parameter.shape[0] // 2 :] /= 2.0
        close(out, plain(by_hand), (score, "one head"))
        clean = run(module)[1].attentions
        assert torch.equal(clean[-1].weights[:, 0], seen.attentions[-1].weights[:, 0]), score
        _, seen = run(module, Temperature(value=0.0, stack="encoder", layer=0))
        hard = nn.functional.one_hot(clean[0].weights.argmax(-1), 7).float()
        assert torch.equal(seen.attentions[0].weights, hard), score
    module = make_module()
    hard = run(module, Temperature(value=0))[0]
    for value in (1e-31, 1e-46, 5e-324):
        assert torch.equal(run(module, Temperature(value=value))[0], hard), value


def test_scaled_and_uniform_heads():
    for score in SCORES:
        module = make_module(score=score)
        for value in (0.0, 0.3, 2.0):
            out, seen = run(module, ScaleHead(value=value, stack="encoder", layer=2, head=1))
            by_hand = copy.deepcopy(module)
            with torch.no_grad():
                by_hand.encoder.layers[2].self_attention.output.weight[:, 13:] *= value
            close(out, plain(by_hand), (score, value))
            sums = seen.attentions[2].weights[0].sum(-1)
            np.testing.assert_allclose(sums[1], value, atol=1e-6)
            np.testing.assert_allclose(sums[0], 1.0, atol=1e-6)
    # A uniform head looks at all visible keys alike.
    for score in SCORES:
        module = make_module(score=score)
        for source in (SOURCE, PADDED):
            _, seen = run(module, UniformHead(head=0), source=source)
            expected = (source != 0).float() / float((source != 0).sum())
            shown = seen.attentions[0].weights[0, 0]
            assert torch.allclose(shown, expected.expand(7, 7)), score
            below = torch.ones(5, 5).tril()
            decoder = next(r for r in seen.attentions if str(r.site) == "decoder L1")
            expected = below / below.sum(-1, keepdim=True)
            assert torch.allclose(decoder.weights[0, 0], expected), score


def test_causal_masks_padding_and_empty_rows():
    target = torch.tensor([[2, 7, 31, 9, 0]])  # the last target token is padding
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    for score in SCORES:
        module = make_module(score=score)
        seen = module.padding_mask(SOURCE)
        with torch.inference_mode():
            with probe(module, Intervention((Causal(on=False),))):
                free = module(SOURCE, target)
            memory = module.encoder(SOURCE, seen)
            decoded = module.decoder(target, module.padding_mask(target), memory, seen)
            close(free, module.logits(decoded), score)
        out, _ = run(module, Causal(on=True, stack="encoder"), source=PADDED)
        close(out, masked(module, encoder=lower, source=PADDED), score)
    # A row that the model empties shows what the model did.
    source = torch.zeros(1, 7, dtype=torch.long)  # nothing but padding
    for fill in (float("-inf"), -1e9):
        module = make_module(mask_fill=fill)
        clean = run(module, source=source)[1].attentions[0].weights
        warm = run(module, Temperature(value=2.0), source=source)[1].attentions[0].weights
        assert torch.allclose(clean, warm, equal_nan=True), fill
        expected = torch.full_like(clean, torch.nan if math.isinf(fill) else 1 / 7)
        assert torch.allclose(clean, expected, equal_nan=True), fill


def near(radius, queries, keys):
    return (torch.arange(queries)[:, None] - torch.arange(keys)).abs() <= radius


def test_windows_hidden_words_and_cut_links_are_masks_by_hand():
    hide = (
        BlockKeys(keys=(2, 4), stack="encoder"),
        BlockKeys(keys=(2, 4), block="cross"),
        BlockEdges(edges=((3, 1), (4, 0)), stack="decoder", block="self"),
    )
    keys = torch.ones(1, 7, dtype=torch.bool)
    keys[0, [2, 4]] = False
    edges = ~LATER
    edges[3, 1] = edges[4, 0] = False
    for score in SCORES:
        module = make_module(score=score)
        for radius in (0, 1, 3):  # on top of the model's own mask
            out, _ = run(module, Window(radius=radius))
            masks = near(radius, 7, 7), near(radius, 5, 5) & ~LATER, near(radius, 5, 7)
            expected = masked(module, *masks)
            # A row that the window empties is zero with us and NaN with a mask of -inf.
            close(out, torch.where(expected.isnan(), out, expected), (score, radius))
        close(run(module, *hide)[0], masked(module, keys, edges, keys), score)
        out, seen = run(module, BlockKeys(keys=tuple(range(7)), stack="encoder", layer=0))
        assert (seen.attentions[0].weights == 0).all() and out.isfinite().all(), score


# ---- several edits -------------------------------------------------------------------------------


def test_of_two_edits_the_later_wins_at_each_place():
    module = make_module()
    wide, narrow = Temperature(value=2.0), Temperature(value=3.0, stack="encoder", layer=1)
    both = run(module, wide, narrow)[1].attentions
    first, second = run(module, wide)[1].attentions, run(module, narrow)[1].attentions
    assert torch.equal(both[0].weights, first[0].weights)
    only_two = run(module, narrow, wide)[1].attentions
    assert torch.equal(only_two[1].weights, first[1].weights)
    assert not torch.equal(both[1].weights, first[1].weights)
    assert second[0].weights.shape == (1, 2, 7, 7)
    for narrow, wide in (
        (ScaleResidual(value=0.3, stack="encoder", layer=0), ScaleResidual(value=0.5)),
        (ScalePositions(value=0.3, stack="encoder"), ScalePositions(value=0.5)),
        (ShufflePositions(seed=1, stack="decoder"), ShufflePositions(seed=2)),
        (Window(radius=None, stack="encoder", layer=0), Window(radius=1, stack="encoder")),
    ):
        alone = run(module, wide)[0]
        assert torch.equal(run(module, narrow, wide)[0], alone), narrow
        assert not torch.equal(run(module, wide, narrow)[0], alone), narrow


def test_a_narrow_edit_spares_its_place_from_a_wide_one():
    """There the head runs as if nothing were changed."""
    for wide, spared in (
        (Window(radius=1), Window(radius=None)),
        (UniformHead(), UniformHead(on=False)),
    ):
        for score in SCORES:  # spared everywhere
            module = make_module(score=score)
            gaps = (replace(spared, stack=stack) for stack in ("encoder", "decoder"))
            assert torch.equal(run(module, wide, *gaps)[0], plain(module)), (wide, score)
        module = make_module()
        gap = replace(spared, stack="encoder", layer=0, head=1)
        seen = run(module, replace(wide, stack="encoder"), gap)[1]
        was, now = (x.attentions[0].weights[0] for x in (run(module)[1], seen))
        np.testing.assert_allclose(now[1], was[1], atol=1e-6)
        assert float((now[0] - was[0]).abs().max()) > 0.01, wide
        with pytest.raises(ValueError, match="encoder L0"):
            run(module, replace(spared, layer=9))
    edits = Window(radius=2, stack="encoder"), Window(radius=None, stack="decoder")
    close(run(module, *edits)[0], masked(module, encoder=near(2, 7, 7)), "a gap")


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


def test_positions_are_tables_and_angles_edited_by_hand():
    def moved(table):
        return table[torch.as_tensor(permutation(len(table), (), 4))].clone()

    for positions in ("sinusoidal", "sinusoidal_halves", "learned"):
        for norm in CHOICES["norm"]:
            module = make_module(positions=positions, norm=norm)
            scaled, _ = run(module, ScalePositions(value=0.25))
            by_hand = edited_tables(module, lambda table: table * 0.25)
            close(scaled, plain(by_hand), (positions, norm))
            shuffled, _ = run(module, ShufflePositions(seed=4))
            close(shuffled, plain(edited_tables(module, moved)), (positions, norm))
            assert not torch.allclose(shuffled, plain(module), atol=1e-3)
    # Rotary positions are the angles edited by hand.
    module = make_module(positions="rotary", d_k=10)
    for edit, places in (
        (ScalePositions(value=0.5), lambda length: torch.arange(length) * 0.5),
        (ShufflePositions(seed=4), lambda n: torch.as_tensor(permutation(n, (), 4)).float()),
    ):
        out, _ = run(module, edit)
        by_hand = copy.deepcopy(module)
        for stack in (by_hand.encoder, by_hand.decoder):
            stack.rotary = Turned(stack.rotary.frequency, places)
        torch.testing.assert_close(out, plain(by_hand), atol=5e-6, rtol=1e-5)
        assert not torch.allclose(out, plain(module), atol=1e-3)


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


def test_places_of_position_edits():
    module = make_module()
    _, seen = run(module, ScalePositions(value=0.0, stack="encoder"))
    clean = run(module)[1]
    assert torch.equal(seen.attentions[3].weights, clean.attentions[3].weights)
    assert not torch.equal(seen.attentions[0].weights, clean.attentions[0].weights)
    special = (True, False, False, False, False, False, True)
    order = permutation(7, special, seed=3)
    assert order[0] == 0 and order[6] == 6
    assert sorted(order) == list(range(7)) and list(order) != list(range(7))
    for place in ({"layer": 0}, {"head": 1}, {"block": "cross"}):
        for edit in (ScalePositions(value=0.5, **place), ShufflePositions(seed=4, **place)):
            said = r"names less than a stack.*leave block, layer and"
            with pytest.raises(ValueError, match=said):
                run(module, edit)
    with pytest.raises(ValueError, match=r"positions scaled by 0.5.*found no positions"):
        run(make_module(positions="none"), ScalePositions(value=0.5))


# ---- residual sums and norms ---------------------------------------------------------------------


def test_a_scaled_residual_is_the_sum_written_by_hand():
    blocks = ("self", "cross", "feed_forward")

    def by_hand(module, norm, block):
        changed = copy.deepcopy(module)
        layer = changed.decoder.layers[1]

        def forward(x, mask, memory, memory_mask, rotary):
            for name in blocks:
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

        layer.forward = forward
        return changed

    for norm in CHOICES["norm"]:
        for positions in ("sinusoidal", "rotary", "none"):
            module = make_module(norm=norm, positions=positions, d_k=10)
            for block in blocks:
                edit = ScaleResidual(value=0.3, stack="decoder", layer=1, block=block)
                expected = plain(by_hand(module, norm, block))
                close(run(module, edit)[0], expected, (norm, positions, block))


def test_norms_and_stream_are_what_the_modules_saw():
    for norm in CHOICES["norm"]:
        for norm_kind in CHOICES["norm_kind"]:
            norms_are_seen(make_module(norm=norm, norm_kind=norm_kind, embedding_norm=True))


def norms_are_seen(module):
    caught, handles = {}, []
    for name, part in module.named_modules():
        if name.endswith("norm"):
            handles.append(
                part.register_forward_hook(
                    lambda _, inputs, output, name=name: caught.update({name: (inputs[0], output)})
                )
            )
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
        assert torch.equal(record.gain, module.get_submodule(record.path).weight)
        assert record.kind == module.config.norm_kind
    assert len(seen.residuals) == 2 + 3 * 2 + 2 * 3
