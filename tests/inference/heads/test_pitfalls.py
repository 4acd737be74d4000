"""P2 to P14 through `tv.metrics` on written witnesses, as written and with heads in any order."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import transformer_viz as tv
from tests.support.witness_models import (
    BOS,
    HEADS,
    KINDS,
    Witness,
    causal,
    random_model,
    repeats,
    translator,
)
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.views.html.head_table import DASH, head_table

EXACT = 1e-6
SEEDS = [None, 3]
PREVIOUS, DUPLICATE, SINK, EVEN = ((0, head) for head in range(HEADS))
INDUCTION, ITSELF = (1, 0), (1, 2)


@cache
def loaded(seed: int | None) -> tuple[Witness, Model]:
    witness = causal(seed=seed)
    return witness, tv.load(witness.module)


def asked(ids: list[int], seed: int | None, view: str = "raw") -> pd.DataFrame:
    """The table of W1 on one text."""
    return tv.metrics(tv.trace(loaded(seed)[1], ids, check=False), view=view)


def of(table: pd.DataFrame, seed: int | None, head: tuple[int, int]) -> pd.Series:
    """The row of a head, named as it is written."""
    place = loaded(seed)[0].place(*head)
    return table[(table["layer"] == head[0]) & (table["head"] == place)].iloc[0]


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_measures_of_written_heads(seed):
    """P2, P3, P5, P7 to P10."""
    perfect = {"induction": INDUCTION, "duplicate": DUPLICATE, "previous": PREVIOUS, "self": ITSELF}
    for length in (8, 12, 19):
        table = asked(repeats(1, 0, (length, length))[0], seed)
        for name, head in perfect.items():
            assert of(table, seed, head)[name] == pytest.approx(1, abs=EXACT), (length, name)
        assert of(table, seed, INDUCTION)["induction_rows"] == length
    for length in (5, 25, 64):
        words = np.resize(np.arange(1, 20), length - 1).tolist()
        entropy = of(asked([BOS, *words], seed), seed, EVEN)["entropy"]
        assert entropy == pytest.approx(1, abs=EXACT), length
    # the duplicate head parts its weight among k earlier copies, and has found them all
    ids = [BOS, 7, *range(1, 7), 7, *range(8, 14), 7, *range(14, 20), 7]
    row = of(asked(ids, seed), seed, DUPLICATE)
    assert row["duplicate_rows"] == 3 and row["duplicate"] == pytest.approx(1, abs=EXACT)
    run, loop = asked([BOS, *[5] * 50], seed), asked([BOS, *[5, 9] * 20], seed)
    for head in (EVEN, ITSELF):
        assert of(run, seed, head)["induction_rows"] == 0
        assert np.isnan(of(run, seed, head)["induction"])
        row = of(loop, seed, head)
        assert np.nan_to_num(row["induction"] - row["induction_chance"]) <= EXACT
    for table in (run, loop):
        assert all("induction" not in given for given in tv.roles(table)["roles"])
    table = asked([BOS, *range(1, 20)], seed)
    row = of(table, seed, EVEN)
    wanted = np.mean([1 / count for count in range(2, 21)])
    assert row["positional"] == pytest.approx(wanted, abs=EXACT)
    assert row["positional"] == pytest.approx(row["positional_chance"], abs=EXACT)
    assert of(tv.roles(table), seed, EVEN)["roles"] == ()
    told = tv.roles(asked([BOS, *range(1, 9)], seed))
    assert told[["duplicate", "induction", "next"]].isna().all(axis=None)
    shown = head_table(told, ["duplicate"])
    assert shown.count(f">{DASH}<") == len(told) and "0.00" not in shown
    for view, length in product(("raw", "content"), (3, 24)):
        table = asked([BOS, *np.resize(np.arange(1, 20), length).tolist()], seed, view)
        sink, back = of(table, seed, SINK), of(table, seed, PREVIOUS)
        assert back["sink"] == pytest.approx(0, abs=EXACT), (view, length)
        # the content view asks a head that gives words nothing no row at all
        assert np.nan_to_num(sink["previous"]) == pytest.approx(0, abs=EXACT), (view, length)
        assert sink["sink"] == back["previous"] == pytest.approx(1, abs=EXACT), (view, length)


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_before_and_after_are_not_swapped(seed):
    """P11: in numbers, in the role, and under the heading of the table."""
    witness = translator(seed)
    sentences = [(ids[1:], [BOS, *ids[1:5]]) for ids in repeats(6, 0, (12, 19))]
    table = tv.roles(tv.metrics(tv.load(witness.module), sentences, view="raw"))
    encoder = table[table["stack"] == "encoder"]
    for head, (name, other, said) in enumerate(
        [("previous", "next", "the word before"), ("next", "previous", "the word after")]
    ):
        row = encoder.iloc[witness.place(0, head)]
        assert row[name] == pytest.approx(1, abs=EXACT)
        # the word at an end has no such neighbour: that row looks everywhere alike
        assert row[other] < 0.01
        assert name in row["roles"] and other not in row["roles"]
        shown = head_table(encoder.iloc[[witness.place(0, head)]], ["previous", "next"])
        titles = re.findall(r'title="(weight on the word \w+)', shown)
        values = re.findall(r"<b>(.*?)</b>", shown)
        assert titles == ["weight on the word before", "weight on the word after"]
        assert values[["previous", "next"].index(name)] == "1.00"
        assert f"looks at {said}" in shown


SEVERAL = [pytest.param(3, id="few"), pytest.param(10, id="all", marks=pytest.mark.soak)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEVERAL)
@pytest.mark.parametrize("kind", KINDS)
def test_random_weights_have_no_role(kind, seeds):
    """P14: in any kind of model, as a training begins and as strong as after it."""
    for seed, (scale, words) in product(range(seeds), ((None, 20), (0.5, 120))):
        model = tv.load(random_model(kind, seed, scale, words))
        prompts = repeats(8, seed, (12, 19), words=words)
        given = [(ids[1:], [BOS, *ids[1:]]) for ids in prompts] if "-d" in kind else prompts
        told = tv.roles(tv.metrics(model, given))
        bearing = told[told["roles"].map(bool)]
        assert bearing.empty, (scale, seed, bearing[["stack", "block", "layer", "head", "roles"]])


SMALL = {"vocab_size": 64, "hidden_size": 48, "num_attention_heads": 4}
DEEP = SMALL | {"intermediate_size": 40, "num_hidden_layers": 3}
GROUPED = DEEP | {"num_key_value_heads": 2}
GPT2 = {"vocab_size": 64, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64}
T5 = {"vocab_size": 64, "d_model": 48, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 4}
#: Grouped queries, local layers, ALiBi, relative biases, strong weights.
FAMILIES = [
    ("GPT2LMHeadModel", "GPT2Config", GPT2),
    ("GPT2LMHeadModel", "GPT2Config", GPT2 | {"initializer_range": 0.5}),
    ("LlamaForCausalLM", "LlamaConfig", GROUPED | {"initializer_range": 0.3}),
    ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | {"head_dim": 12, "sliding_window": 5}),
    ("BloomForCausalLM", "BloomConfig", SMALL | {"n_layer": 3}),
    ("T5ForConditionalGeneration", "T5Config", T5 | {"decoder_start_token_id": 0}),
    ("BertForMaskedLM", "BertConfig", DEEP),
]


@pytest.mark.families
@pytest.mark.parametrize(
    "seeds", [pytest.param(1, id="one"), pytest.param(3, id="all", marks=pytest.mark.soak)]
)
def test_random_weights_of_other_families_have_no_role(seeds):
    """P14."""
    for (name, config, words), seed in product(FAMILIES, range(seeds)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = getattr(transformers, name)(getattr(transformers, config)(**words))
        generator = np.random.default_rng(seed)
        texts = [[1, *generator.integers(5, 60, 20).tolist()] for _ in range(8)]
        given = [(ids, [BOS, *ids[:9]]) for ids in texts] if "T5" in name else texts
        table = tv.metrics(tv.load(module.eval()), given)
        assert set(tv.roles(table)["roles"]) == {()}, (name, seed)
        assert table["entropy"].between(0, 1 + EXACT).all(), (name, seed)
        assert (table.loc[table["block"] == "self", "self_rows"] > 0).all(), (name, seed)
