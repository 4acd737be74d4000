"""tv.compare: a permuted twin, numbers by hand, and every kind of sides."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import transformer_viz as tv
from tests.metrics.comparison.test_common_words import TEXTS, trained
from tests.support import witness_models
from tests.support.refusals import refuses
from tests.support.witness_models import HEADS, random_gpt2
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature

IDS = [5, 17, 6, 29, 8, 3, 11]
HEAD = ["stack", "block", "layer", "head"]


def permuted(module: nn.Module, orders: list[list[int]]) -> nn.Module:
    """W5d: a GPT-2 whose heads stand in another order; head h of the twin is ``orders[l][h]``."""
    twin = random_gpt2()
    with torch.no_grad():
        twin.load_state_dict(module.state_dict())
        for block, order in zip(twin.transformer.h, orders, strict=True):
            width = block.attn.embed_dim
            each = torch.arange(width).reshape(HEADS, -1)[order].reshape(-1)
            columns = torch.cat([each + part * width for part in range(3)])
            block.attn.c_attn.weight.copy_(block.attn.c_attn.weight[:, columns])
            block.attn.c_attn.bias.copy_(block.attn.c_attn.bias[columns])
            block.attn.c_proj.weight.copy_(block.attn.c_proj.weight[each])
    return twin


ORDERS = [[2, 0, 3, 1], [1, 3, 0, 2], [3, 2, 1, 0]]
SENTENCES = [[1, 9, 4, 30, 12, 7, 9], [3, 21, 5, 5, 36, 2, 8, 11], [14, 15, 1, 6, 33]]


@pytest.fixture(scope="module")
def twins() -> tuple[nn.Module, nn.Module]:
    module = random_gpt2()
    return module, permuted(module, ORDERS)


def test_a_permuted_twin_is_recovered(twins):
    """P37: every head finds itself, whatever place it stands at, and the margin is shown."""
    found = tv.compare(*twins, SENTENCES)
    table = found.matched
    assert len(table) == 12
    for row in table.itertuples():
        assert (row.other_layer, ORDERS[row.layer][row.other_head]) == (row.layer, row.head)
    assert (table["divergence"] < 1e-6).all()
    assert (table["margin"] > 0.02).all() and not table["ambiguous"].any()
    stays = [head == place for order in ORDERS for place, head in enumerate(order)]
    assert table["same"].sum() == sum(stays)
    assert found.heads["divergence"].max() > 0.1  # by places they are strangers


def test_a_permutation_permutes_every_table(twins):
    """P16: with the twin on both sides each head has what its original has."""
    other = random_gpt2(seed=1)
    plain = tv.compare(twins[0], other, SENTENCES)
    twin = tv.compare(twins[1], permuted(other, ORDERS), SENTENCES)
    wanted = plain.heads.set_index(HEAD)
    for row in twin.heads.itertuples():
        own = wanted.loc[(row.stack, row.block, row.layer, ORDERS[row.layer][row.head])]
        for column in ("divergence", "low", "high"):
            assert getattr(row, column) == pytest.approx(own[column], abs=1e-6), column
        assert row.rows == own["rows"]
    pairs = {
        (m.layer, m.head): (m.other_layer, m.other_head, m.divergence, m.margin)
        for m in plain.matched.itertuples()
    }
    for row in twin.matched.itertuples():
        layer, head, near, margin = pairs[row.layer, ORDERS[row.layer][row.head]]
        assert (row.other_layer, ORDERS[row.other_layer][row.other_head]) == (layer, head)
        assert (row.divergence, row.margin) == pytest.approx((near, margin), abs=1e-6)


@pytest.mark.slow
def test_equal_models_are_at_0_and_others_by_hand(build_model):
    model = build_model(decoder_layers=0)
    same = tv.compare(model, model, IDS)
    assert (same.heads["divergence"] == 0).all()
    assert (same.matched["divergence"] == 0).all()
    assert same.words["same"].all()
    # heads of known weights: the witness's diagonal against its uniform head
    one, two = (tv.load(witness_models.causal(seed=s).module, kind="decoder-only") for s in (1, 2))
    prompt = [witness_models.BOS, *range(3, 9)]
    found = tv.compare(one, two, prompt)
    a, b = (tv.trace(m, prompt).attention("decoder") for m in (one, two))
    for row in found.heads.itertuples():
        p, q = (np.float64(x[row.layer, row.head]) for x in (a, b))
        words = range(1, len(prompt))  # the first token has no choice
        wanted = np.mean([by_hand(p[r], q[r]) for r in words])
        assert row.divergence == pytest.approx(wanted, abs=1e-6)
        assert row.rows == len(prompt) - 1


def by_hand(p: np.ndarray, q: np.ndarray) -> float:
    def entropy(x: np.ndarray) -> float:
        return float(-sum(v * np.log2(v) for v in x if v > 0))

    return entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2


def test_an_intervention_is_compared_with_the_untouched_run(build_model):
    """P39: the run without an edit is the untouched one, to the last byte."""
    model = build_model()
    untouched = tv.trace(model, IDS, keep=("weights", "scores"), check=False)
    removed = Intervention((ScaleHead(value=0, stack="encoder", layer=0, head=1),))
    found = tv.compare(None, removed, IDS, model=model)
    clean, edited = found.runs[0]
    for name in untouched.maps:
        assert clean.attention(name).tobytes() == untouched.attention(name).tobytes()
    assert clean.logits.tobytes() == untouched.logits.tobytes()
    assert clean.target == edited.target
    table = found.heads.set_index(HEAD)["divergence"]
    assert table["encoder", "self", 0, 1] == 1  # a head that looks nowhere
    assert table["encoder", "self", 0, 0] == 0  # and one that reads nothing of it
    again = tv.compare(Intervention(), removed, IDS, model=model)
    pd.testing.assert_frame_equal(again.heads, found.heads)
    maps = found.maps("encoder", 0, 1)
    assert maps.columns[-1] == "elsewhere" and (maps.b[:, -1] == 1).all()
    assert maps.limit == 1 and (maps.difference == maps.b - maps.a).all()
    both = tv.compare(removed, Intervention((Temperature(value=9.0),)), IDS, model=model)
    assert both.runs[0][0].intervention == removed


def test_two_sentences_of_one_model(build_model):
    model = build_model(decoder_layers=0)
    found = tv.compare(IDS, [5, 17, 6, 30, 31, 8, 3, 11], model=model)
    apart = found.words.query("not same")[["a", "b"]].fillna("").values.tolist()
    assert apart == [["29", ""], ["", "30"], ["", "31"]]
    maps = found.maps("encoder", 1, 1)
    assert maps.a.shape == maps.b.shape == (6, 7)
    for side in (maps.a, maps.b):
        assert side.sum(-1) == pytest.approx(1)
    other = found.runs[0][1].attention("encoder", 1)[1]
    assert maps.b[0, -1] == pytest.approx(other[0, 3:5].sum(), abs=1e-6)
    assert maps.b[0, 3] == pytest.approx(other[0, 5], abs=1e-6)  # 8 stands one further there


def test_two_tokenizers_on_one_text(build_model):
    """P38: rows sum to 1 on the same words; columns added and rows averaged, by hand."""
    models = []
    for kind, size in (("char", 400), ("bpe", 460)):
        tokenizer = trained(kind, size, list(TEXTS.values()))
        count = len(tokenizer.pieces)
        built = build_model(source_vocab=count, target_vocab=count, max_positions=90)
        models.append(replace(built, tokenizer=tokenizer))
    for text in ("ja", "zh", "en"):
        found = tv.compare(*models, TEXTS[text], target=TEXTS[text][:9])
        assert found.words["same"].all() and found.words["a"].notna().all(), text
        for shared, (number, side) in product(found.shared, enumerate("ab")):
            for one in getattr(shared, side):
                assert one.weights.sum(-1) == pytest.approx(1, abs=1e-12), text
                assert (one.weights[..., -1] == 0).all(), text  # nothing is elsewhere
            raw = found.runs[0][number].attention(shared.name, 0).astype(np.float64)
            for i, row in enumerate(shared.rows.shared):
                for j, column in enumerate(shared.columns.shared):
                    cells = raw[:, list(getattr(row, side))][:, :, list(getattr(column, side))]
                    wanted = cells.sum(-1).mean(-1)
                    got = getattr(shared, side)[0].weights[:, i, j]
                    assert got == pytest.approx(wanted, abs=1e-6), (text, i, j)


def test_models_of_other_shapes(build_model):
    small, large = build_model(decoder_layers=0), build_model(decoder_layers=0, heads=3)
    found = tv.compare(small, large, IDS)
    assert len(found.heads) == 6  # the places that both have
    assert len(found.matched) == 6 and found.matched["other_head"].notna().all()
    back = tv.compare(large, small, IDS)
    assert len(back.matched) == 9 and back.matched["other_head"].isna().sum() == 3
    assert any("not the same layers and heads" in note for note in found.notes)
    assert (found.matched["divergence"].sum()) == pytest.approx(back.matched["divergence"].sum())


@pytest.mark.shipped
def test_checkpoints_by_name_and_the_words_that_both_hold():
    told: list[tuple[int, int]] = []
    names = "en-de-small/step-4096", "en-de-small"
    found = tv.compare(*names, "The cat sat.", on_progress=lambda *far: told.append(far))
    assert told == [(1, 2), (2, 2)]
    first, second = found.runs[0]
    assert first.target == second.target
    assert found.card["a"]["model"] == "en-de-small/step-4096"
    assert found.card["a"]["model_hash"] != found.card["b"]["model_hash"]
    assert found.card["rows"] == int(found.heads["rows"].max())
    words, pieces = found.measures
    assert len(words) == len(pieces) == len(found.heads)
    pd.testing.assert_frame_equal(words, tv.metrics(first, view="raw"))


def test_the_content_view_leaves_marks_out(build_model):
    a, b = build_model(decoder_layers=0), build_model(decoder_layers=0, norm="post")
    source = [5, 17, 6, 29, a.eos_id]
    raw, content = (tv.compare(a, b, source, view=view) for view in ("raw", "content"))
    assert raw.card["view"] == "raw" and content.card["view"] == "content"
    shared = content.shared[0]
    marked = [n for n, word in enumerate(shared.columns.shared) if word.special]
    assert marked and all((block.weights[..., marked] == 0).all() for block in shared.a)
    weights = content.runs[0][0].attention("encoder", 0)[0].astype(np.float64)
    kept = weights[:4, :4] / weights[:4, :4].sum(-1, keepdims=True)
    assert shared.a[0].weights[0, :4, :4] == pytest.approx(kept, abs=1e-6)


def test_refusals(build_model, tiny_gpt):
    model = build_model(decoder_layers=0)
    run, thin = (tv.trace(model, IDS, keep=keep, check=False) for keep in (None, ()))
    for given, words, said in (
        ((model, tiny_gpt, IDS), {}, "no attention map in common: one has encoder, the other"),
        ((IDS, [20, 21, 22]), {"model": model}, "read no word in common: '5 17 6"),
        ((run, model), {}, "A trace is compared with a trace"),
        ((run, run), {"sentence": IDS}, "A trace is compared with a trace"),
        ((model, model), {}, "Got a Model and a Model. Two traces, two models"),
        ((None, None), {"sentence": IDS}, "Got nothing and nothing"),
        (("a", "b"), {"sentence": "c", "model": model}, "Two sentences of one model are a and b"),
        ((model, model, []), {}, "no sentence to compare on"),
        ((model, 7, IDS), {}, "a int is no model"),
        ((run, run), {"view": "plain"}, "no view 'plain'; choose of content, raw"),
    ):
        refuses(said, tv.compare, *given, **words)
    maps, said = tv.compare(run, run).maps, "The second side has no encoder L9 H0; it has"
    refuses("no map 'cross' in common; they share encoder", maps, "cross", 0, 0, error=LookupError)
    refuses(said, maps, "encoder", 0, 0, other=(9, 0), error=LookupError)
    refuses("were not kept", tv.compare, thin, run, error=LookupError)


def test_traces_stay_as_they_were(build_model):
    """P13."""
    runs = [tv.trace(build_model(norm=norm), IDS, IDS, check=False) for norm in ("pre", "post")]
    before = [run.attention(name).tobytes() for run in runs for name in run.maps]
    tv.compare(*runs)
    assert [run.attention(name).tobytes() for run in runs for name in run.maps] == before
