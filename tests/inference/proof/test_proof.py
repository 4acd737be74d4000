"""The proof: each kernel accounted for, axes and edits by a second way, and unchecked runs."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import transformer_viz as tv
from tests.foreign.blind_spots import Attention, Model, causal, strong
from transformer_viz import Trace, trace
from transformer_viz.app.checkpoint.facts import MARKS
from transformer_viz.bertviz import neuron_view
from transformer_viz.capture.handlers.residual import length_of
from transformer_viz.capture.handlers.softmax import weighed
from transformer_viz.capture.records import AttentionRecord
from transformer_viz.capture.reference import noting_transformer
from transformer_viz.checkpoints import load
from transformer_viz.core.apply_edits import Plan
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.trace_parts import KernelRun
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.inspection import inspect
from transformer_viz.inference.proof.accounts import places
from transformer_viz.inference.proof.kernels import KernelMode
from transformer_viz.inference.proof.prove import prove
from transformer_viz.inference.proof.token_order import order_gap
from transformer_viz.views.export.html_report import report as html_report
from transformer_viz.views.numbers import manifest

WORDS = [5, 9, 2, 7, 3]


class Attend(nn.Module):
    """One head; ``how`` makes weights ``[query, key]`` of scores."""

    def __init__(self, how: str):
        super().__init__()
        self.how = how
        self.wo = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        scores = x @ x.transpose(-2, -1)
        if self.how == "fused":
            return self.wo(F.scaled_dot_product_attention(x, x, x, is_causal=True))
        if self.how == "hand":
            raised = (scores - scores.amax(-1, keepdim=True)).exp()
            weights = raised / raised.sum(-1, keepdim=True)
        elif self.how == "kernel":  # below torch's functions, where no probe sees it
            weights = torch.ops.aten._softmax(scores, -1, False)
        else:
            weights = scores.softmax(-1)
        return self.wo(weights @ x)


def test_the_witness_sees_each_way_to_make_weights():
    for how in ("softmax", "hand", "kernel", "fused"):
        torch.manual_seed(0)
        x = torch.randn(1, 1, 4, 6)
        module = Attend(how)
        with torch.no_grad(), KernelMode(module) as mode:
            module(x)
        (kernel,) = mode.kernels
        scores = (x @ x.transpose(-2, -1)).double()
        if how == "fused":
            scores = (scores / 6**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
        by_sum = scores.exp() / scores.exp().sum(-1, keepdim=True)
        torch.testing.assert_close(kernel.rows.double(), by_sum.view(4, 4), rtol=0, atol=1e-6)
        assert (kernel.met, kernel.projected is None) == ("product", False), how
    # a softmax that no probe can see is missed, and said to be
    module, x = Attend("kernel"), torch.randn(2, 5, 6)
    proof = prove(module, lambda: module(x))
    assert [kernel.fate for kernel in proof.kernels] == ["missed"] and not proof.holds


def test_rows_of_a_kernel_may_lie_in_any_order_of_the_axes():
    free = torch.ones(2, 3, 5, dtype=torch.bool)
    whole = [tuple(found.tolist()) for found in places(30, free)]
    assert len(set(whole)) == 6
    assert all(sorted(found) == list(range(30)) for found in whole)
    shares = [set(found.tolist()) for found in places(10, free)]  # one head of three
    assert {frozenset(share) for share in shares} >= {
        frozenset(range(first, first + 5)) | frozenset(range(first + 15, first + 20))
        for first in (0, 5, 10)
    }


@pytest.mark.slow
def test_a_clean_run_is_proved_at_every_place(tiny_model):
    report = trace(tiny_model, WORDS).report
    assert (report.status, report.missed, report.broken, report.untold) == ("green", (), {}, ())
    assert len(report.laws) == len(report.sites) == len(report.kernels)
    wanted = {"kernel", "rows", "batch", "temperature", "hidden key", "window", "heads"}
    wanted |= {"statistics", "queries and keys", "single heads", "own notes"}
    for place, gaps in report.laws.items():
        causal = {"causal off"} if place.startswith("decoder") else set()
        assert set(gaps) - {"token order"} == wanted | causal
        if not place.startswith("decoder"):  # whose tokens are all the same here
            assert gaps["token order"] == 0
    said = [finding.sentence for finding in findings_of(trace(tiny_model, WORDS))]
    assert said[3] == (
        f"Each of the {len(report.kernels)} softmaxes that ran was captured, with the same numbers."
    )


@pytest.mark.slow
def test_a_wrong_edit_is_named(tiny_model, monkeypatch):
    right = Plan.changed_scores

    def wrong(self: Plan, scores: Tensor) -> Tensor:
        here = self.site.layer == 1 and self.site.stack == "encoder"
        return scores if here else right(self, scores)

    with monkeypatch.context() as patch:
        patch.setattr(Plan, "changed_scores", wrong)
        found = trace(tiny_model, WORDS)
    ((place, laws),) = found.report.broken.items()
    assert place.startswith("encoder L1") and laws == ("temperature",)
    last = findings_of(found)[4]
    assert found.report.status == last.status == "amber"
    assert last.sentence == f"Not everything about axes and edits is proved on this input: {place}."
    assert any("temperature: off by" in line for line in last.details)
    per_head = Plan.per_head  # heads scaled in each other's place
    turned = lambda self, values, like: per_head(self, values[1:] + values[:1], like)  # noqa: E731
    monkeypatch.setattr(Plan, "per_head", turned)
    broken = trace(tiny_model, WORDS).report.broken
    assert broken and all("heads" in laws for laws in broken.values())


def test_the_proof_changes_nothing_and_is_stored_with_the_trace(tiny_model, tmp_path):
    state = tiny_model.module.state_dict()
    before = {name: value.clone() for name, value in state.items()}
    random = torch.get_rng_state()
    found = trace(tiny_model, WORDS)
    assert all(torch.equal(value, before[name]) for name, value in state.items())
    assert torch.equal(torch.get_rng_state(), random)
    found.save(tmp_path / "run.safetensors")
    assert Trace.load(tmp_path / "run.safetensors").report == found.report
    for change in (
        {"kernels": (KernelRun("_softmax", "a", 4, 4, "missed"),)},
        {"laws": {"encoder L0": {"batch": None}}},
        {"laws": {"encoder L0": {"heads": 0.1}}},
        {"untold": ("encoder L0: something",)},
    ):
        assert dataclasses.replace(found.report, **change).status == "amber", change


def record_of(scores: Tensor, **words) -> AttentionRecord:
    """A self-attention with these scores ``[query, key]``."""
    weights, words = scores.softmax(-1)[None, None], {"shape": (4, 4)} | words
    return AttentionRecord(
        "", "self", "encoder", 0, scores=scores[None, None], weights=weights, **words
    )


def test_exchanged_tokens_change_their_own_rows_and_columns():
    before = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    for rows, columns, error in (
        ((1, 2), (1, 2), 0.0),  # the exchanged tokens' own rows and columns
        ((1, 2), (1, 3), float("inf")),  # a column of another token
        ((0, 2), (1, 2), float("inf")),  # a row of another token
        ((1,), (1, 2), float("inf")),  # a token without its row
        ((1, 2), (1,), float("inf")),  # a token without its column
        ((), (1, 2), 0.0),  # scores of keys alone
        ((), (), None),
    ):
        after = before + torch.arange(4.0)[:, None]  # a number a row changes no softmax
        for row in rows:
            after[row] += torch.tensor((0.0, 1.0, 3.0, 5.0))
        for column in columns:
            after[:, column] += torch.tensor((1.0, 2.0, 4.0, 3.0))
        gap = order_gap(record_of(before), record_of(after), (1, 2), 4, None)
        assert gap == error, (rows, columns)
    # a token of an earlier pass changes its column alone
    later = torch.ones(4, 8).triu(5).bool()
    before = torch.arange(32.0).view(4, 8).masked_fill(later, -torch.inf)
    column, row, words = before.clone(), before.clone(), {"shape": (4, 8), "offset": 4}
    column[:, 2] += 1
    row[2, :4] += torch.tensor((1.0, 3.0, 2.0, 5.0))
    for after, token, error in ((column, 2, 0.0), (row, 2, float("inf")), (row, 6, 0.0)):
        gap = order_gap(record_of(before, **words), record_of(after, **words), (token,), 8, None)
        assert gap == error, token


@pytest.mark.slow
def test_the_report_compares_the_models_own_notes_with_the_probe(tiny_model, monkeypatch):
    words = {"target": [2, 8, 11], "intervention": Intervention((Temperature(value=2.0),))}
    run = lambda: trace(tiny_model, [5, 9, 31, 3], check=True, **words).report  # noqa: E731
    report = run()
    assert report.status == "green"
    assert all(0 <= gaps["own notes"] < 1e-6 for gaps in report.laws.values())

    def wrong(*given):
        scores, weights = weighed(*given)
        return scores, weights.roll(1, -1)

    for name, fault in (("weighed", wrong), ("length_of", lambda x: 2 * length_of(x))):
        with monkeypatch.context() as patch:
            patch.setattr(noting_transformer, name, fault)
            report = run()
        assert report.status == "amber", name
        assert {law for laws in report.broken.values() for law in laws} == {"own notes"}, name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_laws_are_tried_once_a_module_and_each_text_in_three_passes(dtype, monkeypatch):
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2}
    torch.manual_seed(0)
    module, made = LlamaForCausalLM(LlamaConfig(**sizes)).to(dtype).eval(), []
    module.register_forward_pre_hook(lambda *_: made.append(1))
    model, counts, laws = load(module), [], []
    for ids in (range(5, 17), range(40, 28, -1)):
        made.clear()
        report = trace(model, list(ids)).report
        assert report.status == "green", report.broken
        counts.append(len(made))
        laws.append({site: set(found) for site, found in report.laws.items()})
    assert counts[0] <= 8 and counts[1] <= 3 and laws[0] == laws[1]
    wanted = {"temperature", "hidden key", "heads", "causal off"}
    assert all(wanted <= found for found in laws[0].values())
    turned = {"changed_scores": lambda right, self, x: x}  # nothing is remembered of another probe
    turned["per_head"] = lambda right, self, values, like: right(self, values[::-1], like)
    for layer, (name, fault) in product(range(2), turned.items()):
        right = getattr(Plan, name)

        def wrong(self: Plan, *given, layer=layer, fault=fault, right=right):
            return fault(right, self, *given) if self.site.layer == layer else right(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(Plan, name, wrong)
            assert trace(model, list(range(5, 17))).report.status == "amber", (layer, name)
    assert trace(model, list(range(5, 17))).report.status == "green"


TEXT = [3, 9, 14, 20, 26, 31]


def test_a_run_without_a_proof_is_called_unchecked_everywhere(tmp_path):
    model = tv.load(strong(Model(Attention(causal), Attention(causal))))
    run = tv.trace(model, TEXT, check=False)
    run.save(tmp_path / "run.safetensors")
    for one in (run, Trace.load(tmp_path / "run.safetensors")):
        assert one.report.status == str(one.report) == "unchecked"
        assert {finding.status for finding in findings_of(one)} == {"unchecked"}
        assert manifest(one)["capture report"] == "unchecked"
        page = html_report(one)
        assert "Capture not checked" in page and "Capture report green" not in page
        assert neuron_view._proof(one) == "The capture of this run was not checked."
    assert MARKS["unchecked"][0] not in (MARKS["green"][0], MARKS["amber"][0])
    for change in ({"row_sum_error": 0.1}, {"unrecognised": ("layer 1",)}, {"sites": ()}):
        report = dataclasses.replace(run.report, **change)
        wrong = dataclasses.replace(run, report=report)
        assert wrong.report.status == "amber", change
        assert "amber" in {finding.status for finding in findings_of(wrong)} or "sites" in change
    assert inspect(model).status != "unchecked"
