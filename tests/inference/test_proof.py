"""The proof: kernels seen below the probe, each accounted for; axes and edits by a second way."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from transformer_viz import Trace, trace
from transformer_viz.capture.edit_plan import Plan
from transformer_viz.capture.handlers.residual import length_of
from transformer_viz.capture.handlers.softmax import weighed
from transformer_viz.capture.records import AttentionRecord
from transformer_viz.capture.reference import noting_transformer
from transformer_viz.checkpoints import load
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.trace_parts import KernelRun
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.proof.accounts import places
from transformer_viz.inference.proof.kernels import KernelMode
from transformer_viz.inference.proof.prove import prove
from transformer_viz.inference.proof.token_order import order_gap

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


def kernels_of(how: str, x: Tensor) -> KernelMode:
    module = Attend(how)
    with torch.no_grad(), KernelMode(module) as mode:
        module(x)
    return mode


@pytest.mark.parametrize("how", ["softmax", "hand", "kernel", "fused"])
def test_the_witness_sees_each_way_to_make_weights(how):
    torch.manual_seed(0)
    x = torch.randn(1, 1, 4, 6)
    (kernel,) = kernels_of(how, x).kernels
    scores = (x @ x.transpose(-2, -1)).double()
    if how == "fused":
        scores = (scores / 6**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    by_sum = scores.exp() / scores.exp().sum(-1, keepdim=True)
    torch.testing.assert_close(kernel.rows.double(), by_sum.view(4, 4), rtol=0, atol=1e-6)
    assert (kernel.met, kernel.projected is None) == ("product", False)


def test_what_no_probe_can_see_is_missed_and_not_silent():
    module, x = Attend("kernel"), torch.randn(2, 5, 6)
    proof = prove(module, lambda: module(x))
    assert [kernel.fate for kernel in proof.kernels] == ["missed"]
    assert not proof.holds


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
        f"Each of the {len(report.kernels)} softmaxes that ran is shown, with the same numbers."
    )


def test_an_edit_that_goes_wrong_in_one_layer_is_named(tiny_model, monkeypatch):
    right = Plan.changed_scores

    def wrong(self: Plan, scores: Tensor) -> Tensor:
        return (
            scores if self.site.layer == 1 and self.site.stack == "encoder" else right(self, scores)
        )

    monkeypatch.setattr(Plan, "changed_scores", wrong)
    found = trace(tiny_model, WORDS)
    ((place, laws),) = found.report.broken.items()
    assert place.startswith("encoder L1")
    assert laws == ("temperature",)
    assert found.report.status == "amber"
    last = findings_of(found)[4]
    assert last.status == "amber"
    assert last.sentence == f"Not everything about axes and edits is proved on this input: {place}."
    assert any("temperature: off by" in line for line in last.details)


def test_a_head_scaled_in_the_wrong_place_is_seen(tiny_model, monkeypatch):
    right = Plan.per_head

    def shifted(self: Plan, values: list[float], like: Tensor) -> Tensor:
        return right(self, values[1:] + values[:1], like)

    monkeypatch.setattr(Plan, "per_head", shifted)
    broken = trace(tiny_model, WORDS).report.broken
    assert broken
    assert all("heads" in laws for laws in broken.values())


def test_the_proof_leaves_the_module_as_it_was(tiny_model):
    before = {name: value.clone() for name, value in tiny_model.module.state_dict().items()}
    random = torch.get_rng_state()
    trace(tiny_model, WORDS)
    assert all(
        torch.equal(value, before[name]) for name, value in tiny_model.module.state_dict().items()
    )
    assert torch.equal(torch.get_rng_state(), random)


def test_a_report_is_stored_and_read_with_its_proof(tiny_model, tmp_path):
    found = trace(tiny_model, WORDS)
    found.save(tmp_path / "run.safetensors")
    assert Trace.load(tmp_path / "run.safetensors").report == found.report


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": (KernelRun("_softmax", "a", 4, 4, "missed"),)},
        {"laws": {"encoder L0": {"batch": None}}},
        {"laws": {"encoder L0": {"heads": 0.1}}},
        {"untold": ("encoder L0: something",)},
    ],
)
def test_what_is_missed_untold_or_wrong_turns_amber(tiny_model, change):
    report = dataclasses.replace(trace(tiny_model, WORDS).report, **change)
    assert report.status == "amber"


def record_of(scores: Tensor) -> AttentionRecord:
    """A self-attention with these scores ``[query, key]``."""
    weights = scores.softmax(-1)[None, None]
    return AttentionRecord(
        "", "self", "encoder", 0, shape=(4, 4), scores=scores[None, None], weights=weights
    )


@pytest.mark.parametrize(
    ("rows", "columns", "error"),
    [
        ((1, 2), (1, 2), 0.0),  # the exchanged tokens' own rows and columns
        ((1, 2), (1, 3), float("inf")),  # a column of another token
        ((0, 2), (1, 2), float("inf")),  # a row of another token
        ((1,), (1, 2), float("inf")),  # a token without its row
        ((1, 2), (1,), float("inf")),  # a token without its column
        ((), (1, 2), 0.0),  # scores of keys alone
        ((), (), None),
    ],
)
def test_exchanged_tokens_tell_their_rows_and_columns(rows, columns, error):
    before = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    after = before + torch.arange(4.0)[:, None]  # a number a row changes no softmax
    for row in rows:
        after[row] += torch.tensor((0.0, 1.0, 3.0, 5.0))
    for column in columns:
        after[:, column] += torch.tensor((1.0, 2.0, 4.0, 3.0))
    assert order_gap(record_of(before), record_of(after), (1, 2), 4, None) == error


def test_a_token_of_an_earlier_pass_changes_its_column_alone():
    later = torch.ones(4, 8).triu(5).bool()
    before = torch.arange(32.0).view(4, 8).masked_fill(later, -torch.inf)
    column, row = before.clone(), before.clone()
    column[:, 2] += 1
    row[2, :4] += torch.tensor((1.0, 3.0, 2.0, 5.0))

    def record(scores: Tensor) -> AttentionRecord:
        return dataclasses.replace(record_of(scores), shape=(4, 8), offset=4)

    for after, error in ((column, 0.0), (row, float("inf"))):
        assert order_gap(record(before), record(after), (2,), 8, None) == error
    assert order_gap(record(before), record(row), (6,), 8, None) == 0.0  # its own row


def test_the_report_compares_what_the_model_tells_with_the_probe(tiny_model, monkeypatch):
    edit = Intervention((Temperature(value=2.0),))
    words = {"target": [2, 8, 11], "intervention": edit, "check": True}
    report = trace(tiny_model, [5, 9, 31, 3], **words).report
    assert report.status == "green"
    assert all(0 <= (gaps["own notes"]) < 1e-6 for gaps in report.laws.values())

    def wrong(*given):
        scores, weights = weighed(*given)
        return scores, weights.roll(1, -1)

    monkeypatch.setattr(noting_transformer, "weighed", wrong)
    report = trace(tiny_model, [5, 9, 31, 3], **words).report
    assert report.status == "amber"
    assert {law for laws in report.broken.values() for law in laws} == {"own notes"}
    monkeypatch.undo()
    monkeypatch.setattr(noting_transformer, "length_of", lambda x: 2 * length_of(x))
    report = trace(tiny_model, [5, 9, 31, 3], **words).report
    assert {law for laws in report.broken.values() for law in laws} == {"own notes"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_laws_are_tried_once_a_module_and_each_text_in_three_passes(dtype, monkeypatch):
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(0)
    module = LlamaForCausalLM(config).to(dtype).eval()
    passes = [0]
    module.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    model, counts, laws = load(module), [], []
    for ids in (range(5, 17), range(40, 28, -1)):
        passes[0] = 0
        report = trace(model, list(ids)).report
        assert report.status == "green", report.broken
        counts.append(passes[0])
        laws.append({site: set(found) for site, found in report.laws.items()})
    assert counts[0] <= 8 and counts[1] <= 3 and laws[0] == laws[1]
    assert all(
        {"temperature", "hidden key", "heads", "causal off"} <= found for found in laws[0].values()
    )
    for layer in range(3):  # nothing is remembered of another probe
        for name in ("changed_scores", "per_head"):
            right = getattr(Plan, name)

            def wrong(self: Plan, *given, layer=layer, name=name, right=right):
                if self.site.layer != layer:
                    return right(self, *given)
                return (
                    given[0] if name == "changed_scores" else right(self, given[0][::-1], given[1])
                )

            with monkeypatch.context() as patch:
                patch.setattr(Plan, name, wrong)
                assert trace(model, list(range(5, 17))).report.status == "amber", (layer, name)
    assert trace(model, list(range(5, 17))).report.status == "green"
