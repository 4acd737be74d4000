"""tv.metrics and tv.roles on models whose heads are known, and on those that people have."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch

import transformer_viz as tv
from tests.support import witness_models
from tests.support.witness_models import Witness
from transformer_viz.metrics.heads.registry import METRICS, NAMES

pytestmark = pytest.mark.families

ROLES = [metric.name for metric in METRICS if metric.threshold]
SENTENCES = [
    "The cat sat on the mat.",
    "A dog didn't cross the street, because it was too tired.",
    "The animal saw the cat and the dog.",
    "Why did the tired cat cross the street?",
    "I have never seen such a beautiful house before.",
    "Tom said that Mary would not come to the party.",
    "She gave him a book, and he gave her a pen.",
    "We went to Boston in the summer.",
    "The old man is reading a book about old men.",
    "If you want to go, you should go now.",
    "The children are playing in the garden behind the school.",
    "He asked me whether I knew where his brother lived.",
]
#: W1 by hand: previous, self, first, duplicate, induction, entropy of each head (raw view).
CAUSAL = {
    "previous": (1, 0, 0, 0, 0, 0),
    "duplicate": (0, 0, 11 / 23, 1, 0, 0),
    "sink": (0, 0, 1, 0, 0, 0),
    "uniform": (0.1007, 0.1173, 0.1007, 0.0530, 0.0530, 1),
    "induction": (0, 0, 11 / 23, 0, 1, 0),
    "induction_copy": (0, 0, 11 / 23, 0, 1, 0),
    "self": (0, 1, 0, 0, 0, 0),
    "uniform_1": (0.1007, 0.1173, 0.1007, 0.0530, 0.0530, 1),
}
SHOWN = ["previous", "self", "sink", "duplicate", "induction", "entropy"]
LOOSE = 5e-5  # of figures that are written with four decimals


def of(table: pd.DataFrame, witness: Witness, name: str) -> pd.Series:
    """The row of a named head."""
    stack, block, layer, head = witness.where[name]
    found = table[(table["stack"] == stack) & (table["block"] == block)]
    return found[(found["layer"] == layer) & (found["head"] == head)].iloc[0]


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_head_of_the_causal_witness_is_what_it_is(seed: int | None) -> None:
    witness = witness_models.causal(seed)
    table = tv.roles(tv.metrics(witness.model, witness.prompts, view="raw"))
    for name, wanted in CAUSAL.items():
        row = of(table, witness, name)
        loose = LOOSE if name.startswith("uniform") else 1e-6
        assert row[SHOWN].tolist() == pytest.approx(wanted, abs=loose), name
    assert np.isnan(table["next"]).all()
    assert (table["sink_rows"] == 23 * 8).all()
    assert of(table, witness, "previous")["positional_offset"] == -1
    named = {name: of(table, witness, name)["roles"] for name in CAUSAL}
    assert named == {
        "previous": ("previous", "positional"),
        "duplicate": ("duplicate",),
        "sink": (),
        "uniform": (),
        "induction": ("induction", "copying"),
        "induction_copy": ("induction", "copying"),
        "self": ("self", "positional"),
        "uniform_1": (),
    }
    for name in ("uniform", "uniform_1"):  # what a uniform head gets is chance
        row = of(table, witness, name)
        for metric in ("entropy", "confidence", "distance", "previous", "self", "positional"):
            assert row[metric] == pytest.approx(row[f"{metric}_chance"], abs=1e-6)


def test_the_content_view_leaves_the_sink_head_without_a_word() -> None:
    witness = witness_models.causal()
    table = tv.roles(tv.metrics(witness.model, witness.prompts))
    sink = of(table, witness, "sink")
    assert (sink["roles"], sink["states"]) == ((), ("sink",))
    assert np.isnan(sink["entropy"])
    assert sink["entropy_rows"] == 0
    assert of(table, witness, "duplicate")["duplicate"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_head_of_the_encoder_decoder_is_what_it_is(seed: int | None) -> None:
    witness = witness_models.encoder_decoder(seed)
    table = tv.roles(tv.metrics(witness.model, witness.prompts, view="raw"))
    for name in ("previous", "next", "self", "duplicate"):
        row = of(table, witness, name)
        assert row[name] == pytest.approx(1, abs=1e-6)
        others = {"previous", "next", "self", "duplicate"} - {name}
        assert all(other not in row["roles"] for other in others)
        assert name in row["roles"]
    cross = {name: of(table, witness, name) for name in ("diagonal", "eos", "uniform_cross")}
    assert cross["diagonal"][["self", "monotonicity", "diagonality", "coverage"]].tolist() == (
        pytest.approx([1, 1, 1, 1], abs=1e-6)
    )
    assert of(table, witness, "shifted")["previous"] == pytest.approx(1, abs=1e-6)
    assert cross["eos"]["special"] == pytest.approx(1, abs=1e-6)
    assert cross["uniform_cross"][["self", "special", "monotonicity"]].tolist() == (
        pytest.approx([1 / 6, 1 / 6, 0.5], abs=1e-6)
    )
    assert np.isnan(table.loc[table["block"] == "cross", ["duplicate", "induction"]]).all(axis=None)
    back = witness_models.reversed_cross(seed)
    row = of(tv.metrics(back.model, back.prompts), back, "reversed")
    assert row["monotonicity"] == pytest.approx(0, abs=1e-6)
    assert row["diagonality"] < 0


@pytest.mark.parametrize("length", [8, 12, 40])
def test_a_perfect_head_has_one_at_any_length(length: int) -> None:
    witness = witness_models.causal(lengths=(length,) * 2, vocabulary=48, positions=96)
    table = tv.metrics(witness.model, witness.prompts, view="raw")
    for name in ("previous", "duplicate", "induction", "self"):
        assert of(table, witness, name)[name] == pytest.approx(1, abs=1e-6)


def test_what_heads_write() -> None:
    witness = witness_models.copying(seed=1)
    table = tv.roles(tv.metrics(witness.model, witness.prompts))
    for name, copies, circuit in (("copy", 1, 1), ("negated", 0, -1), ("next_id", 0, 0)):
        row = of(table, witness, name)
        assert row[["copying", "ov_copying"]].tolist() == pytest.approx([copies, circuit], abs=1e-6)
        assert ("copying" in row["roles"]) == (copies == 1)
        assert row["copying_chance"] == pytest.approx(5 / 20)
    random = of(table, witness, "random")
    assert abs(random["ov_copying"]) < 0.2
    assert "copying" not in random["roles"]


def test_a_fixed_shift_is_no_induction_once_the_period_varies() -> None:
    witness = witness_models.decoys()
    fixed = tv.metrics(witness.model, witness.prompts)
    assert of(fixed, witness, "shift_11")["induction"] == pytest.approx(1, abs=1e-6)
    varied = witness_models.repeats((12, 13, 17, 21, 24, 30, 33, 36), 48)
    table = tv.roles(tv.metrics(witness.model, varied))
    assert of(table, witness, "shift_11")["induction"] < 0.2
    assert not any("induction" in names for names in table["roles"])
    assert (of(table, witness, "sink")["roles"], of(table, witness, "sink")["states"]) == (
        (),
        ("sink",),
    )


@pytest.mark.parametrize("spread", [0.02, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_random_weights_have_no_role(seed: int, spread: float) -> None:
    witness = witness_models.random_weights(seed, spread=spread)
    for view in ("content", "raw"):
        table = tv.roles(tv.metrics(witness.model, witness.prompts, view=view))
        assert set(table["roles"]) == {()}


def test_many_sentences_are_the_rows_of_each() -> None:
    witness = witness_models.random_weights(spread=0.15)
    model = tv.load(witness.model)
    pooled = tv.metrics(model, witness.prompts)
    traces = [tv.trace(model, ids, check=False) for ids in witness.prompts]
    single = [tv.metrics(one) for one in traces]
    for name in ("entropy", "previous", "duplicate", "sink"):
        rows = sum(table[f"{name}_rows"] for table in single)
        total = sum((table[name] * table[f"{name}_rows"]).fillna(0) for table in single)
        assert pooled[f"{name}_rows"].tolist() == rows.tolist()
        assert pooled[name].to_numpy() == pytest.approx((total / rows).to_numpy(), abs=1e-6)
    again = tv.metrics(model, witness.prompts[::-1])
    assert pooled[list(NAMES)].equals(again[list(NAMES)])


def test_padded_batches_left_and_right_are_the_sentences_alone() -> None:
    """The weights of a padded batch are those of the model's own run; see test_merging.py."""
    witness = witness_models.random_weights(spread=0.15)
    prompt, other = witness.prompts[0], witness.prompts[3]
    with torch.no_grad():
        alone = witness.model(torch.tensor([prompt]), output_attentions=True).attentions
        more = len(other) - len(prompt)
        for left in (0, more):
            ids = torch.tensor([[0] * left + prompt + [0] * (more - left), other])
            mask = torch.ones_like(ids)
            real = torch.arange(len(prompt)) + left
            mask[0] = 0
            mask[0, real] = 1
            places = (mask.cumsum(-1) - 1).clamp(min=0)
            run = witness.model(
                ids, attention_mask=mask, position_ids=places, output_attentions=True
            )
            for one, many in zip(alone, run.attentions, strict=True):
                inside = many[0][:, real]
                assert torch.allclose(inside[..., real], one[0], atol=1e-6)
                padding = mask[0] == 0
                assert float(inside[..., padding].abs().max()) == 0.0


def test_heads_in_another_order_are_rows_in_another_order() -> None:
    twins = witness_models.gauge_twins()
    here, there = (
        tv.metrics(twins[name].model, twins[name].prompts) for name in ("original", "permuted")
    )
    for layer, order in enumerate(twins["permuted"].model.order):
        one, other = (t[t["layer"] == layer].reset_index(drop=True) for t in (here, there))
        columns = [*NAMES, *(f"{name}_rows" for name in NAMES)]
        wanted = one.loc[order, columns].to_numpy(float)
        assert other[columns].to_numpy(float) == pytest.approx(wanted, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("twin", ["bias", "scaled", "rotated"])
def test_what_a_head_writes_does_not_depend_on_how_it_is_written_down(twin: str) -> None:
    twins = witness_models.gauge_twins()
    tables = [tv.metrics(twins[name].model, twins[name].prompts) for name in ("original", twin)]
    names = [name for name in NAMES if not (twin == "bias" and name in ("null", "copying"))]
    wanted = tables[0][names].to_numpy(float)
    assert tables[1][names].to_numpy(float) == pytest.approx(wanted, abs=1e-4, nan_ok=True)


def test_half_precision_is_counted_in_full() -> None:
    witness = witness_models.random_weights(spread=0.15)
    half = tv.load(deepcopy(witness.model).to(torch.bfloat16))
    assert tv.trace(half, witness.prompts[0], check=False).manifest["dtype"] == "bfloat16"
    full, low = (tv.metrics(model, witness.prompts) for model in (witness.model, half))
    for name in ("entropy", "distance", "previous", "self", "sink", "duplicate", "induction"):
        assert full[f"{name}_rows"].tolist() == low[f"{name}_rows"].tolist()
        assert low[name].to_numpy() == pytest.approx(full[name].to_numpy(), abs=1e-2), name


def test_one_trace_has_scores_rows_and_chance_and_no_interval() -> None:
    witness = witness_models.causal()
    model = tv.load(witness.model)
    trace = tv.trace(model, witness.prompts[0], keep=("weights", "scores"), check=False)
    table = tv.metrics(trace)
    places = ["stack", "block", "layer", "head"]
    assert table[places].equals(trace.heads[places])
    for name in NAMES:
        assert {name, f"{name}_rows", f"{name}_chance"} <= set(table)
        assert f"{name}_low" not in table
        assert np.isnan(table[name])[table[f"{name}_rows"] == 0].all()
    assert table[["null", "copying", "ov_copying"]].isna().all(axis=None)
    without = tv.metrics(tv.trace(model, witness.prompts[0], check=False))
    assert without.equals(table)  # the mask told from the weights is the mask of the scores
    named = tv.roles(table)["roles"]
    assert named[of(named.to_frame().join(table), witness, "induction").name] == ("induction",)


def test_intervals_hold_the_value_and_want_five_sentences() -> None:
    witness = witness_models.random_weights(spread=0.15)
    heard: list[int] = []
    table = tv.metrics(witness.model, witness.prompts, heard.append)
    assert heard == list(range(1, len(witness.prompts) + 1))
    for name in ("entropy", "confidence", "sink", "previous"):
        assert (table[f"{name}_low"] <= table[name]).all()
        assert (table[name] <= table[f"{name}_high"]).all()
        assert (table[f"{name}_low"] < table[f"{name}_high"]).any()
    assert table.equals(tv.metrics(witness.model, witness.prompts))
    few = tv.metrics(witness.model, witness.prompts[:4])
    assert few["entropy_low"].isna().all()
    assert few["previous_p"].isna().all()


def test_the_null_of_a_true_head_is_low() -> None:
    witness = witness_models.causal()
    table = tv.metrics(witness.model, witness.prompts)
    for name in ("previous", "self", "duplicate", "induction"):
        row = of(table, witness, name)
        assert row[f"{name}_null"] < 0.3
        assert row[f"{name}_p"] < 1e-9
    uniform = of(table, witness, "uniform")
    assert uniform["duplicate_p"] > 0.01


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"view": "clean"}, "no view 'clean'; choose of content, raw"),
        ({}, "Give the model a list of sentences"),
        ({"sentences": "The cat sat."}, "Give the model a list of sentences"),
        ({"sentences": []}, "Give the model a list of sentences"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tv.metrics(witness_models.decoys().model, **ask)


def test_a_trace_takes_no_sentences_and_needs_its_matrices() -> None:
    witness = witness_models.decoys()
    model = tv.load(witness.model)
    with pytest.raises(ValueError, match="A trace is one run"):
        tv.metrics(tv.trace(model, [0, 1, 2], check=False), [[0, 1]])
    with pytest.raises(LookupError, match="were not kept in this trace"):
        tv.metrics(tv.trace(model, [0, 1, 2], keep=("hidden",), check=False))


def test_families_of_random_weights_have_values_and_no_role() -> None:
    """Grouped queries, windows that differ by layer, ALiBi, relative bias, torch.nn itself."""
    import transformers as hf

    small = {"vocab_size": 64, "hidden_size": 48, "num_attention_heads": 4}
    deep = small | {"intermediate_size": 40, "num_hidden_layers": 3, "num_key_value_heads": 2}
    t5 = {"vocab_size": 64, "d_model": 48, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    layer = torch.nn.TransformerEncoderLayer(48, 4, 40, batch_first=True)
    stack = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    rng = np.random.default_rng(0)
    prompts = [[1, *rng.integers(5, 60, 12).tolist()] for _ in range(6)]
    pairs = [(ids, [0, *ids[:7]]) for ids in prompts]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        models = {
            "grouped": (
                hf.LlamaForCausalLM(hf.LlamaConfig(**deep, initializer_range=0.3)),
                prompts,
            ),
            "windows": (
                hf.Gemma2ForCausalLM(hf.Gemma2Config(**deep, head_dim=12, sliding_window=5)),
                prompts,
            ),
            "alibi": (hf.BloomForCausalLM(hf.BloomConfig(**small, n_layer=2)), prompts),
            "bias": (hf.T5ForConditionalGeneration(hf.T5Config(**t5)), pairs),
            "plain": (
                torch.nn.Sequential(torch.nn.Embedding(64, 48), stack, torch.nn.Linear(48, 64)),
                prompts,
            ),
        }
    tables = {name: tv.roles(tv.metrics(model, given)) for name, (model, given) in models.items()}
    for name, table in tables.items():
        assert set(table["roles"]) == {()}, name
        assert table["entropy"].between(0, 1 + 1e-6).all(), name
        assert (table["self_rows"] > 0).all(), name
    assert tables["grouped"][["null", "ov_copying"]].notna().all(axis=None)
    rows = tables["windows"].groupby("layer")["sink_rows"].first()
    assert rows[0] < rows[1]  # under a window fewer rows see the first token


@pytest.mark.shipped
@pytest.mark.parametrize("name", ["en-de", "en-lm", "en-mlm"])
def test_most_heads_of_shipped_models_have_no_role(name: str) -> None:
    table = tv.roles(tv.metrics(tv.load(name), SENTENCES))
    for role in ROLES:
        assert sum(role in names for names in table["roles"]) * 2 <= len(table), role
    assert sum(names == () for names in table["roles"]) * 2 > len(table)
    for metric in NAMES:
        values = table[metric].dropna()
        least = {"ov_copying": -1.0, "diagonality": -np.inf}.get(metric, 0.0)
        assert values.between(least, 1 + 1e-6).all(), metric


@pytest.mark.shipped
def test_the_translator_has_heads_for_the_words_beside() -> None:
    table = tv.roles(tv.metrics(tv.load("en-de"), SENTENCES))
    named = table[table["stack"] == "encoder"]["roles"]
    assert any("next" in names for names in named)
    assert any("previous" in names for names in named)
