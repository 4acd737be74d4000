"""From a sentence to a trace: what it holds, what it proves, what it refuses."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import make_module
from tests.support.head_formulas import FORMULAS
from transformer_viz.capture.handlers import weighted_sum
from transformer_viz.checkpoints import load
from transformer_viz.core.interventions import (
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    Temperature,
)
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.long_texts.estimate import may_take, needed, refuse_flood
from transformer_viz.inference.model_inputs import read_source
from transformer_viz.inference.tracing import trace

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
EVERYTHING = ("weights", "scores", "qkv", "hidden", "gradients")


@pytest.fixture(scope="module")
def full(tiny_model):
    return trace(tiny_model, SOURCE, TARGET, keep=EVERYTHING)


def test_shapes_carry_the_axes(full):
    assert full.maps == ("encoder", "decoder", "cross")
    assert full.attention("encoder").shape == (3, 2, 7, 7)
    assert full.attention("decoder").shape == (2, 2, 5, 5)
    assert full.attention("cross").shape == (2, 2, 5, 7)
    assert full.attention("cross", layer=1).shape == (2, 5, 7)
    assert full.gradients("cross").shape == (2, 2, 5, 7)
    assert full.thumbnail("cross").shape == (2, 2, 5, 7)
    assert full.hidden("encoder").shape == (4, 7, 22) and full.hidden("decoder").shape == (3, 5, 22)
    cross = full.block("cross", 0)
    assert (
        cross.q.shape == (2, 5, 11) and cross.k.shape == (2, 7, 11) and cross.v.shape == (2, 7, 13)
    )
    assert (cross.query, cross.key) == ("target", "source")
    assert full.block("decoder", 0).key == "target"
    assert full.logits.shape == (5, 41) and len(full.source) == 7 and len(full.target) == 5
    assert full.positions["table.encoder"].shape == (7, 22)


def test_everything_is_read_only(full):
    for array in (
        full.attention("cross"),
        full.logits,
        full.thumbnail("cross"),
        full.hidden("encoder"),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_logits_are_the_models(full, tiny_model):
    with torch.inference_mode():
        expected = tiny_model.module(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    np.testing.assert_array_equal(full.logits, expected.numpy())


def test_head_statistics_equal_their_formulas(full):
    assert len(full.heads) == 3 * 2 + 2 * 2 + 2 * 2
    for name in full.maps:
        for layer, weights in enumerate(full.attention(name)):
            stack, block = ("decoder", "cross") if name == "cross" else (name, "self")
            table = full.heads
            rows = table[
                (table["stack"] == stack) & (table["block"] == block) & (table["layer"] == layer)
            ]
            for column, formula in FORMULAS.items():
                np.testing.assert_allclose(rows[column], formula(weights), atol=2e-6)


def test_weights_are_the_softmax_of_the_scores(full):
    for name in full.maps:
        for attention in full.blocks(name):
            e = np.exp(attention.scores - attention.scores.max(-1, keepdims=True))
            np.testing.assert_allclose(attention.weights, e / e.sum(-1, keepdims=True), atol=1e-6)
            raw = np.einsum("hqd,hkd->hqk", attention.q, attention.k) / np.sqrt(11)
            seen = np.isfinite(attention.scores)
            np.testing.assert_allclose(attention.scores[seen], raw[seen], atol=2e-6)


def test_produced_says_what_each_row_predicts(full):
    assert full.produced.ids == (7, 31, 9, 4, int(full.logits[-1].argmax()))
    logits = full.logits.astype(np.float64)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for row, token in enumerate(full.produced.ids):
        assert full.produced.probability[row] == pytest.approx(probability[row, token], rel=1e-5)
        assert full.produced.rank[row] == 1 + (logits[row] > logits[row, token]).sum()


def test_hidden_states_are_the_stream_between_the_layers(full, tiny_model):
    module = tiny_model.module
    ids = torch.tensor([SOURCE])
    with torch.inference_mode():
        x = module.encoder.embedding(ids)
        states = [x]
        for layer in module.encoder.layers:
            x = layer(x, module.padding_mask(ids))
            states.append(x)
        states[-1] = module.encoder.norm(x)
    np.testing.assert_allclose(full.hidden("encoder"), torch.cat(states).numpy(), atol=1e-6)


def test_gradients_equal_a_finite_difference(full, tiny_model):
    ids = full.produced.ids
    where = (0, 2, 4)  # head, query, key

    part = tiny_model.module.decoder.layers[1].cross_attention

    def chosen(change):
        def nudged(scores, mask):
            weights = type(part).weigh(part, scores, mask).clone()
            weights[(0, *where)] += change
            return weights

        part.weigh = nudged
        logits = trace(tiny_model, SOURCE, TARGET, check=False).logits.astype(np.float64)
        del part.weigh  # the class's own again
        return logits[np.arange(5), list(ids)].sum()

    expected = (chosen(0.01) - chosen(-0.01)) / 0.02
    assert full.gradients("cross", layer=1)[where] == pytest.approx(expected, rel=2e-2)


def test_the_report_proves_the_capture(full):
    report = full.report
    assert report.status == "green"
    assert report.sites == (
        "encoder L0",
        "encoder L1",
        "encoder L2",
        "decoder L0",
        "cross L0",
        "decoder L1",
        "cross L1",
    )
    assert report.output_difference == 0.0 and report.row_sum_error < 1e-6
    assert set(report.rebuilt) == set(report.sites)
    assert all(error < 2e-6 for error in report.rebuilt.values())


@pytest.mark.parametrize("block", [0, 3, 6])
def test_one_corrupted_weight_turns_the_report_amber(tiny_model, monkeypatch, block):
    real = weighted_sum.finish

    def corrupting(state, record, weights, sign):
        held = real(state, record, weights, sign)
        if len(state.capture.attentions) == block + 1 and record.weights is not None:
            record.weights = record.weights.clone()
            record.weights[0, 1, 2, 0] += 0.01
        return held

    monkeypatch.setattr(weighted_sum, "finish", corrupting)
    report = trace(tiny_model, SOURCE, TARGET).report
    assert report.status == "amber"
    assert report.rebuilt[report.sites[block]] > 1e-3
    others = [error for site, error in report.rebuilt.items() if site != report.sites[block]]
    assert max(others) < 2e-6


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(12, 4) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).transpose(-2, -1), -1) @ self.v(x)


class Heads(torch.nn.Module):
    """A core whose heads are modules of their own."""

    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleList(Head() for _ in range(3))
        self.output = torch.nn.Linear(12, 12)

    def forward(self, x):
        return x + self.output(torch.cat([head(x) for head in self.heads], -1))


def test_heads_of_their_own_have_gradients_of_their_own():
    torch.manual_seed(0)
    module = Heads().eval()
    rows = np.sin(np.arange(5 * 12)).reshape(5, 12)
    gradients = trace(load(module), rows, keep=("gradients",)).gradients("encoder", layer=0)
    assert gradients.shape == (3, 5, 5)
    x = torch.as_tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        top = module(x[None])[0].argmax(-1)
        for number, head in enumerate(module.heads):
            mix = module.output.weight[:, 4 * number : 4 * number + 4]
            expected = mix[top] @ head.v(x).T  # d(largest output of row q) / d(weight q, k)
            np.testing.assert_allclose(gradients[number], expected, atol=1e-5)


def test_a_left_out_target_is_decoded(tiny_model):
    free = trace(tiny_model, SOURCE)
    again = trace(tiny_model, SOURCE, list(free.target.ids), produced=free.produced.ids)
    np.testing.assert_array_equal(free.logits, again.logits)
    assert free.produced.ids[:-1] == free.target.ids[1:]
    assert (free.produced.rank == 1).all()


def test_clean_and_edited_runs_are_separate(tiny_model):
    clean = trace(tiny_model, SOURCE, TARGET)
    before = clean.attention("cross").copy()
    off = Intervention((ScaleHead(value=0.0, stack="encoder", layer=0, head=1),))
    edited = trace(tiny_model, SOURCE, TARGET, intervention=off, produced=clean.produced.ids)
    np.testing.assert_array_equal(clean.attention("cross"), before)
    assert (edited.attention("encoder")[0, 1] == 0).all()
    assert not np.allclose(edited.logits, clean.logits)
    assert edited.produced.ids == clean.produced.ids
    assert edited.report.status == "green" and edited.report.rebuilt  # proven on the clean run
    assert edited.intervention == off and edited.manifest["intervention"] == off.to_json()


def test_only_what_is_asked_for_is_kept(tiny_model):
    site = Site("decoder", "cross", 1)
    small = trace(tiny_model, SOURCE, TARGET, keep=("weights", "scores"), only=(site,), check=False)
    assert [a.site for a in small.attentions] == [site]
    assert small.block("cross", 1).scores is not None and small.block("cross", 1).q is None
    with pytest.raises(LookupError, match="'encoder' were not kept"):
        small.attention("encoder")
    assert len(small.heads) == 14 and small.thumbnail("encoder").shape == (3, 2, 7, 7)


@pytest.mark.parametrize("edits", [(), (Temperature(value=2.0),)])
@pytest.mark.parametrize("check", [True, False])
def test_what_is_kept_does_not_hang_on_the_proof_or_the_edits(tiny_model, edits, check):
    def kept(*words):
        words = {"keep": words, "check": check, "intervention": Intervention(edits)}
        return trace(tiny_model, SOURCE, TARGET, **words)

    for word, part in (("scores", "scores"), ("qkv", "q"), ("gradients", "gradients")):
        found = kept(word).attentions
        assert len(found) == 7
        assert all(getattr(one, part) is not None for one in found)
    assert kept().attentions == kept("hidden").attentions == ()
    assert kept("hidden").hidden("encoder").shape == (4, 7, 22)


def test_padding_masked_changes_nothing_and_unmasked_does(tiny_model):
    clean = trace(tiny_model, SOURCE, TARGET)
    masked = trace(tiny_model, SOURCE, TARGET, intervention=Intervention((Pad(count=4),)))
    np.testing.assert_allclose(masked.logits, clean.logits, atol=2e-6)
    assert masked.attention("cross").shape == (2, 2, 5, 11)
    assert (masked.attention("cross")[..., 7:] == 0).all()
    seen = trace(
        tiny_model, SOURCE, TARGET, intervention=Intervention((Pad(count=4, masked=False),))
    )
    assert (seen.attention("cross")[..., 7:] > 0).all()
    assert not np.allclose(seen.logits, clean.logits, atol=1e-3)


def test_decoder_only_and_encoder_only(tiny_gpt, build_model):
    gpt = trace(tiny_gpt, [2, 7, 31, 9])
    assert gpt.maps == ("decoder",) and gpt.target is None
    assert gpt.produced.ids == (7, 31, 9, int(gpt.logits[-1].argmax()))
    assert gpt.block("decoder", 0).query == "source"
    longer = trace(tiny_gpt, [2, 7], [31, 9])
    np.testing.assert_allclose(longer.logits, gpt.logits, atol=1e-6)
    one = trace(tiny_gpt, [2])
    assert one.maps == ("decoder",)
    encoder = trace(build_model(decoder_layers=0, target_vocab=0), SOURCE)
    assert encoder.maps == ("encoder",) and encoder.logits is None and encoder.produced is None
    with pytest.raises(ValueError, match="has no decoder; leave the target out"):
        trace(build_model(decoder_layers=0, target_vocab=0), SOURCE, TARGET)


def test_vectors_go_into_a_core(build_model):
    module = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(22, 2, 29, batch_first=True), 3, enable_nested_tensor=False
    )
    rows = np.sin(np.arange(5 * 22)).reshape(5, 22)
    result = trace(load(module), rows)
    assert result.attention("encoder").shape == (3, 2, 5, 5)
    assert result.source.labels == ("0", "1", "2", "3", "4") and result.source.ids == ()
    assert result.logits is None and result.produced is None
    with pytest.raises(ValueError, match=r"finite numbers \[token, d_model\]; got \(3,\)"):
        trace(load(module), np.zeros(3))
    with pytest.raises(ValueError, match=r"finite numbers \[token, d_model\]; got \(0, 22\)"):
        trace(load(module), np.zeros((0, 22)))
    with pytest.raises(ValueError, match="'pad' needs a padding token, and vectors have none"):
        trace(load(module), rows, intervention=Intervention((Pad(count=2),)))
    with pytest.raises(ValueError, match="give the target's vectors too"):
        trace(load(torch.nn.Transformer(22, 2, 1, 1, 29, batch_first=True)), rows)


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_every_device_gives_the_same_numbers(device, full, build_model):
    other = trace(build_model().to(device), SOURCE, TARGET)
    assert other.manifest["device"] == device
    for name in full.maps:
        np.testing.assert_allclose(other.attention(name), full.attention(name), atol=1e-4)
    np.testing.assert_allclose(other.logits, full.logits, atol=1e-4)


def test_one_and_sixteen_heads(build_model):
    for heads in (1, 2, 7, 16):
        model = build_model(heads=heads)
        result = trace(model, SOURCE, TARGET)
        assert result.attention("cross").shape == (2, heads, 5, 7)
        assert result.report.status == "green"


def test_refusals_say_what_to_do(tiny_model):
    with pytest.raises(ValueError, match="keep has no word 'colour'; choose of weights"):
        trace(tiny_model, SOURCE, TARGET, keep=("colour",))
    with pytest.raises(ValueError, match="produced names 2 tokens for 5 target rows"):
        trace(tiny_model, SOURCE, TARGET, produced=(1, 2))
    with pytest.raises(ValueError, match=r"cross L7: temperature 2.*matches no place"):
        edit = Temperature(value=2.0, stack="decoder", block="cross", layer=7)
        trace(tiny_model, SOURCE, TARGET, intervention=Intervention((edit,)))
    for bad in ([2.7, 3.9], ["a", "b"], [[2, 3]], 5, np.zeros((1, 2, 3), int)):
        with pytest.raises(ValueError, match="source must be text or whole token ids"):
            trace(tiny_model, bad, TARGET)
        with pytest.raises(ValueError, match="target must be text or whole token ids"):
            trace(tiny_model, SOURCE, bad)
    with pytest.raises(ValueError, match=r"source is a batch of 3 rows of ids; give one row"):
        trace(tiny_model, np.zeros((3, 22), int), TARGET)
    for bad in ([7, 31, 9, 4, 41], [7, 31, 9, 4, -1]):
        with pytest.raises(ValueError, match="this model knows ids from 0 to 40"):
            trace(tiny_model, SOURCE, TARGET, produced=bad)
    with pytest.raises(ValueError, match="produced names 0 tokens for 5 target rows"):
        trace(tiny_model, SOURCE, TARGET, produced=[])
    with pytest.raises(LookupError, match="no 'middle' attention; it has encoder, decoder, cross"):
        trace(tiny_model, SOURCE, TARGET).attention("middle")


def test_an_edit_that_leaves_no_number_is_refused(tiny_model):
    huge = Intervention((ScaleResidual(value=1e30),))
    with pytest.raises(ValueError, match=r"scaled by 1e\+30.*not a number.*smaller value"):
        trace(tiny_model, SOURCE, TARGET, intervention=huge)


def test_an_edit_changes_the_output(tiny_model):
    clean = trace(tiny_model, SOURCE, TARGET, check=False)
    for edit in (Temperature(value=3.0), ScalePositions(value=0.0)):
        edited = trace(tiny_model, SOURCE, TARGET, intervention=Intervention((edit,)), check=False)
        assert not np.allclose(edited.logits, clean.logits, atol=1e-3)


def test_the_model_is_left_as_it_was(tiny_model):
    module = tiny_model.module
    before = copy.deepcopy(module.state_dict())
    words = {name: set(vars(part)) for name, part in module.named_modules()}
    trace(tiny_model, SOURCE, TARGET, keep=EVERYTHING)
    trace(tiny_model, SOURCE, TARGET, intervention=Intervention((Temperature(value=2.0),)))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert words == {name: set(vars(part)) for name, part in module.named_modules()}
    for part in module.modules():
        assert not part._forward_hooks and not part._forward_pre_hooks


def test_a_model_in_double_precision_is_traced() -> None:
    module = make_module()
    single = trace(load(module), SOURCE, TARGET)
    double = trace(load(module.double()), SOURCE, TARGET)
    assert double.report.status == "green"
    wanted = single.residuals["norm"].to_numpy()
    assert np.abs(double.residuals["norm"].to_numpy() - wanted).max() < 1e-5 * wanted.max()


def test_a_run_that_would_fill_a_graphics_card_is_refused_too(tiny_model, monkeypatch):
    left = "transformer_viz.inference.long_texts.estimate.card_left"
    monkeypatch.setattr(left, lambda device: 10**6 if device == "cuda:1" else 2000)
    there = replace(tiny_model, device="cuda:0")
    read = read_source(tiny_model, SOURCE, TARGET, Intervention(), None, (), None)
    with pytest.raises(ValueError, match=r"for \d+ tokens, and its graphics card has 0.0 left"):
        refuse_flood(there, read, ("weights",), None, True)
    assert may_take(replace(tiny_model, device="cuda:1"))[0] == 900_000
    assert may_take(tiny_model)[0] > 900_000


def test_a_run_that_would_fill_the_memory_is_refused_before_it_begins(tiny_model, monkeypatch):
    memory = "transformer_viz.inference.long_texts.estimate.memory"
    monkeypatch.setattr(memory, lambda: 2000)
    trace(tiny_model, SOURCE, TARGET, keep=(), check=False)  # statistics are small
    with pytest.raises(ValueError, match=r"GB of maps for \d+ tokens.*Give a shorter input"):
        trace(tiny_model, SOURCE, TARGET)
    site = Site("encoder", "self", 0)
    monkeypatch.setattr(memory, lambda: 2 * 2 * len(SOURCE) ** 2 * 4)
    trace(tiny_model, SOURCE, TARGET, only=(site,), check=False)
    with pytest.raises(ValueError, match="GB of maps"):
        trace(tiny_model, SOURCE, TARGET, check=False)


def test_a_proof_that_the_memory_does_not_hold_is_left_out_by_default(
    tiny_model, monkeypatch, tmp_path
):
    read = read_source(tiny_model, SOURCE, TARGET, Intervention(), None, (), None)
    kept = needed(tiny_model, read, ("weights",), None, False)
    memory = "transformer_viz.inference.long_texts.estimate.memory"
    monkeypatch.setattr(memory, lambda: 4 * kept)
    found = trace(tiny_model, SOURCE, TARGET)
    assert not found.report.laws and found.report.output_difference is None
    assert found.report.left_out.startswith("The proof was left out: beside 0.0 GB of maps")
    assert found.report.left_out in str(findings_of(found))
    found.save(tmp_path / "run.safetensors")
    again = Trace.load(tmp_path / "run.safetensors").report
    assert again.left_out == found.report.left_out
    with pytest.raises(ValueError, match=r"GB of maps for \d+ tokens"):
        trace(tiny_model, SOURCE, TARGET, check=True)
    monkeypatch.setattr(memory, lambda: 400 * kept)
    for check in (None, True):
        report = trace(tiny_model, SOURCE, TARGET, check=check).report
        assert report.status == "green" and not report.left_out, check
