"""P2 to P14 through `tv.metrics` on written witnesses, as written and with heads in any order."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

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
@pytest.mark.parametrize("length", [8, 12, 19])
def test_a_perfect_head_scores_one_at_any_length(length: int, seed: int | None) -> None:
    """P2."""
    table = asked(repeats(1, 0, (length, length))[0], seed)
    assert of(table, seed, INDUCTION)["induction"] == pytest.approx(1, abs=EXACT)
    assert of(table, seed, DUPLICATE)["duplicate"] == pytest.approx(1, abs=EXACT)
    assert of(table, seed, PREVIOUS)["previous"] == pytest.approx(1, abs=EXACT)
    assert of(table, seed, ITSELF)["self"] == pytest.approx(1, abs=EXACT)
    assert of(table, seed, INDUCTION)["induction_rows"] == length


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("length", [5, 25, 64])
def test_an_even_head_has_full_entropy_at_any_length(length: int, seed: int | None) -> None:
    """P3."""
    words = np.resize(np.arange(1, 20), length - 1).tolist()
    table = asked([BOS, *words], seed)
    assert of(table, seed, EVEN)["entropy"] == pytest.approx(1, abs=EXACT)


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_and_loops_make_no_induction_head(seed: int | None) -> None:
    """P5: in a run nobody is asked; in a loop of two an even head has no more than chance."""
    run, loop = asked([BOS, *[5] * 50], seed), asked([BOS, *[5, 9] * 20], seed)
    for head in (EVEN, ITSELF):
        assert of(run, seed, head)["induction_rows"] == 0
        assert np.isnan(of(run, seed, head)["induction"])
        row = of(loop, seed, head)
        assert np.nan_to_num(row["induction"] - row["induction_chance"]) <= EXACT
    for table in (run, loop):
        assert all("induction" not in given for given in tv.roles(table)["roles"])


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("view", ["raw", "content"])
def test_sink_and_previous_are_told_apart_in_the_first_rows(seed: int | None, view: str) -> None:
    """P7: the first rows, where the token before is the first one, are not asked."""
    for length in (3, 24):
        table = asked([BOS, *np.resize(np.arange(1, 20), length).tolist()], seed, view)
        sink, back = of(table, seed, SINK), of(table, seed, PREVIOUS)
        assert back["sink"] == pytest.approx(0, abs=EXACT)
        # the content view asks a head that gives words nothing no row at all
        assert np.nan_to_num(sink["previous"]) == pytest.approx(0, abs=EXACT)
        assert sink["sink"] == back["previous"] == pytest.approx(1, abs=EXACT)


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_weight_on_several_copies_is_added(seed: int | None) -> None:
    """P8: the duplicate head parts its weight among k earlier copies, and has found them all."""
    ids = [BOS, 7, *range(1, 7), 7, *range(8, 14), 7, *range(14, 20), 7]
    row = of(asked(ids, seed), seed, DUPLICATE)
    assert row["duplicate_rows"] == 3
    assert row["duplicate"] == pytest.approx(1, abs=EXACT)


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_an_even_head_is_positional_by_chance_alone(seed: int | None) -> None:
    """P9: each row shares its 1 among n_i equal keys; no role comes of it."""
    table = asked([BOS, *range(1, 20)], seed)
    row = of(table, seed, EVEN)
    wanted = np.mean([1 / count for count in range(2, 21)])
    assert row["positional"] == pytest.approx(wanted, abs=EXACT)
    assert row["positional"] == pytest.approx(row["positional_chance"], abs=EXACT)
    assert of(tv.roles(table), seed, EVEN)["roles"] == ()


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_a_question_without_rows_is_a_dash(seed: int | None) -> None:
    """P10: words that stand once leave nobody to be asked for copies; and 0 is not said."""
    told = tv.roles(asked([BOS, *range(1, 9)], seed))
    assert told[["duplicate", "induction", "next"]].isna().all(axis=None)
    shown = head_table(told, ["duplicate"])
    assert shown.count(f">{DASH}<") == len(told)
    assert "0.00" not in shown


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_before_and_after_are_not_swapped_in_what_is_read(seed: int | None) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "words"), [(None, 20), (0.5, 120)], ids=["fresh", "strong"])
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_taught_it_a_role(kind: str, scale: float | None, words: int) -> None:
    """P14: random weights of ten seeds have no role, in any kind of model."""
    for seed in range(10):
        model = tv.load(random_model(kind, seed, scale, words))
        prompts = repeats(8, seed, (12, 19), words=words)
        given = [(ids[1:], [BOS, *ids[1:]]) for ids in prompts] if "-d" in kind else prompts
        told = tv.roles(tv.metrics(model, given))
        bearing = told[told["roles"].map(bool)]
        assert bearing.empty, (seed, bearing[["stack", "block", "layer", "head", "roles"]])


@pytest.mark.families
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "bloom", "t5", "bert"])
def test_random_weights_of_other_families_have_no_role(name: str) -> None:
    """P14: with grouped queries, local layers, ALiBi and relative biases."""
    import transformers as hf

    small = {"vocab_size": 64, "hidden_size": 48, "num_attention_heads": 4}
    deep = small | {"intermediate_size": 40, "num_hidden_layers": 3, "num_key_value_heads": 2}
    t5 = {"vocab_size": 64, "d_model": 48, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    made = {
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=64, n_embd=48, n_layer=3, n_head=4, n_positions=64)
        ),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**deep, initializer_range=0.3)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(
            hf.Gemma2Config(**deep, head_dim=12, sliding_window=5)
        ),
        "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(**small, n_layer=3)),
        "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**t5, decoder_start_token_id=0)),
        "bert": lambda: hf.BertForMaskedLM(
            hf.BertConfig(**small, intermediate_size=40, num_hidden_layers=3)
        ),
    }[name]
    for seed in range(3):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = tv.load(made().eval())
        generator = np.random.default_rng(seed)
        texts = [[1, *generator.integers(5, 60, 20).tolist()] for _ in range(8)]
        given = [(ids, [BOS, *ids[:9]]) for ids in texts] if name == "t5" else texts
        table = tv.metrics(model, given)
        assert set(tv.roles(table)["roles"]) == {()}
        assert table["entropy"].between(0, 1 + EXACT).all()
        assert (table.loc[table["block"] == "self", "self_rows"] > 0).all()
