"""Rankings of every kind of model, and of models whose heads have a known worth."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built, copied
from tests.families.more import MORE
from tests.support.refusals import refuses
from tests.support.witness_models import (
    HEADS,
    TWINS,
    VOCABULARY,
    WIDTH,
    Witness,
    importance,
    random_gpt2,
    second_halves,
    twin,
)
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import read_examples
from transformer_viz.inference.ablation.ranking import Ranking, measured

from .test_ablation import EXACT, apart, by_hand

TEXTS = [[5, 7, 11, 9, 3], [13, 21, 3], [21, 22, 5, 5, 30, 31, 32, 33, 3], [9, 8, 7, 3]]


def again(ranking: Ranking) -> Ranking:
    """The same ranking, with a run of the probe for each head."""
    old, tell = ranking.bench, lambda: None
    return measured(Bench(old.model, old.examples, old.method, old.seed, tell, one_by_one=True))


def test_a_masked_model_guesses_what_is_hidden(build_model):
    model = replace(build_model(decoder_layers=0), mask_id=36)
    ranking = tv.rank(model, TEXTS, method="zero")
    for text, example in zip(TEXTS, ranking.bench.examples.items, strict=True):
        hidden = [place for place, token in enumerate(example.source.tolist()) if token == 36]
        assert tuple(hidden) == example.rows
        assert example.wanted == tuple(text[place] for place in hidden)
        assert len(text) - 1 not in hidden  # the end mark is no word
        assert len(hidden) == max(1, round(0.15 * (len(text) - 1)))
    assert "15% of each sentence's tokens" in str(ranking.card["references"])
    wanted = by_hand(model, ranking.bench.examples.items, mean=False)
    assert np.abs(ranking.effects - wanted).max() <= EXACT
    other = tv.rank(model, TEXTS, method="zero", seed=1)
    assert other.card["sentences_hash"] != ranking.card["sentences_hash"]


@pytest.mark.shipped
def test_pictures_and_their_classes():
    model = tv.load("digits", device="cpu")
    pictures = list(np.random.default_rng(0).random((5, 1, 8, 8)).astype(np.float32))
    own = tv.rank(model, pictures, method="zero")
    assert own.card["rows"] == 5
    assert own.card["references"] == "the model's own most probable classes of the clean run"
    assert apart(own, again(own)) <= EXACT
    named, numbered = (tv.rank(model, [(x, label) for x in pictures]) for label in ("three", 3))
    assert named.card["references"] == "given classes"
    assert named.table.equals(numbered.table)
    said = "no class 'eleven'; this model knows zero, one"
    refuses(said, tv.rank, model, [(pictures[0], "eleven")])


@pytest.mark.families
def test_classes_of_texts_and_of_tokens():
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "num_labels": 5}
    sizes |= {"intermediate_size": 31, "max_position_embeddings": 32, "initializer_range": 0.3}
    config = transformers.BertConfig(vocab_size=37, **sizes)
    for name, rows in (("Sequence", len(TEXTS)), ("Token", sum(map(len, TEXTS)))):
        torch.manual_seed(0)
        module = getattr(transformers, f"BertFor{name}Classification")(config)
        model = tv.load(module.double().eval())  # in float64 little is left of rounding
        ranking = tv.rank(model, TEXTS, method="zero")
        assert ranking.card["rows"] == rows
        assert apart(ranking, again(ranking)) <= EXACT, name
    refuses(r"Sentence 1 has 5 tokens and 2 classes", tv.rank, model, [(TEXTS[0], [1, 2])])


class Causal(nn.Module):
    """A language model from PyTorch's own layers, sentences or tokens first; with ``shared`` all
    layers are one."""

    def __init__(self, batch_first: bool, shared: bool):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(37, 24), nn.Embedding(40, 24)
        layers = [
            nn.TransformerEncoderLayer(24, 3, 31, dropout=0.0, batch_first=batch_first)
            for _ in range(2 - shared)
        ]
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(24, 37)
        self.batch_first, self.times = batch_first, 1 + shared
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=x.dtype)
        x = x if self.batch_first else x.transpose(0, 1)
        for layer in [*self.layers] * self.times:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x if self.batch_first else x.transpose(0, 1))


@pytest.mark.slow
def test_a_module_on_lists_of_ids():
    for batch_first, shared in product((True, False), (True, False)):
        case = batch_first, shared
        module = Causal(*case).double()
        ranking = tv.rank(module, TEXTS, method="zero")
        assert ranking.bench.in_one_pass, case
        assert [place.nth for place in ranking.bench.places] == ([0, 1] if shared else [0, 0])
        assert len(ranking.heads) == 6
        assert apart(ranking, again(ranking)) <= EXACT, case
        uniform = tv.rank(module, TEXTS, method="uniform")
        assert apart(uniform, again(uniform)) <= EXACT, case
        mean, resampled = tv.rank(module, TEXTS), tv.rank(module, TEXTS, method="resample")
        assert np.abs(mean.effects - resampled.effects).max() > 0.01, case


@pytest.mark.families
def test_a_class_is_named_exactly_and_is_no_second_text():
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "great", "awful", "not"]
    pieces = Tokenizer(models.WordPiece({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "sep", "cls")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **marks)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    labels = {0: "negative", 1: "Positive"}
    config = transformers.BertConfig(vocab_size=len(words), **sizes, id2label=labels)
    model = tv.load(transformers.BertForSequenceClassification(config), tokenizer=tokenizer)
    assert model.pairs and model.labels == ("negative", "Positive")
    text = "the film was great"
    for wrong in ("positive", "LABEL_1", "1", "neg"):
        said = rf"no class '{wrong}'.*negative, Positive"
        refuses(said, tv.rank, model, [(text, "Positive"), (text, wrong)])
    named = tv.rank(model, [(text, "Positive"), (text, 0)])
    assert named.card["references"] == "given classes"
    two = tv.rank(model, [(text, "the film was not awful"), ((text, "awful"), "Positive")])
    assert "1 of the inputs were read as two texts" in two.card["references"]
    refuses("Name a class by target='negative'", tv.explain, model, text, "negative")
    both = [tv.explain(model, text, target=t, method="gradient").word for t in model.labels]
    assert both == ["negative", "Positive"]


PROMPTS = second_halves(8)
#: The heads as they are written, and in another order.
SEEDS = [None, 1]


@cache
def witness(gain: float, copies: int, seed: int | None = None) -> tuple[Witness, Ranking]:
    written = importance(gain, copies, seed)
    return written, tv.rank(written.module, PROMPTS, method="zero")


def effect(written: Witness, ranking: Ranking, layer: int, head: int) -> float:
    place = written.place(layer, head)
    return float(ranking.group([("decoder", "self", layer, place)])["effect"])


def loss_without_any(gain: float) -> float:
    """What a token costs where it alone has a logit, ``gain``; ln V where none has."""
    return math.log(math.exp(gain) + VOCABULARY - 1) - gain


@pytest.mark.families
def test_the_true_ranking_of_an_induction_head():
    """W4, P22: both heads of the chain cost everything, also where the gradient is 0."""
    for gain, worth in ((4.0, 2.697), (20.0, 2.996)):
        for seed in SEEDS:
            case, (written, ranking) = (gain, seed), witness(gain, 1, seed)
            table = ranking.table.iloc[:2]
            wanted = math.log(VOCABULARY) - loss_without_any(gain)
            assert wanted == pytest.approx(worth, abs=5e-4)
            found = {tuple(pair) for pair in table[["layer", "head"]].to_numpy().tolist()}
            assert found == {(layer, written.place(layer, 0)) for layer in (0, 1)}, case
            assert table["effect"].to_numpy() == pytest.approx([wanted] * 2, abs=1e-5), case
            assert table["significant"].all() and (table["rank_high"] <= 2).all(), case
    for (gain, copies), seed in product(((4.0, 1), (20.0, 1), (20.0, 2)), SEEDS):
        case, (written, ranking) = (gain, copies, seed), witness(gain, copies, seed)
        used = {(0, written.place(0, 0)), *((1, written.place(1, n)) for n in range(copies))}
        idle = [n for n, site in enumerate(ranking.heads) if (site.layer, site.head) not in used]
        assert len(idle) == 2 * HEADS - 1 - copies
        assert (ranking.effects[:, idle] == 0).all(), case
        dull = ranking.table.iloc[1 + copies :]
        assert (dull[["effect", "low", "high", "kl", "changed"]] == 0).all(axis=None), case
        assert not dull["significant"].any(), case
        # none of them is put before another
        assert (dull["rank_low"] == 2 + copies).all(), case
        assert (dull["rank_high"] == 2 * HEADS).all(), case


@pytest.mark.families
def test_the_gradient_calls_the_most_important_heads_useless():
    """P22: on the saturated witness |dL/dgate| is nothing, where removal costs ln V."""
    model, gates, losses = importance(20.0).module, torch.ones(2, HEADS, requires_grad=True), []

    def gate(layer: int) -> object:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (inputs[0] * gates[layer].repeat_interleave(WIDTH),)

        return hook

    for layer, block in enumerate(model.transformer.h):
        block.attn.c_proj.register_forward_pre_hook(gate(layer))
    for first, second in PROMPTS:
        rows = model(torch.tensor([first + second])).logits[0, len(first) - 1 : -1]
        losses.append(nn.functional.cross_entropy(rows, torch.tensor(second)))
    torch.stack(losses).mean().backward()
    assert float(gates.grad.abs().max()) < 1e-6
    assert witness(20.0, 1)[1].table["effect"].iloc[0] > 2.99


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_two_heads_that_cover_for_each_other(seed):
    """P23: alone each of two copies costs nothing, and the pair table shows what both are worth."""
    written, ranking = witness(20.0, 2, seed)
    assert effect(written, ranking, 0, 0) == pytest.approx(math.log(VOCABULARY), abs=1e-4)
    assert max(effect(written, ranking, 1, head) for head in (0, 1)) < 1e-3
    pairs = ranking.pairs
    names = {f"decoder L1 H{written.place(1, head)}" for head in (0, 1)}
    both = pairs[pairs["a"].isin(names) & pairs["b"].isin(names)].iloc[0]
    assert both["together"] == pytest.approx(2.996, abs=1e-3)
    assert both["interaction"] == pytest.approx(2.996, abs=2e-3)
    assert both["covered"] and pairs["covered"].sum() == 1
    assert any("may be covered by others" in note for note in ranking.notes)
    # removing the head before them leaves nothing that one of them could lose: links of a chain
    first = f"decoder L0 H{written.place(0, 0)}"
    chain = pairs[(pairs["a"] == first) | (pairs["b"] == first)]
    assert (chain["interaction"] <= 0).all()


@pytest.mark.families
def test_other_weights_of_one_function():
    """W5, P17: the ranking by means stays whatever the weights; zero's does not where a value bias
    moved into the output bias, and the ranking says so."""
    one, methods = random_gpt2(), ("mean", "zero", "resample")
    texts = torch.randint(37, (12, 13), generator=torch.Generator().manual_seed(3)).tolist()
    ids = torch.tensor(texts)
    plain = {method: tv.rank(one, texts, method=method) for method in methods}
    for kind in TWINS:
        other = twin(one, kind)
        with torch.inference_mode():
            assert (one(ids).logits - other.module(ids).logits).abs().max() < 2e-5
        # column n of the twin is head order[n] of the original
        order = [HEADS * layer + head for layer, heads in enumerate(other.order) for head in heads]
        for method, a in plain.items():
            b = tv.rank(other.module, texts, method=method)
            apart = float(np.abs(a.effects[:, order] - b.effects).max() / 12)
            assert a.card["method"] == method
            warned = "output projection changes this ranking" in " ".join(a.notes)
            assert warned == (method == "zero"), method
            moved = (method, kind) == ("zero", "bias")
            assert apart > 0.05 if moved else apart < 5e-6, (method, kind)


@pytest.mark.families
@pytest.mark.parametrize("names", [("gpt2", "llama", "marian"), ("gpt_neox", "falcon", "t5")])
def test_one_pass_is_the_probe_one_by_one(names):
    """P21 on models of the transformers library: fused projections, grouped queries, biases."""
    texts, tell = [[1, 5, 7, 11, 13, 2], [1, 9, 8, 7, 2], [1, 33, 21, 5, 5, 30, 2]], lambda: None
    pairs = [(a, [1, *b[2:5]]) for a, b in zip(texts, texts[::-1], strict=True)]
    # in float64, as far as these models let it: some take their softmax in float32 all the same
    models = {name: tv.load(copied(BY_NAME[name]).double()) for name in names}
    for (name, model), method in product(models.items(), ("zero", "uniform")):
        given, case = pairs if model.kind == "encoder-decoder" else texts, (name, method)
        examples = read_examples(model, given, 0, tell)
        fast = Bench(model, examples, method, 0, tell)
        assert fast.in_one_pass, case
        slow = Bench(model, examples, method, 0, tell, one_by_one=True)
        a, b = measured(fast), measured(slow)
        assert np.abs(a.effects).max() > 0.1, case
        assert (np.abs(a.effects - b.effects) / a.counts[:, None]).max() <= EXACT, case


@pytest.mark.families
def test_a_model_whose_projection_is_not_found_has_a_run_for_each_head():
    """Bitnet norms the heads together before it projects them: no feature is one head's alone."""
    model = tv.load(built(next(family for family in MORE if family.name == "bitnet")))
    texts = [[1, 5, 7, 11, 13, 2], [1, 9, 8, 7, 2]]
    ranking = tv.rank(model, texts, method="zero")
    assert ranking.card["runs"] == "one run of the probe a head"
    assert ranking.table["effect"].iloc[0] > 0.1
    with pytest.raises(ValueError, match=r"not found before an output projection.*method='zero'"):
        tv.rank(model, texts)
