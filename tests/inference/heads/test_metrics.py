"""tv.metrics and tv.roles on heads that are known (W1, W2, W6), bundled models, own weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import transformer_viz as tv
from tests.support.refusals import refuses
from tests.support.witness_models import (
    BOS,
    HEADS,
    PAD,
    Witness,
    causal,
    decoy,
    repeats,
    translator,
)
from tests.views.conftest import make_trace
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.head_metrics.own_weights import OwnWeights
from transformer_viz.metrics.head_measures.registry import MEASURES

EXACT = 1e-6
PROMPTS = repeats(8)
HEAD = ["stack", "block", "layer", "head"]
NAMES = [
    *("entropy", "confidence", "distance", "previous", "self", "next", "positional", "sink"),
    *("special", "null", "duplicate", "induction", "copying", "ov_copying", "monotonicity"),
    *("diagonality", "coverage"),
]
#: Section 4 of the definitions: previous, self, first, duplicate, induction, entropy.
COLUMNS = ["previous", "self", "sink", "duplicate", "induction", "entropy"]
CHANCE = [0.1007, 0.1173, 0.1007, 0.0530, 0.0530, 1]
FALLBACK = 11 / 23  # rows of the first half look at BOS
W1 = [
    [1, 0, 0, 0, 0, 0],
    [0, 0, FALLBACK, 1, 0, 0],
    [0, 0, 1, 0, 0, 0],
    CHANCE,
    [0, 0, FALLBACK, 0, 1, 0],
    [0, 0, FALLBACK, 0, 1, 0],
    [0, 1, 0, 0, 0, 0],
    CHANCE,
]
ROLES = [
    {"previous", "positional"},
    {"duplicate"},
    set(),
    set(),
    {"induction"},
    {"induction"},
    {"self", "positional"},
    set(),
]


@cache
def w1(seed: int | None = None) -> tuple[Witness, Model]:
    witness = causal(seed=seed)
    return witness, tv.load(witness.module)


@cache
def pooled(seed: int | None = None) -> pd.DataFrame:
    return tv.metrics(w1(seed)[1], PROMPTS)


def as_written(observer: Witness, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a shuffled witness in the order in which its heads are written."""
    places = [
        HEADS * layer + observer.place(layer, head)
        for layer in range(len(observer.order))
        for head in range(HEADS)
    ]
    return table.iloc[places].reset_index(drop=True)


@pytest.mark.families
def test_columns_and_roles_that_need_rows():
    trace = tv.trace(w1()[1], PROMPTS[0], check=False)
    one = [f"{name}{part}" for name in NAMES for part in ("", "_rows", "_chance")]
    parts = ("", "_rows", "_chance", "_low", "_high")
    many = [f"{name}{part}" for name in NAMES for part in parts]
    assert [measure.name for measure in MEASURES] == NAMES
    assert list(tv.metrics(trace).columns) == [*HEAD, *one]
    assert tv.metrics(trace, "raw").equals(tv.metrics(trace, view="raw"))
    assert list(pooled().columns) == [*HEAD, *many]
    assert list(tv.roles(pooled()).columns) == [*HEAD, *many, "roles", "states"]
    model = w1()[1]
    long = repeats(1, lengths=(19, 19))[0]
    told = [tv.roles(tv.metrics(tv.trace(model, ids, check=False))) for ids in (long, long[:9])]
    assert "previous" in told[0]["roles"][0] and "self" in told[0]["roles"][6]
    assert all(names == () for names in told[1]["roles"])
    assert told[0]["roles"][3] == () == told[0]["roles"][2]
    model = tv.load(decoy().module)
    lucky = tv.roles(tv.metrics(model, repeats(6)))
    varied = tv.roles(tv.metrics(model, repeats(24, lengths=(12, 19))))
    assert "induction" in lucky["roles"][0]
    assert "induction" not in varied["roles"][0]
    assert varied["states"][1] == ("sink",) and varied["roles"][1] == ()


@pytest.mark.families
def test_the_causal_witness():
    """P1, P16: the table and the roles of W1, with its heads in any order.

    The sink has a state and no role (P14); the even head neither role nor sink (P9).
    """
    exact = [number for number in range(8) if W1[number] is not CHANCE]
    for seed in (None, 1, 2):
        witness, model = w1(seed)
        table = tv.metrics(tv.trace(model, PROMPTS[0], check=False), view="raw")
        found = as_written(witness, table)[COLUMNS].to_numpy()
        assert found[exact] == pytest.approx(np.array(W1)[exact], abs=EXACT), seed
        assert found[[3, 7]] == pytest.approx(np.array([CHANCE] * 2), abs=1e-4), seed
        chance = table[[f"{name}_chance" for name in COLUMNS]].to_numpy()
        assert chance == pytest.approx(np.array([CHANCE] * 8), abs=1e-4), seed
        there = as_written(witness, pooled(seed)).drop(columns=HEAD)
        assert np.allclose(there, pooled().drop(columns=HEAD), atol=EXACT, equal_nan=True), seed
        told = as_written(witness, tv.roles(pooled(seed)))
        assert [set(names) for names in told["roles"]] == ROLES, seed
        assert list(told["states"].iloc[[2, 3, 7]]) == [("sink",), ("spread",), ("spread",)]
        assert told["states"].iloc[0] == ("sharp",)


@pytest.mark.families
def test_many_sentences_are_the_mean_of_each():
    """P12: pooled over rows, with the view that was asked for, in any order."""
    model = w1()[1]
    ids = repeats(3, seed=5, lengths=(8, 19))
    for view in ("content", "raw"):
        whole = tv.metrics(model, ids, view=view)
        turned = tv.metrics(model, ids[::-1], view=view)
        singles = [tv.metrics(tv.trace(model, one, check=False), view=view) for one in ids]
        for name in ("previous", "sink", "duplicate", "entropy", "distance"):
            rows = sum(one[f"{name}_rows"] for one in singles)
            total = sum((one[name] * one[f"{name}_rows"]).fillna(0) for one in singles)
            mean = (total / rows.where(rows > 0)).to_numpy()
            assert np.allclose(whole[name], mean, atol=EXACT, equal_nan=True)
            assert (whole[f"{name}_rows"] == rows).all()
            assert np.array_equal(whole[name], turned[name], equal_nan=True)
    heard: list[tuple[int, int, pd.DataFrame | None]] = []
    prompts = repeats(19)
    table = tv.metrics(w1()[1], prompts, on_progress=lambda *told: heard.append(told))
    assert [(done, of) for done, of, _ in heard] == [(n, 19) for n in range(1, 20)]
    tables = {done: so_far for done, _, so_far in heard if so_far is not None}
    assert list(tables) == [8, 16, 19]
    pd.testing.assert_frame_equal(tables[19], table)
    pd.testing.assert_frame_equal(tables[8], tv.metrics(w1()[1], prompts[:8]))


@pytest.mark.families
def test_the_encoder_decoder_witness():
    """W2: previous, next (P11), self, duplicate; across: diagonal, shifted, on EOS, even."""
    words, names = [5, 9, 7, 5, 11, 6, 8, 12], ["previous", "next", "self", "duplicate"]
    for seed in (None, 3):
        witness = translator(seed)
        model = tv.load(witness.module)
        trace = tv.trace(model, [*words, 2], target=[BOS, *words], check=False)
        assert trace.produced.ids == (*words, 2)
        table = tv.metrics(trace, view="raw")
        order = [[heads.index(n) for n in range(4)] for heads in witness.order]
        encoder = table[table["stack"] == "encoder"].iloc[order[0]]
        across = table[table["block"] == "cross"].iloc[order[1]]
        assert np.diag(encoder[names]) == pytest.approx([1] * 4, abs=EXACT), seed
        assert encoder[names].to_numpy()[:3, :3].sum() == pytest.approx(3, abs=0.2), seed
        for column, rows, wanted in (
            ("monotonicity", slice(4), [1, 1, 0.5, 0.5]),
            ("coverage", slice(4), [1, 1, 0, 1]),
            ("diagonality", slice(1), [1]),
            ("positional", slice(2), [1, 1]),
            ("special", slice(2, 3), [1]),
            ("confidence", slice(3, 4), [1 / 9]),
        ):
            found = list(across[column].iloc[rows])
            assert found == pytest.approx(wanted, abs=EXACT), (seed, column)
        assert table.loc[table["block"] == "cross", names].isna().all(axis=None), seed


@pytest.mark.families
def test_padding_changes_nothing_and_half_precision_is_near():
    """P4 through a model: padding behind a source has weight 0 and is neither row nor key."""
    model = tv.load(translator().module)
    words, target = [5, 9, 7, 5, 11, 2], [BOS, 5, 9, 7, 5, 11]
    plain = tv.trace(model, words, target=target, check=False)
    padded = tv.trace(model, [*words, PAD, PAD], target=target, check=False)
    assert all(padded.attention(block)[..., 6:].max() == 0 for block in ("cross", "encoder"))
    rows = [f"{name}_rows" for name in NAMES]
    for view in ("raw", "content"):
        one, other = tv.metrics(plain, view=view), tv.metrics(padded, view=view)
        assert np.allclose(one[NAMES], other[NAMES], atol=EXACT, equal_nan=True)
        assert one[rows].equals(other[rows])
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=37, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    full = tv.load(GPT2LMHeadModel(config).eval())
    trace = tv.trace(full, PROMPTS[0], check=False)
    half = tv.trace(full.cast(torch.bfloat16), PROMPTS[0], check=False)
    assert half.manifest["dtype"] == "bfloat16"
    one, other = tv.metrics(trace), tv.metrics(half)
    counted = [name for name in NAMES if name != "positional"]  # that one counts largest weights
    assert np.allclose(one[counted], other[counted], atol=1e-2, equal_nan=True)


def test_refusals():
    trace = make_trace()
    refuses("no view 'words'; choose of content, raw", tv.metrics, trace, view="words")
    refuses("beside a model", tv.metrics, trace, ["A cat."])
    refuses("lacks entropy, sink", tv.roles, trace.heads[HEAD])


def test_hard_attention_is_no_mask(build_model):
    """At temperature 0 nearly all weights are 0; the rows that are asked stay those of the mask."""
    hard = tv.Intervention.from_json('{"edits": [{"kind": "temperature", "value": 0}]}')
    model, keep = build_model(), ("weights", "scores")
    source, target = [5, 9, 7, 11, 6, 8], [1, 4, 9, 12, 4]
    known = tv.trace(model, source, target, intervention=hard, keep=keep, check=False)
    told = tv.trace(model, source, target, intervention=hard, check=False)
    assert tv.metrics(told, "raw").equals(tv.metrics(known, "raw"))
    soft = tv.trace(model, source, target, check=False)
    columns = [f"{name}_{part}" for name in ("previous", "self") for part in ("rows", "chance")]
    assert tv.metrics(soft)[columns].equals(tv.metrics(told)[columns])


SENTENCES = [
    "The old man is reading a book.",
    "A dog barks at the small cat in the garden.",
    "The woman who lives next door bought a red car, and the car was very old.",
    "He said that he would come tomorrow, but he did not come.",
    "The train to the city leaves at nine, and the train back leaves at ten.",
    "She opened the window because the room was too warm.",
]


@pytest.mark.shipped
def test_no_role_takes_half_of_a_trained_model():
    """P15; and some heads have one."""
    for name in ("en-de", "en-lm", "en-mlm"):
        table = tv.metrics(tv.load(name, device="cpu"), SENTENCES)
        told = tv.roles(table)["roles"]
        shares = told.explode().value_counts() / len(told)
        assert shares.max() <= 0.5 and (told.map(len) == 0).mean() > 0.5 and len(shares), name
        copying = table[["copying", "ov_copying", "null"]].dropna()
        assert len(copying) and copying["ov_copying"].between(-1, 1).all(), name
        assert copying["copying"].between(0, 1).all(), name


NEAR = 1e-5
IDS = [[5, 9, 7, 11, 5, 8, 9, 4], [6, 4, 12, 6, 9, 10]]
THREE = ["null", "copying", "ov_copying"]
GPT = {"encoder_layers": 0, "source_vocab": 0}


def test_heads_add_up_to_what_the_block_writes(build_model):
    """Weights times ``values`` over all heads, and both biases: the output of the projection."""
    model = build_model(**GPT)
    block = model.module.get_submodule("decoder.layers.1.self_attention")
    output, heard = block.get_submodule("output"), []
    handle = output.register_forward_hook(lambda _, given, out: heard.append(out[0].detach()))
    trace = tv.trace(model, IDS[0], keep=("weights", "qkv"), check=False)
    handle.remove()
    attention = trace.block("decoder", 1)
    values = OwnWeights(model).beside(attention, True)["values"]
    bias = output(block.get_submodule("value").bias).detach().numpy()  # rows of weights sum to 1
    found = (attention.weights @ values).sum(0) + bias
    assert found == pytest.approx(heard[0].numpy(), abs=NEAR)


def test_direct_logits_are_what_the_last_norm_lets_through(build_model):
    """The last norm's own derivative in the direction that a head writes, its scale held.

    In a stream x the norm changes by ``(z - share x) gain / scale``, where ``share`` of x lies in
    what was written: that part turns the scale, and is put back here.
    """
    model = build_model(**GPT, decoder_layers=1)
    trace = tv.trace(model, IDS[0], keep=("weights", "qkv"), check=False)
    (attention,) = trace.blocks("decoder")
    found = OwnWeights(model).beside(attention, True)
    norm = model.module.get_submodule("decoder.norm")
    gain = norm.weight.detach().numpy()
    unembed = model.module.get_submodule("output").weight.detach().numpy()
    x = torch.randn(len(IDS[0]), 22, generator=torch.Generator().manual_seed(0))
    middle = (x - x.mean(-1, keepdim=True)).numpy()
    scale = np.sqrt(middle.var(-1, keepdims=True) + norm.eps)
    for direct, z in zip(found["direct"], attention.weights @ found["values"], strict=True):
        step = torch.from_numpy(z).float() * 1e-3
        with torch.no_grad():
            change = (norm(x + step) - norm(x - step)).numpy() / 2e-3 * scale
        share = (z * middle).sum(-1, keepdims=True) / (middle**2).sum(-1, keepdims=True)
        assert (change + share * middle * gain) @ unembed.T == pytest.approx(direct, abs=5e-3)


def test_copying_and_null_mass_of_own_weights(build_model):
    """W5b: value biases moved into the output bias are the same function and the same numbers."""
    before, after = build_model(**GPT), build_model(**GPT)
    with torch.no_grad():
        for layer in after.module.get_submodule("decoder.layers"):
            attention = layer.get_submodule("self_attention")
            value, output = attention.get_submodule("value"), attention.get_submodule("output")
            output.bias += output.weight @ value.bias
            value.bias.zero_()
    one, other = tv.metrics(before, IDS), tv.metrics(after, IDS)
    assert one["null"].notna().any() and one["copying"].notna().any()
    for name in THREE:
        assert np.allclose(one[name], other[name], atol=NEAR, equal_nan=True)
    two = tv.metrics(build_model(), [(ids, [1, *ids]) for ids in IDS])
    assert two.query("stack == 'encoder' or block == 'cross'")["copying"].isna().all()
    assert two.query("stack == 'decoder' and block == 'self'")["ov_copying"].notna().all()
    assert set(two["ov_copying_rows"]) == {0, 1} and two["ov_copying_low"].isna().all()
    post = tv.metrics(build_model(**GPT, norm="post"), IDS)
    assert post[["copying", "ov_copying"]].isna().all(axis=None)
    trace = tv.trace(build_model(**GPT), IDS[0], check=False)
    assert tv.metrics(trace)[THREE].isna().all(axis=None)
