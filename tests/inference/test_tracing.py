"""From a sentence to a trace: its numbers, its proof, its refusals."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import make_module
from tests.support.head_formulas import FORMULAS
from tests.support.refusals import refuses
from transformer_viz.capture.handlers import weighted_sum
from transformer_viz.checkpoints import load
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.generation import translate
from transformer_viz.inference.long_texts import estimate
from transformer_viz.inference.model_inputs import read_source
from transformer_viz.inference.tracing import trace
from transformer_viz.model import Transformer

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
EVERYTHING = ("weights", "scores", "qkv", "hidden", "gradients")


@pytest.fixture(scope="module")
def full(tiny_model):
    return trace(tiny_model, SOURCE, TARGET, keep=EVERYTHING)


def edited(model, *edits, **words):
    return trace(model, SOURCE, TARGET, intervention=Intervention(edits), **words)


def test_shapes_carry_the_axes_and_arrays_are_read_only(full):
    assert full.maps == ("encoder", "decoder", "cross")
    cross = full.block("cross", 0)
    for array, shape in (
        (full.attention("encoder"), (3, 2, 7, 7)),
        (full.attention("decoder"), (2, 2, 5, 5)),
        (full.attention("cross"), (2, 2, 5, 7)),
        (full.attention("cross", layer=1), (2, 5, 7)),
        (full.gradients("cross"), (2, 2, 5, 7)),
        (full.thumbnail("cross"), (2, 2, 5, 7)),
        (full.hidden("encoder"), (4, 7, 22)),
        (full.hidden("decoder"), (3, 5, 22)),
        (cross.q, (2, 5, 11)),
        (cross.k, (2, 7, 11)),
        (cross.v, (2, 7, 13)),
        (full.logits, (5, 41)),
        (full.positions["table.encoder"], (7, 22)),
    ):
        assert array.shape == shape
    assert (cross.query, cross.key) == ("target", "source")
    assert full.block("decoder", 0).key == "target"
    assert len(full.source) == 7 and len(full.target) == 5
    shown = full.attention("cross"), full.thumbnail("cross"), full.hidden("encoder")
    for array in (full.logits, *shown):
        refuses("read-only", array.__setitem__, ..., 0)


def test_logits_and_hidden_states_are_the_models(full, tiny_model):
    module, ids = tiny_model.module, torch.tensor([SOURCE])
    with torch.inference_mode():
        logits = module(ids, torch.tensor([TARGET]))[0]
        states = [module.encoder.embedding(ids)]
        for layer in module.encoder.layers:
            states.append(layer(states[-1], module.padding_mask(ids)))
        states[-1] = module.encoder.norm(states[-1])
    np.testing.assert_array_equal(full.logits, logits.numpy())
    np.testing.assert_allclose(full.hidden("encoder"), torch.cat(states).numpy(), atol=1e-6)


def test_weights_and_head_statistics_equal_their_formulas(full):
    table = full.heads
    assert len(table) == 3 * 2 + 2 * 2 + 2 * 2
    for name in full.maps:
        for layer, attention in enumerate(full.blocks(name)):
            stack, block = ("decoder", "cross") if name == "cross" else (name, "self")
            place = (table["stack"] == stack) & (table["block"] == block)
            rows = table[place & (table["layer"] == layer)]
            for column, formula in FORMULAS.items():
                np.testing.assert_allclose(rows[column], formula(attention.weights), atol=2e-6)
            e = np.exp(attention.scores - attention.scores.max(-1, keepdims=True))
            np.testing.assert_allclose(attention.weights, e / e.sum(-1, keepdims=True), atol=1e-6)
            raw = np.einsum("hqd,hkd->hqk", attention.q, attention.k) / np.sqrt(11)
            seen = np.isfinite(attention.scores)
            np.testing.assert_allclose(attention.scores[seen], raw[seen], atol=2e-6)


@pytest.mark.slow
def test_produced_says_what_each_row_predicts(full, tiny_model):
    assert full.produced.ids == (7, 31, 9, 4, int(full.logits[-1].argmax()))
    logits = full.logits.astype(np.float64)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for row, token in enumerate(full.produced.ids):
        assert full.produced.probability[row] == pytest.approx(probability[row, token], rel=1e-5)
        assert full.produced.rank[row] == 1 + (logits[row] > logits[row, token]).sum()
    free = trace(tiny_model, SOURCE)  # a target that is left out is decoded
    again = trace(tiny_model, SOURCE, list(free.target.ids), produced=free.produced.ids)
    np.testing.assert_array_equal(free.logits, again.logits)
    assert free.produced.ids[:-1] == free.target.ids[1:]
    assert (free.produced.rank == 1).all()


def test_gradients_equal_a_finite_difference(full, tiny_model):
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
        return logits[np.arange(5), list(full.produced.ids)].sum()

    expected = (chosen(0.01) - chosen(-0.01)) / 0.02
    assert full.gradients("cross", layer=1)[where] == pytest.approx(expected, rel=2e-2)


@pytest.mark.slow
def test_the_report_proves_the_capture(full, tiny_model, monkeypatch):
    report = full.report
    assert report.status == "green"
    assert report.sites == (
        *(f"encoder L{n}" for n in range(3)),
        *("decoder L0", "cross L0", "decoder L1", "cross L1"),
    )
    assert report.output_difference == 0.0 and report.row_sum_error < 1e-6
    assert set(report.rebuilt) == set(report.sites)
    assert all(error < 2e-6 for error in report.rebuilt.values())
    real = weighted_sum.finish
    for block in (0, 3, 6):  # one corrupted weight turns it amber

        def corrupting(state, record, weights, sign, block=block):
            held = real(state, record, weights, sign)
            if len(state.capture.attentions) == block + 1 and record.weights is not None:
                record.weights = record.weights.clone()
                record.weights[0, 1, 2, 0] += 0.01
            return held

        monkeypatch.setattr(weighted_sum, "finish", corrupting)
        wrong = trace(tiny_model, SOURCE, TARGET).report
        assert wrong.status == "amber", block
        assert wrong.rebuilt[wrong.sites[block]] > 1e-3, block
        others = [error for site, error in wrong.rebuilt.items() if site != wrong.sites[block]]
        assert max(others) < 2e-6, block


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


def test_clean_and_edited_runs_are_separate(tiny_model):
    clean = trace(tiny_model, SOURCE, TARGET)
    before = clean.attention("cross").copy()
    off = edit.ScaleHead(value=0.0, stack="encoder", layer=0, head=1)
    run = edited(tiny_model, off, produced=clean.produced.ids)
    np.testing.assert_array_equal(clean.attention("cross"), before)
    assert (run.attention("encoder")[0, 1] == 0).all()
    assert not np.allclose(run.logits, clean.logits)
    assert run.produced.ids == clean.produced.ids
    assert run.report.status == "green" and run.report.rebuilt  # proven on the clean run
    assert run.intervention.edits == (off,)
    assert run.manifest["intervention"] == run.intervention.to_json()
    for one in (edit.Temperature(value=3.0), edit.ScalePositions(value=0.0)):
        assert not np.allclose(
            edited(tiny_model, one, check=False).logits, clean.logits, atol=1e-3
        ), one


@pytest.mark.slow
def test_only_what_is_asked_for_is_kept(tiny_model):
    """Whatever the proof or the edits."""
    site = Site("decoder", "cross", 1)
    small = trace(tiny_model, SOURCE, TARGET, keep=("weights", "scores"), only=(site,), check=False)
    assert [a.site for a in small.attentions] == [site]
    assert small.block("cross", 1).scores is not None and small.block("cross", 1).q is None
    refuses("'encoder' were not kept", small.attention, "encoder", error=LookupError)
    assert len(small.heads) == 14 and small.thumbnail("encoder").shape == (3, 2, 7, 7)
    for edits in ((), (edit.Temperature(value=2.0),)):
        for check in (True, False):
            case = edits, check
            for word, part in (("scores", "scores"), ("qkv", "q"), ("gradients", "gradients")):
                found = edited(tiny_model, *edits, keep=(word,), check=check).attentions
                kept = [one for one in found if getattr(one, part) is not None]
                assert len(found) == len(kept) == 7, (case, word)
            assert edited(tiny_model, *edits, keep=(), check=check).attentions == (), case
            states = edited(tiny_model, *edits, keep=("hidden",), check=check)
            assert states.attentions == (), case
            assert states.hidden("encoder").shape == (4, 7, 22), case


@pytest.mark.slow
def test_padding_masked_changes_nothing_and_unmasked_does(tiny_model):
    clean = trace(tiny_model, SOURCE, TARGET)
    masked = edited(tiny_model, edit.Pad(count=4))
    np.testing.assert_allclose(masked.logits, clean.logits, atol=2e-6)
    assert masked.attention("cross").shape == (2, 2, 5, 11)
    assert (masked.attention("cross")[..., 7:] == 0).all()
    seen = edited(tiny_model, edit.Pad(count=4, masked=False))
    assert (seen.attention("cross")[..., 7:] > 0).all()
    assert not np.allclose(seen.logits, clean.logits, atol=1e-3)


def test_decoder_only_and_encoder_only(tiny_gpt, build_model):
    gpt = trace(tiny_gpt, [2, 7, 31, 9])
    assert gpt.maps == ("decoder",) and gpt.target is None
    assert gpt.produced.ids == (7, 31, 9, int(gpt.logits[-1].argmax()))
    assert gpt.block("decoder", 0).query == "source"
    longer = trace(tiny_gpt, [2, 7], [31, 9])
    np.testing.assert_allclose(longer.logits, gpt.logits, atol=1e-6)
    assert trace(tiny_gpt, [2]).maps == ("decoder",)
    lone = build_model(decoder_layers=0, target_vocab=0)
    encoder = trace(lone, SOURCE)
    assert encoder.maps == ("encoder",) and encoder.logits is None and encoder.produced is None
    refuses("has no decoder; leave the target out", trace, lone, SOURCE, TARGET)


def test_vectors_go_into_a_core():
    layer = torch.nn.TransformerEncoderLayer(22, 2, 29, batch_first=True)
    core = load(torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))
    rows = np.sin(np.arange(5 * 22)).reshape(5, 22)
    result = trace(core, rows)
    assert result.attention("encoder").shape == (3, 2, 5, 5)
    assert result.source.labels == ("0", "1", "2", "3", "4") and result.source.ids == ()
    assert result.logits is None and result.produced is None
    for shape, said in (((3,), r"\(3,\)"), ((0, 22), r"\(0, 22\)")):
        refuses(rf"finite numbers \[token, d_model\]; got {said}", trace, core, np.zeros(shape))
    pad, said = Intervention((edit.Pad(count=2),)), "'pad' needs a padding token, and vectors have"
    refuses(said, trace, core, rows, intervention=pad)
    both = load(torch.nn.Transformer(22, 2, 1, 1, 29, batch_first=True))
    refuses("give the target's vectors too", trace, both, rows)


@pytest.mark.slow
def test_devices_precisions_and_numbers_of_heads(full, build_model):
    for device in ("cpu", *["cuda"] * torch.cuda.is_available()):
        other = trace(build_model().to(device), SOURCE, TARGET)
        assert other.manifest["device"] == device
        for name in full.maps:
            np.testing.assert_allclose(other.attention(name), full.attention(name), atol=1e-4)
        np.testing.assert_allclose(other.logits, full.logits, atol=1e-4)
    for heads in (1, 2, 7, 16):
        result = trace(build_model(heads=heads), SOURCE, TARGET)
        assert result.attention("cross").shape == (2, heads, 5, 7)
        assert result.report.status == "green", heads
    module = make_module()
    single = trace(load(module), SOURCE, TARGET)
    double = trace(load(module.double()), SOURCE, TARGET)
    assert double.report.status == "green"
    wanted = single.residuals["norm"].to_numpy()
    assert np.abs(double.residuals["norm"].to_numpy() - wanted).max() < 1e-5 * wanted.max()


def test_refusals_say_what_to_do(tiny_model):
    lost = edit.Temperature(value=2.0, stack="decoder", block="cross", layer=7)
    huge = edit.ScaleResidual(value=1e30)
    for words, said in (
        ({"keep": ("colour",)}, "keep has no word 'colour'; choose of weights"),
        ({"produced": (1, 2)}, "produced names 2 tokens for 5 target rows"),
        ({"produced": []}, "produced names 0 tokens for 5 target rows"),
        ({"produced": [7, 31, 9, 4, 41]}, "this model knows ids from 0 to 40"),
        ({"produced": [7, 31, 9, 4, -1]}, "this model knows ids from 0 to 40"),
        ({"intervention": Intervention((lost,))}, "cross L7: temperature 2.*matches no place"),
        ({"intervention": Intervention((huge,))}, r"1e\+30.*not a number.*smaller value"),
        ({"source": np.zeros((3, 22), int)}, "source is a batch of 3 rows of ids; give one row"),
    ):
        refuses(said, trace, tiny_model, **({"source": SOURCE, "target": TARGET} | words))
    for bad in ([2.7, 3.9], ["a", "b"], [[2, 3]], 5, np.zeros((1, 2, 3), int)):
        refuses("source must be text or whole token ids", trace, tiny_model, bad, TARGET)
        refuses("target must be text or whole token ids", trace, tiny_model, SOURCE, bad)
    said = "no 'middle' attention; it has encoder, decoder, cross"
    refuses(said, trace(tiny_model, SOURCE, TARGET).attention, "middle", error=LookupError)


def test_the_model_is_left_as_it_was(tiny_model):
    module = tiny_model.module
    before = copy.deepcopy(module.state_dict())
    words = {name: set(vars(part)) for name, part in module.named_modules()}
    trace(tiny_model, SOURCE, TARGET, keep=EVERYTHING)
    edited(tiny_model, edit.Temperature(value=2.0))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert words == {name: set(vars(part)) for name, part in module.named_modules()}
    for part in module.modules():
        assert not part._forward_hooks and not part._forward_pre_hooks


class Lazy(nn.Module):
    """Makes a table on its first call, and goes on with it."""

    def __init__(self, part):
        super().__init__()
        self.part, self.table = part, None

    def forward(self, *inputs, **words):
        self.table = torch.ones(1) if self.table is None else self.table
        return self.part(*inputs, **words) * self.table


class Derived(Transformer):
    """The reference Transformer with a table that its first call makes."""

    table = None

    def logits(self, x):
        self.table = torch.ones(1) if self.table is None else self.table
        return super().logits(x) * self.table


@pytest.mark.slow
def test_a_model_that_was_watched_can_still_be_trained(build_model):
    """Inference mode leaves tensors that no training takes. Only the reference Transformer as it
    was built runs in it: it makes no tables, and nobody else keeps what it makes."""
    for positions in ("sinusoidal", "learned", "rotary", "none"):
        for kind in ("as built", "derived", "exchanged", "hooked"):
            model, kept = build_model(positions=positions, d_k=4, d_v=4), []
            norm = model.module.decoder.layers[0].self_norm
            if kind == "derived":
                model.module.__class__ = Derived
            elif kind == "exchanged":
                model.module.decoder.layers[0].self_norm = Lazy(norm)
            elif kind == "hooked":
                norm.register_forward_hook(lambda part, given, out, kept=kept: kept.append(out))
            for check in (False, True)[: 2 if kind == "as built" else 1]:
                trace(model, SOURCE, TARGET, check=check)
                edited(model, edit.Temperature(value=2.0), check=check)
            translate(model, SOURCE, beam=2, max_tokens=4)
            translate(model, SOURCE, intervention=Intervention((edit.Temperature(value=2.0),)))
            ids = (
                torch.tensor([SOURCE], device=model.device),
                torch.tensor([TARGET]).to(model.device),
            )
            model.module.train()(*ids).square().mean().backward()
            grads = [x.grad for x in model.module.parameters()]
            assert all(x is not None and torch.isfinite(x).all() for x in grads), (positions, kind)
            assert not any(x.is_inference() for x in kept), positions
            assert bool(kept) == (kind == "hooked")


def test_gradients_do_not_depend_on_the_mode_of_the_caller(full, tiny_model):
    found = []

    def ask(*done):
        found.append(trace(tiny_model, SOURCE, TARGET, keep=["gradients"], check=False))

    translate(tiny_model, SOURCE, beam=1, max_tokens=2, on_progress=ask)
    with torch.no_grad():
        ask()
    with torch.inference_mode():
        ask()
    assert len(found) >= 3
    for one in found:
        np.testing.assert_array_equal(one.gradients("cross"), full.gradients("cross"))


def test_a_run_that_would_fill_a_memory_is_refused_before_it_begins(tiny_model, monkeypatch):
    card = lambda device: 10**6 if device == "cuda:1" else 2000  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(estimate, "card_left", card)
        read = read_source(tiny_model, SOURCE, TARGET, Intervention(), None, (), None)
        said, there = r"for \d+ tokens, and its graphics card has 0.0 left", "cuda:0"
        flood = (replace(tiny_model, device=there), read, ("weights",), None, True)
        refuses(said, estimate.refuse_flood, *flood)
        assert estimate.may_take(replace(tiny_model, device="cuda:1"))[0] == 900_000
        assert estimate.may_take(tiny_model)[0] > 900_000
    monkeypatch.setattr(estimate, "memory", lambda: 2000)
    trace(tiny_model, SOURCE, TARGET, keep=(), check=False)  # statistics are small
    said = r"GB of maps for \d+ tokens.*Give a shorter input"
    refuses(said, trace, tiny_model, SOURCE, TARGET)
    monkeypatch.setattr(estimate, "memory", lambda: 2 * 2 * len(SOURCE) ** 2 * 4)
    trace(tiny_model, SOURCE, TARGET, only=(Site("encoder", "self", 0),), check=False)
    refuses("GB of maps", trace, tiny_model, SOURCE, TARGET, check=False)


def test_a_proof_that_does_not_fit_the_memory_is_left_out(tiny_model, monkeypatch, tmp_path):
    read = read_source(tiny_model, SOURCE, TARGET, Intervention(), None, (), None)
    kept = estimate.needed(tiny_model, read, ("weights",), None, False)
    monkeypatch.setattr(estimate, "memory", lambda: 4 * kept)
    found = trace(tiny_model, SOURCE, TARGET)
    assert not found.report.laws and found.report.output_difference is None
    assert found.report.left_out.startswith("The proof was left out: beside 0.0 GB of maps")
    assert found.report.left_out in str(findings_of(found))
    found.save(tmp_path / "run.safetensors")
    again = Trace.load(tmp_path / "run.safetensors").report
    assert again.left_out == found.report.left_out
    refuses(r"GB of maps for \d+ tokens", trace, tiny_model, SOURCE, TARGET, check=True)
    monkeypatch.setattr(estimate, "memory", lambda: 400 * kept)
    for check in (None, True):
        report = trace(tiny_model, SOURCE, TARGET, check=check).report
        assert report.status == "green" and not report.left_out, check
