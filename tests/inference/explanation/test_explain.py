"""tv.explain against formulas written out with the module's own parts, and its laws."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from tests.support.witness_models import TWINS, random_gpt2, twin
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


def drawn(build: Callable[..., Model], **words: object) -> Model:
    """Random weights in double precision, biases among them."""
    model, generator = build(**words), torch.Generator().manual_seed(5)
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


def test_the_weights_are_the_mean_of_the_row(build_model: Callable[..., Model]) -> None:
    model = drawn(build_model)
    trace = tv.trace(model, SOURCE, HELD)
    found = explained(model, "weights").values
    cross = np.mean([trace.attention("cross", layer=n)[:, WORD] for n in range(2)], (0, 1))
    own = np.mean([trace.attention("decoder", layer=n)[:, WORD] for n in range(2)], (0, 1))
    assert values(found) == pytest.approx(cross, abs=1e-6)
    assert values(found, "target") == pytest.approx(own[: WORD + 1], abs=1e-6)
    assert list(found[found["sentence"] == "target"]["token"]) == [0, 1, 2]  # no later words


@pytest.mark.parametrize("name", CONFIGS)
def test_contributions_sum_to_what_each_block_made(
    name: str, build_model: Callable[..., Model]
) -> None:
    """P29: norm before and after, with biases."""
    model = drawn(build_model, **CONFIGS[name])
    found = explained(model, "contribution")
    assert found.complete is not None and found.complete <= 1e-10
    assert found.values["value"].sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_contributions_of_one_block_by_hand(norm: str, build_model: Callable[..., Model]) -> None:
    """``c_ij = sum_h A_h[i,j] x_j W_V W_O + [i = j] x_i``, then the norm with its scale held."""
    model = drawn(build_model, norm=norm)
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


@pytest.mark.parametrize("name", CONFIGS)
def test_direct_terms_sum_to_the_logit(name: str, build_model: Callable[..., Model]) -> None:
    """P32; and there is a term for each head and each feed-forward layer of the decoder."""
    model = drawn(build_model, **CONFIGS[name])
    found = explained(model, "logits")
    token = ask(model, SOURCE, WORD, HELD).token
    assert found.complete is not None and found.complete <= 1e-9
    assert found.values["value"].sum() == pytest.approx(float(logits(model)[WORD, token]), abs=1e-8)
    counts = found.values.groupby("part").size()
    if name == "post":
        assert "earlier" in counts and captions.LAST_BLOCK.split(",")[0] in found.caption
    else:
        assert counts[["self", "cross"]].tolist() == [4, 4] and counts["feed_forward"] == 2


def test_a_heads_direct_term_by_hand(build_model: Callable[..., Model]) -> None:
    """``z_h W_O`` through the last norm with its own scale, times the row of the output layer."""
    model = drawn(build_model, norm="pre")
    module, question = model.module, ask(model, SOURCE, WORD, HELD)
    norm = module.decoder.norm

    def run() -> Tensor:
        return logits(model)

    stream = seen(reading, norm, run)[0, WORD]
    table = explained(model, "logits").values
    for layer, block in enumerate(module.decoder.layers):
        for name in ("self", "cross"):
            attention = getattr(block, f"{name}_attention")
            z = seen(reading, attention.output, run)[0, WORD].reshape(attention.heads, -1)
            matrix = attention.output.weight.reshape(len(stream), attention.heads, -1)
            for head in range(attention.heads):
                bias = attention.value.bias.reshape(attention.heads, -1)[head]
                written = matrix[:, head] @ (z[head] - bias)
                centred = written - written.mean()
                scale = (stream.var(unbiased=False) + norm.eps).rsqrt()
                unembed = module.output.weight[question.token]
                wanted = float(((centred * scale * norm.weight) @ unembed).detach())
                row = table[
                    (table["part"] == name) & (table["layer"] == layer) & (table["head"] == head)
                ]
                assert row["value"].item() == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_ends_with_the_models_own_answer(
    norm: str, build_model: Callable[..., Model]
) -> None:
    """And begins with the output layer on the embeddings."""
    model = drawn(build_model, norm=norm)
    found = explained(model, "lens").values
    question, own = ask(model, SOURCE, WORD, HELD), logits(model)[WORD]
    assert list(found["layer"]) == [0, 1, 2]
    last = found.iloc[-1]
    assert last["logit"] == pytest.approx(float(own[question.token]), abs=1e-9)
    chance = float(own.softmax(-1)[question.token])
    assert last["probability"] == pytest.approx(chance, rel=1e-9)
    assert last["rank"] == int((own > own[question.token]).sum()) + 1
    decoder = model.module.decoder
    first = decoder.layers[0]
    entered = first.self_norm if norm == "pre" else first.self_attention.query
    x = seen(reading, entered, lambda: logits(model))[0, WORD]
    with torch.no_grad():
        read = decoder.norm(x) if norm == "pre" else x
        early = model.module.output(read)
    assert found.iloc[0]["logit"] == pytest.approx(float(early[question.token]), abs=1e-8)


@pytest.mark.parametrize("method", ["double", "single"])
def test_removal_is_a_run_with_the_word_hidden(
    method: str, build_model: Callable[..., Model]
) -> None:
    """Against tv.trace with the edit *hide a word*, also in many sets at once."""
    model = drawn(build_model)
    if method == "single":
        model.module.float()
    question = ask(model, SOURCE, WORD, HELD)
    found = explained(model, "removal").values
    full = float(logits(model)[WORD].double().log_softmax(-1)[question.token])
    for sentence, count in (("source", len(SOURCE)), ("target", WORD + 1)):
        for key in range(count):
            edits: tuple[BlockKeys, ...] = (
                BlockKeys(keys=(key,), stack="encoder", block="self"),
                BlockKeys(keys=(key,), stack="decoder", block="cross"),
            )
            if sentence == "target":
                edits = (BlockKeys(keys=(key,), stack="decoder", block="self"),)
            hidden = tv.trace(model, SOURCE, HELD, intervention=Intervention(edits)).logits
            chance = torch.tensor(hidden[WORD]).double().log_softmax(-1)[question.token]
            wanted = full - float(chance)
            assert values(found, sentence)[key] == pytest.approx(wanted, abs=1e-5)


def test_gradients_of_a_batch_are_those_alone_and_of_the_past(
    build_model: Callable[..., Model],
) -> None:
    """P31: nothing on later words; R3 of the whole decoder is at least 0 and finite."""
    model = drawn(build_model)
    found = explained(model, "gradient").values
    assert np.isfinite(found["value"]).all() and (found["value"] >= -1e-12).all()
    assert found["value"].sum() > 0
    gpt = drawn(build_model, encoder_layers=0, source_vocab=0)
    alone = tv.explain(gpt, [5, 17, 6, 29, 8], 2, method="gradient").values
    assert list(alone["token"]) == [0, 1, 2]
    longer = tv.explain(gpt, [5, 17, 6, 29, 30], 2, method="gradient").values
    assert values(longer) == pytest.approx(values(alone), abs=1e-9)


def test_only_some_methods_are_about_the_word(build_model: Callable[..., Model]) -> None:
    """Another word written by the same row: rollout and contributions are blind to it, and say
    so; gradient, removal, lens and direct logits are not."""
    model = drawn(build_model)
    for method in captions.METHODS:
        two = []
        for next_word in (9, 23):
            two.append(tv.explain(model, SOURCE, WORD, [2, 7, 31, next_word], method))
        column = "logit" if method == "lens" else "value"
        same = np.allclose(two[0].values[column], two[1].values[column], atol=1e-12)
        blind = method in ("weights", "rollout", "contribution", "flow")
        assert same == blind, method
        if blind and method != "weights":
            assert "not about this output word" in two[0].caption


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


def test_each_caption_says_what_it_cannot_say(build_model: Callable[..., Model]) -> None:
    assert set(CANNOT) == set(captions.METHODS) == set(captions.CAPTIONS)
    model = drawn(build_model)
    for method, words in CANNOT.items():
        found = explained(model, method)
        assert words in found.caption and found.caption.startswith(captions.CAPTIONS[method][:20])
        assert found.method == method == found.card["method"]
        assert (found.complete is not None) == (method in ("contribution", "logits"))
        assert {"model", "model_hash", "sentences_hash", "dtype", "seed", "version"} <= set(
            found.card
        )


@pytest.mark.families
@pytest.mark.parametrize("kind", [kind for kind in TWINS if kind != "permuted"])
def test_twins_of_one_function_get_one_answer(kind: str) -> None:
    """P17, P18 (W5b, W5c, W5e): a bias moved behind the projection; one head's values ten times
    as long and its rows of W_O a tenth; queries and keys turned."""
    plain = random_gpt2().double()
    other = twin(plain, kind).module
    text = [5, 9, 11, 5, 9, 30, 2, 7]
    for method in captions.METHODS:
        a, b = (tv.explain(model, text, 6, method=method) for model in (plain, other))
        column = "logit" if method == "lens" else "value"
        left, right = (one.values[column].to_numpy() for one in (a, b))
        same = left == pytest.approx(right, abs=1e-5)
        depends = method == "gradient" and kind == "bias"
        assert same != depends, method
        if depends:  # the slope of a weight counts the bias that every key brings
            assert "depends on how the weights are written" in a.caption


@pytest.mark.families
def test_a_head_that_copies_is_named_by_its_word() -> None:
    """W1: the word after the one before is copied by one head; its logit is all there is."""
    from tests.support.witness_models import gpt2

    made = gpt2([["shift1", "duplicate", "sink", "uniform"], ["induction", "shift0", "uniform"]], 4)
    prompt = [0, 5, 9, 11, 7, 13, 3, 5, 9, 11]
    found = {m: tv.explain(made.module, prompt, 8, method=m) for m in captions.METHODS}
    assert found["logits"].complete is not None and found["logits"].complete <= 1e-4
    table = found["logits"].values
    strongest = table.loc[table["value"].idxmax()]
    assert (strongest["part"], strongest["layer"]) == ("self", 1)
    assert strongest["head"] == made.place(1, 0)
    assert strongest["value"] == pytest.approx(4.0, abs=1e-3)
    rest = table.drop(strongest.name)["value"]
    assert rest.to_numpy() == pytest.approx(np.zeros(len(rest)), abs=1e-3)
    lens = found["lens"].values
    assert lens["rank"].iloc[-1] == 1 and lens["probability"].iloc[0] == pytest.approx(
        1 / 20, abs=0.01
    )
    copied = 3  # row 8 holds 9, and behind the first 9 stands 11, at place 3
    for method in ("gradient", "removal"):
        read = found[method].values["value"].to_numpy()
        assert int(read.argmax()) == copied, (method, read)


def test_what_is_refused(build_model: Callable[..., Model], tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="no method 'magic'; choose one of weights, rollout"):
        tv.explain(tiny_model, SOURCE, 0, HELD, "magic")
    with pytest.raises(ValueError, match=r"no word 9; this output has 0 to 3"):
        tv.explain(tiny_model, SOURCE, 9, HELD)
    core = build_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    vectors = np.random.default_rng(0).normal(size=(5, 22)).astype(np.float32)
    with pytest.raises(ValueError, match="has no output layer"):
        tv.explain(core, vectors, 1, method="gradient")
    found = tv.explain(core, vectors, 1, method="contribution")
    assert found.complete is not None and found.complete < 1e-5
    assert "no output layer; the numbers are of the row" in found.caption


def test_every_caption_is_there_in_chinese() -> None:
    added = (captions.LAST_BLOCK, captions.WHOLE_VALUES, captions.WHOLE_BLOCKS)
    for text in (*captions.CAPTIONS.values(), *added):
        assert text in catalogue("zh")


def test_projections_are_found_once_a_module_with_progress() -> None:
    model, passes, heard = tv.load(random_gpt2()), [0], []
    model.module.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    layers = model.module.config.n_layer
    counts, found = [], []
    for ids in (SOURCE, SOURCE, SOURCE[::-1]):
        passes[0] = 0
        found.append(tv.explain(model, ids, WORD, tell=lambda *done: heard.append(done)))
        counts.append(passes[0])
    assert heard == [(n, layers + 2) for n in range(1, layers + 3)]
    assert counts[1] == counts[2] == counts[0] - layers - 1
    pd.testing.assert_frame_equal(found[0].values, found[1].values)
    other = tv.load(random_gpt2())  # knows nothing yet
    pd.testing.assert_frame_equal(
        found[2].values, tv.explain(other, SOURCE[::-1], WORD).values, atol=1e-6
    )
    weight = model.module.transformer.h[0].attn.c_proj.weight
    model.module.transformer.h[0].attn.c_proj.weight = torch.nn.Parameter(weight.detach() * 2)
    del heard[:]
    tv.explain(model, SOURCE, WORD, tell=lambda *done: heard.append(done))
    assert heard[-1] == (layers + 3, layers + 3), "looked for anew where a weight is another one"

    def stop(done: int, of: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tv.explain(tv.load(random_gpt2()), SOURCE, WORD, tell=stop)


def test_found_projections_keep_nothing_alive_and_need_few_rows(monkeypatch) -> None:
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
