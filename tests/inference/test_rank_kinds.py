"""Rankings of models of every kind: masked, classes, tags, pictures, and modules by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.ranking import Ranking, measured

from .test_ablation import EXACT, apart, by_hand

TEXTS = [[5, 7, 11, 9, 3], [13, 21, 3], [21, 22, 5, 5, 30, 31, 32, 33, 3], [9, 8, 7, 3]]


def again_one_by_one(ranking: Ranking) -> Ranking:
    """The same ranking, with a run of the probe for each head."""
    old = ranking.bench
    return measured(
        Bench(old.model, old.examples, old.method, old.seed, lambda: None, one_by_one=True)
    )


def test_a_masked_model_guesses_what_is_hidden(build_model: Callable[..., Model]) -> None:
    model = replace(build_model(decoder_layers=0), mask_id=36)
    ranking = tv.rank(model, TEXTS, method="zero")
    for text, example in zip(TEXTS, ranking.bench.examples.items, strict=True):
        shown = example.source.tolist()
        hidden = [place for place, token in enumerate(shown) if token == 36]
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
def test_pictures_and_their_classes() -> None:
    model = tv.load("digits", device="cpu")
    generator = np.random.default_rng(0)
    pictures = list(generator.random((5, 1, 8, 8)).astype(np.float32))
    own = tv.rank(model, pictures, method="zero")
    assert own.card["rows"] == 5
    assert own.card["references"] == "the model's own most probable classes of the clean run"
    assert apart(own, again_one_by_one(own)) <= EXACT
    named = tv.rank(model, [(picture, "three") for picture in pictures])
    numbered = tv.rank(model, [(picture, 3) for picture in pictures])
    assert named.card["references"] == "given classes"
    assert named.table.equals(numbered.table)
    with pytest.raises(ValueError, match="no class 'eleven'; this model knows zero, one"):
        tv.rank(model, [(pictures[0], "eleven")])


@pytest.mark.families
@pytest.mark.parametrize("name", ["BertForTokenClassification", "BertForSequenceClassification"])
def test_classes_of_texts_and_of_tokens(name: str) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=37,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=31,
        max_position_embeddings=32,
        num_labels=5,
        initializer_range=0.3,
    )
    # in float64 little is left of rounding
    model = tv.load(getattr(transformers, name)(config).double().eval())
    ranking = tv.rank(model, TEXTS, method="zero")
    rows = len(TEXTS) if "Sequence" in name else sum(map(len, TEXTS))
    assert ranking.card["rows"] == rows
    assert apart(ranking, again_one_by_one(ranking)) <= EXACT
    if "Token" in name:
        with pytest.raises(ValueError, match=r"Sentence 1 has 5 tokens and 2 classes"):
            tv.rank(model, [(TEXTS[0], [1, 2])])


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
        for _ in range(self.times):
            for layer in self.layers:
                x = layer(x, src_mask=mask, is_causal=True)
        x = x if self.batch_first else x.transpose(0, 1)
        return self.head(x)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_module_on_lists_of_ids(batch_first: bool, shared: bool) -> None:
    module = Causal(batch_first, shared).double()  # in float64 little is left of rounding
    ranking = tv.rank(module, TEXTS, method="zero")
    assert ranking.bench.in_one_pass
    assert [place.nth for place in ranking.bench.places] == ([0, 1] if shared else [0, 0])
    assert len(ranking.heads) == 6
    assert apart(ranking, again_one_by_one(ranking)) <= EXACT
    uniform = tv.rank(module, TEXTS, method="uniform")
    assert apart(uniform, again_one_by_one(uniform)) <= EXACT
    mean, resampled = tv.rank(module, TEXTS), tv.rank(module, TEXTS, method="resample")
    assert np.abs(mean.effects - resampled.effects).max() > 0.01


def test_a_stand_in_is_the_mean_over_real_rows_alone(tiny_model: Model) -> None:
    """Padding of a batch takes no part in a mean: sentences alone and side by side give one."""
    pairs = [(text, [2, *text[:2]]) for text in TEXTS]
    padded = tv.rank(tiny_model, pairs).bench
    assert any(not bool(batch.visible.all()) for batch in padded.batches)
    assert padded.stand_ins is not None
    values = padded.stand_ins.of(padded.batches[0])
    for place, value in zip(padded.places, values, strict=True):
        rows = []
        for item in padded.examples.items:
            kept: list[Tensor] = []
            module = tiny_model.module.get_submodule(place.site.path)
            handle = module.output.register_forward_pre_hook(
                lambda _, inputs, kept=kept: kept.append(inputs[0][0])
            )
            with torch.inference_mode():
                tiny_model.module(item.source[None], item.target[None])
            handle.remove()
            rows += kept
        wanted = torch.cat(rows).double().mean(0)
        assert float((value[0, 0, 0] - wanted).abs().max()) <= EXACT


def judge() -> Model:
    """A small classifier with a vocabulary, which reads one text or two."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "great", "awful", "not"]
    pieces = Tokenizer(models.WordPiece({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {name: f"[{name[:3].upper()}]" for name in ("pad_token", "unk_token", "sep_token")}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, cls_token="[CLS]", **marks
    )
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    labels = {0: "negative", 1: "Positive"}
    config = transformers.BertConfig(vocab_size=len(words), **sizes, id2label=labels)
    return tv.load(transformers.BertForSequenceClassification(config), tokenizer=tokenizer)


@pytest.mark.families
def test_a_class_by_a_wrong_name_is_not_read_as_a_second_text() -> None:
    model = judge()
    assert model.pairs and model.labels == ("negative", "Positive")
    text = "the film was great"
    for wrong in ("positive", "LABEL_1", "1", "neg"):
        with pytest.raises(ValueError, match=rf"no class '{wrong}'.*negative, Positive"):
            tv.rank(model, [(text, "Positive"), (text, wrong)])
    named = tv.rank(model, [(text, "Positive"), (text, 0)])
    assert named.card["references"] == "given classes"
    two = tv.rank(model, [(text, "the film was not awful"), ((text, "awful"), "Positive")])
    assert "1 of the inputs were read as two texts" in two.card["references"]


@pytest.mark.families
def test_a_class_is_asked_about_by_target_and_not_by_word() -> None:
    model, text = judge(), "the film was great"
    with pytest.raises(ValueError, match="Name a class by target='negative'"):
        tv.explain(model, text, "negative")
    both = [tv.explain(model, text, target=t, method="gradient").word for t in model.labels]
    assert both == ["negative", "Positive"]
