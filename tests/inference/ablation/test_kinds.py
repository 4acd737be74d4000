"""Rankings of models of every kind: masked, classes, tags, pictures, and modules by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

import transformer_viz as tv
from tests.support.refusals import refuses
from transformer_viz.inference.ablation.bench import Bench
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
