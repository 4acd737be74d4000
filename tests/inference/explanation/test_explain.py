"""tv.explain against formulas written out with the module's own parts, and its laws."""

from __future__ import annotations

import gc
import weakref
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from tests.support.witness_models import TWINS, gpt2, random_gpt2, twin
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import BlockKeys, Intervention
from transformer_viz.i18n import catalogue
from transformer_viz.inference.ablation import places
from transformer_viz.inference.explanation import captions
from transformer_viz.inference.explanation.explaining import Explainer, Explanation
from transformer_viz.inference.explanation.question import ask

from ..patching.hooks import giving, reading, seen

SOURCE, HELD, WORD = [5, 17, 6, 29, 8, 3, 11], [2, 7, 31, 9], 2
CONFIGS = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post"},
    "rms": {"norm": "pre", "norm_kind": "rms"},
    "annotated": {"norm": "pre", "norm_kind": "annotated"},
    "rotary": {"positions": "rotary", "d_k": 12},
    "gated": {"gated": True, "activation": "silu"},
}


def drawn(**words: object) -> Model:
    """Random weights in double precision, biases among them."""
    model, generator = make_model(**words), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            shift = 1.0 if "norm" in name and name.endswith(("weight", "gain")) else 0.0
            size = 0.2 if parameter.dim() == 1 else 0.4
            noise = torch.randn(parameter.shape, generator=generator) * size
            parameter.copy_(noise + shift)
    model.module.double()
    return model


def values(table: pd.DataFrame, sentence: str = "source") -> np.ndarray:
    return table[table["sentence"] == sentence]["value"].to_numpy()


def logits(model: Model, source: list[int] = SOURCE, held: list[int] = HELD) -> Tensor:
    with torch.inference_mode():
        return model.module(torch.tensor([source]), torch.tensor([held]))[0]


def explained(model: Model, method: str, word: int = WORD) -> Explanation:
    return tv.explain(model, SOURCE, word, HELD, method)


def test_weights_and_gradients_of_a_row():
    model = drawn()
    trace = tv.trace(model, SOURCE, HELD)
    found = explained(model, "weights").values
    cross, own = (
        np.mean([trace.attention(block, layer=n)[:, WORD] for n in range(2)], (0, 1))
        for block in ("cross", "decoder")
    )
    assert values(found) == pytest.approx(cross, abs=1e-6)
    assert values(found, "target") == pytest.approx(own[: WORD + 1], abs=1e-6)
    assert list(found[found["sentence"] == "target"]["token"]) == [0, 1, 2]  # no later words
    model = drawn()
    found = explained(model, "gradient").values
    assert np.isfinite(found["value"]).all() and (found["value"] >= -1e-12).all()
    assert found["value"].sum() > 0
    gpt = drawn(encoder_layers=0, source_vocab=0)
    alone = tv.explain(gpt, [5, 17, 6, 29, 8], 2, method="gradient").values
    assert list(alone["token"]) == [0, 1, 2]
    longer = tv.explain(gpt, [5, 17, 6, 29, 30], 2, method="gradient").values
    assert values(longer) == pytest.approx(values(alone), abs=1e-9)


@pytest.mark.slow
def test_contributions_sum_to_what_each_block_made_and_direct_terms_to_the_logit():
    """P29, P32: norm before and after, with biases; a term for each head and feed-forward layer."""
    for name, words in CONFIGS.items():
        model = drawn(**words)
        found = explained(model, "contribution")
        assert found.complete <= 1e-10, name
        assert found.values["value"].sum() == pytest.approx(1, abs=1e-9), name
        found = explained(model, "logits")
        logit = float(logits(model)[WORD, ask(model, SOURCE, WORD, HELD).token])
        assert found.complete <= 1e-9, name
        assert found.values["value"].sum() == pytest.approx(logit, abs=1e-8), name
        counts = found.values.groupby("part").size()
        if name == "post":
            assert "earlier" in counts and captions.LAST_BLOCK.split(",")[0] in found.caption
        else:
            assert counts[["self", "cross"]].tolist() == [4, 4] and counts["feed_forward"] == 2


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_contributions_of_one_block_by_hand(norm):
    """``c_ij = sum_h A_h[i,j] x_j W_V W_O + [i = j] x_i``, then the norm with its scale held."""
    model = drawn(norm=norm)
    layer = model.module.encoder.layers[0]
    block, run = layer.self_attention, lambda: logits(model)
    x = seen(reading, block.value, run)[0]
    stream = seen(reading, layer.self_norm, run)[0] if norm == "pre" else x
    output = seen(giving, block.output, run)[0]
    weights = torch.tensor(tv.trace(model, SOURCE, HELD).attention("encoder", layer=0))
    with torch.no_grad():
        value = (x @ block.value.weight.T).reshape(len(SOURCE), block.heads, -1)
        matrix = block.output.weight.reshape(len(x[0]), block.heads, -1)
        given = torch.einsum("jhv,dhv->hjd", value, matrix)
        parts = torch.einsum("hij,hjd->ijd", weights.double(), given)
        parts[range(len(x)), range(len(x))] += stream
        if norm == "post":
            whole = stream + output
            scale = (whole.var(-1, unbiased=False) + layer.self_norm.eps).rsqrt()
            parts = parts - parts.mean(-1, keepdim=True)
            parts = parts * scale[:, None, None] * layer.self_norm.weight
    explainer = Explainer(ask(model, SOURCE, WORD, HELD))
    first = next(iter(explainer.contributions.values()))
    assert first.keys == pytest.approx(parts.norm(dim=-1).numpy(), rel=1e-5)
    others = parts.clone()
    others[range(len(x)), range(len(x))] = 0
    mixed = others.sum(1).norm(dim=-1)
    own = parts[range(len(x)), range(len(x))].norm(dim=-1)
    assert first.mixing == pytest.approx((mixed / (mixed + own)).numpy(), rel=1e-5)


def test_a_heads_direct_term_by_hand():
    """``z_h W_O`` through the last norm with its own scale, times the row of the output layer."""
    model = drawn(norm="pre")
    module, norm, run = model.module, model.module.decoder.norm, lambda: logits(model)
    stream = seen(reading, norm, run)[0, WORD]
    scale = (stream.var(unbiased=False) + norm.eps).rsqrt() * norm.weight
    unembed = module.output.weight[ask(model, SOURCE, WORD, HELD).token]
    table = explained(model, "logits").values.set_index(["part", "layer", "head"])["value"]
    for layer, name in product(range(2), ("self", "cross")):
        attention = getattr(module.decoder.layers[layer], f"{name}_attention")
        z = seen(reading, attention.output, run)[0, WORD].reshape(attention.heads, -1)
        matrix = attention.output.weight.reshape(len(stream), attention.heads, -1)
        for head in range(attention.heads):
            bias = attention.value.bias.reshape(attention.heads, -1)[head]
            written = matrix[:, head] @ (z[head] - bias)
            wanted = float((((written - written.mean()) * scale) @ unembed).detach())
            assert table[name, layer, head] == pytest.approx(wanted, abs=1e-8), (name, layer)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_begins_with_the_embeddings_and_ends_with_the_models_own_answer(norm):
    model = drawn(norm=norm)
    found = explained(model, "lens").values
    token, own = ask(model, SOURCE, WORD, HELD).token, logits(model)[WORD]
    assert list(found["layer"]) == [0, 1, 2]
    last = found.iloc[-1]
    assert last["logit"] == pytest.approx(float(own[token]), abs=1e-9)
    assert last["probability"] == pytest.approx(float(own.softmax(-1)[token]), rel=1e-9)
    assert last["rank"] == int((own > own[token]).sum()) + 1
    decoder = model.module.decoder
    first = decoder.layers[0]
    entered = first.self_norm if norm == "pre" else first.self_attention.query
    x = seen(reading, entered, lambda: logits(model))[0, WORD]
    with torch.no_grad():
        early = model.module.output(decoder.norm(x) if norm == "pre" else x)
    assert found.iloc[0]["logit"] == pytest.approx(float(early[token]), abs=1e-8)


def test_removal_is_a_run_with_the_word_hidden():
    """Against tv.trace with the edit *hide a word*, also in many sets at once."""
    for kind in (torch.float64, torch.float32):
        model = drawn()
        model.module.to(kind)
        token = ask(model, SOURCE, WORD, HELD).token
        found = explained(model, "removal").values
        full = float(logits(model)[WORD].double().log_softmax(-1)[token])
        source, target = (("encoder", "self"), ("decoder", "cross")), (("decoder", "self"),)
        sides = [("source", len(SOURCE), source), ("target", WORD + 1, target)]
        for sentence, count, at in sides:
            for key in range(count):
                edits = tuple(BlockKeys(keys=(key,), stack=s, block=b) for s, b in at)
                hidden = tv.trace(
                    model, SOURCE, HELD, intervention=Intervention(edits), check=False
                ).logits
                wanted = full - float(torch.tensor(hidden[WORD]).double().log_softmax(-1)[token])
                where = kind, sentence, key
                assert values(found, sentence)[key] == pytest.approx(wanted, abs=1e-5), where


@pytest.mark.slow
def test_captions_say_what_a_method_cannot():
    """Another word written by the same row: rollout and contributions are blind to it, and say
    so; gradient, removal, lens and direct logits are not."""
    model = drawn()
    for method in captions.METHODS:
        two = [tv.explain(model, SOURCE, WORD, [2, 7, 31, word], method) for word in (9, 23)]
        column = "logit" if method == "lens" else "value"
        same = np.allclose(two[0].values[column], two[1].values[column], atol=1e-12)
        blind = method in ("weights", "rollout", "contribution", "flow")
        assert same == blind, method
        if blind and method != "weights":
            assert "not about this output word" in two[0].caption
    assert set(CANNOT) == set(captions.METHODS) == set(captions.CAPTIONS)
    model = drawn()
    for method, words in CANNOT.items():
        found = explained(model, method)
        assert words in found.caption and found.caption.startswith(captions.CAPTIONS[method][:20])
        assert found.method == method == found.card["method"]
        assert (found.complete is not None) == (method in ("contribution", "logits"))
        words = {"model", "model_hash", "sentences_hash", "dtype", "seed", "version"}
        assert words <= set(found.card), method
    added = (captions.LAST_BLOCK, captions.WHOLE_VALUES, captions.WHOLE_BLOCKS)
    for text in (*captions.CAPTIONS.values(), *added):
        assert text in catalogue("zh")


CANNOT = {
    "weights": "not what it took from there or whether that mattered",
    "rollout": "values and feed-forward layers are left out",
    "contribution": "feed-forward layers are left out",
    "gradient": "first-order guess",
    "removal": "words that cover for each other each show little",
    "flow": "does not sum to 1",
    "lens": "often not readable this way",
    "logits": "It is the direct part alone",
}


@pytest.mark.families
def test_twins_of_one_function_get_one_answer():
    """P17, P18 (W5b, W5c, W5e): a bias moved behind the projection; one head's values ten times
    as long and its rows of W_O a tenth; queries and keys turned."""
    plain, text = random_gpt2().double(), [5, 9, 11, 5, 9, 30, 2, 7]
    for method in captions.METHODS:
        column = "logit" if method == "lens" else "value"
        own = tv.explain(plain, text, 6, method=method)
        for kind in (kind for kind in TWINS if kind != "permuted"):
            other = tv.explain(twin(plain, kind).module, text, 6, method=method)
            left, right = (one.values[column].to_numpy() for one in (own, other))
            same = left == pytest.approx(right, abs=1e-5)
            depends = method == "gradient" and kind == "bias"
            assert same != depends, (method, kind)
            if depends:  # the slope of a weight counts the bias that every key brings
                assert "depends on how the weights are written" in own.caption


@pytest.mark.families
def test_a_head_that_copies_is_named_by_its_word():
    """W1: the word after the one before is copied by one head; its logit is all there is."""
    made = gpt2([["shift1", "duplicate", "sink", "uniform"], ["induction", "shift0", "uniform"]], 4)
    prompt = [0, 5, 9, 11, 7, 13, 3, 5, 9, 11]
    found = {m: tv.explain(made.module, prompt, 8, method=m) for m in captions.METHODS}
    assert found["logits"].complete <= 1e-4
    table = found["logits"].values
    strongest = table.loc[table["value"].idxmax()]
    assert (strongest["part"], strongest["layer"]) == ("self", 1)
    assert strongest["head"] == made.place(1, 0)
    assert strongest["value"] == pytest.approx(4.0, abs=1e-3)
    rest = table.drop(strongest.name)["value"]
    assert rest.to_numpy() == pytest.approx(np.zeros(len(rest)), abs=1e-3)
    lens = found["lens"].values
    assert lens["rank"].iloc[-1] == 1
    assert lens["probability"].iloc[0] == pytest.approx(1 / 20, abs=0.01)
    for method in ("gradient", "removal"):
        read = found[method].values["value"].to_numpy()
        assert int(read.argmax()) == 3, (method, read)  # row 8 holds 9; behind the first stands 11


def test_refusals_and_a_core(tiny_model):
    said = "no method 'magic'; choose one of weights, rollout"
    refuses(said, tv.explain, tiny_model, SOURCE, 0, HELD, "magic")
    refuses(r"no word 9; this output has 0 to 3", tv.explain, tiny_model, SOURCE, 9, HELD)
    core = make_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    vectors = np.random.default_rng(0).normal(size=(5, 22)).astype(np.float32)
    refuses("has no output layer", tv.explain, core, vectors, 1, method="gradient")
    found = tv.explain(core, vectors, 1, method="contribution")
    assert found.complete < 1e-5
    assert "no output layer; the numbers are of the row" in found.caption


def test_projections_are_found_once_a_module_with_progress():
    model, passes, heard = tv.load(random_gpt2()), [0], []
    model.module.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    layers = model.module.config.n_layer
    counts, found = [], []
    for ids in (SOURCE, SOURCE, SOURCE[::-1]):
        passes[0] = 0
        found.append(tv.explain(model, ids, WORD, on_progress=lambda *done: heard.append(done)))
        counts.append(passes[0])
    assert heard == [(n, layers + 2) for n in range(1, layers + 3)]
    assert counts[1] == counts[2] == counts[0] - layers - 1
    pd.testing.assert_frame_equal(found[0].values, found[1].values)
    fresh = tv.explain(tv.load(random_gpt2()), SOURCE[::-1], WORD).values
    pd.testing.assert_frame_equal(found[2].values, fresh, atol=1e-6)
    weight = model.module.transformer.h[0].attn.c_proj.weight
    model.module.transformer.h[0].attn.c_proj.weight = torch.nn.Parameter(weight.detach() * 2)
    del heard[:]
    tv.explain(model, SOURCE, WORD, on_progress=lambda *done: heard.append(done))
    assert heard[-1] == (layers + 3, layers + 3), "looked for anew where a weight is another one"

    def stop(done: int, of: int):
        raise RuntimeError("enough")

    fresh = tv.load(random_gpt2())
    refuses("enough", tv.explain, fresh, SOURCE, WORD, on_progress=stop, error=RuntimeError)


def test_found_projections_keep_nothing_alive_and_need_few_rows(monkeypatch):
    model = tv.load(random_gpt2())
    expected = tv.explain(model, SOURCE, WORD).values
    old = weakref.ref(model.module.transformer.h[0].attn.c_proj.weight)
    weight = torch.nn.Parameter(old().detach().clone())
    model.module.transformer.h[0].attn.c_proj.weight = weight
    del weight
    for rows in (1, 3):
        monkeypatch.setattr(places, "MOST_ROWS", rows)
        places.FOUND.pop(model.module)
        pd.testing.assert_frame_equal(tv.explain(model, SOURCE, WORD).values, expected)
    gc.collect()
    assert old() is None
    module = weakref.ref(model.module)
    del model
    gc.collect()
    assert module() is None
