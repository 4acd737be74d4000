"""Inputs by kind of model: pairs, masked words, vectors, ids; and things of a wrong kind."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from tests.conftest import TINY, make_model, ramp
from tests.support.refusals import refuses
from transformer_viz import Intervention, Trace, trace
from transformer_viz.checkpoints.common.model import Calls, Model
from transformer_viz.core.interventions import Pad, Temperature
from transformer_viz.preprocessing.tokenizers import PlainIds

MASK = 4


class Pairs(PlainIds):
    """Ids of two texts with a 5 after each."""

    def pair_ids(self, first: str, second: str) -> tuple[list[int], list[int]]:
        one, two = ([*self.source_ids(text), 5] for text in (first, second))
        return one + two, [0] * len(one) + [1] * len(two)


class Judge(nn.Module):
    """One attention over embedded tokens and segments; the first token's state is classified."""

    def __init__(self):
        super().__init__()
        self.tokens, self.segments = nn.Embedding(37, 14), nn.Embedding(2, 14)
        self.query, self.key, self.value = (nn.Linear(14, 14) for _ in range(3))
        self.output, self.classes = nn.Linear(14, 14), nn.Linear(14, 3)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        x = self.tokens(ids)
        x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        q, k, v = (
            f(x).unflatten(-1, (2, 7)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(-2, -1) / 7**0.5, -1)
        return self.classes(x + self.output((weights @ v).transpose(1, 2).flatten(2)))[:, 0]


@pytest.fixture(scope="module")
def judge() -> Model:
    """A classifier of pairs with three classes."""
    module = ramp(Judge()).eval()

    def forward(source: Tensor, target: Any = None, mask: Any = None, **words: Any) -> Tensor:
        return module(source, **words)

    config, words = {"heads": 2, "source_vocab": 37}, {"layout": "test", "gives": "classes"}
    words |= {"labels": ("yes", "no", "maybe"), "pairs": True}
    given = ("judge", module, "encoder-only", config, Pairs(37), "cpu", Calls(forward))
    names = ("name", "module", "kind", "config", "tokenizer", "device", "calls")
    return Model(**dict(zip(names, given, strict=True)), **words)


@pytest.fixture(scope="module")
def masked() -> Model:
    """An encoder with an output layer, whose id 4 stands for a hidden word."""
    return replace(make_model(replace(TINY, decoder_layers=0, target_vocab=37)), mask_id=MASK)


@pytest.fixture(scope="module")
def core() -> Model:
    """A model of vectors."""
    return make_model(replace(TINY, source_vocab=0, target_vocab=0, decoder_layers=0))


def test_a_pair_is_one_source_with_segments(judge, masked):
    run = trace(judge, ("2 3", "7 8 9"))
    assert run.source.ids == (2, 3, 5, 7, 8, 9, 5)
    ids = torch.tensor([run.source.ids])
    both = judge.module(ids, torch.tensor([[0, 0, 0, 1, 1, 1, 1]]))[0]
    assert np.abs(run.logits - both.detach().numpy()).max() < 1e-6
    assert np.abs(run.logits - judge.module(ids)[0].detach().numpy()).max() > 1e-3
    refuses(r"reads two texts; got 3", trace, judge, ("2", "3", "4"))
    refuses(r"reads one text; got 2", trace, masked, ("2", "3"))


def test_a_classifier_is_asked_about_one_class_and_has_its_gradients(judge):
    run = trace(judge, "2 3 7")
    best = int(run.logits.argmax())
    assert (run.produced.ids, run.produced.rank.tolist()) == ((best,), [1])
    assert run.produced.labels == (("yes", "no", "maybe")[best],)
    other = trace(judge, "2 3 7", produced=[(best + 1) % 3]).produced
    wanted = torch.softmax(torch.tensor(run.logits).double(), -1)[(best + 1) % 3]
    assert other.rank[0] > 1 and abs(float(other.probability[0]) - float(wanted)) < 1e-6
    assert run.manifest["labels"] == ["yes", "no", "maybe"]
    refuses(r"from 0 to 2; got \[3\]", trace, judge, "2 3 7", produced=[3])
    module = judge.module
    x = (module.tokens(torch.tensor([2, 3, 7])) + module.segments.weight[0]).double()
    v = F.linear(x, module.value.weight.double(), module.value.bias.double()).view(3, 2, 7)
    for chosen in (0, 1, 2):
        run = trace(judge, "2 3 7", produced=[chosen], keep=("weights", "gradients"))
        gradients = run.attentions[0].gradients
        direction = module.output.weight.double().T @ module.classes.weight.double()[chosen]
        # only the first query reaches the classifier: d logit / d w[h, 0, k] = v[k, h] . dir[h]
        wanted = torch.einsum("khd,hd->hk", v, direction.view(2, 7)).detach().numpy()
        assert np.abs(gradients[:, 0] - wanted).max() < 1e-5, chosen
        assert np.abs(gradients[:, 1:]).max() == 0, chosen


def test_a_masked_model_fills_its_masks_and_keeps_the_other_words(masked):
    ids = [2, 9, MASK, 11, MASK, 3]
    run = trace(masked, ids)
    logits = masked.module(torch.tensor([ids]))[0].detach()
    best = logits.argmax(-1)
    assert run.produced.ids == (2, 9, int(best[2]), 11, int(best[4]), 3)
    chances = torch.softmax(logits.double(), -1)
    wanted = [float(chances[row, token]) for row, token in enumerate(run.produced.ids)]
    assert np.abs(run.produced.probability - np.array(wanted)).max() < 1e-6
    warm = Intervention((Temperature(value=3.0),))
    held = trace(masked, ids, produced=run.produced.ids, intervention=warm)
    assert held.produced.ids == run.produced.ids
    # gradients are those of its masked places
    both = trace(masked, ids, keep=("gradients",))
    gradients = both.attentions[0].gradients
    assert np.abs(gradients).max() > 0
    words = {"produced": both.produced.ids, "keep": ("gradients",)}
    other = trace(replace(masked, mask_id=36), ids, **words).attentions[0].gradients
    assert np.abs(gradients - other).max() > 1e-6  # all places, not two


def test_masking_by_number_keeps_the_rest(masked, judge):
    run = trace(masked, "2 9 10 11 12 3", masked=[2, 4])
    assert run.source.ids == (2, 9, MASK, 11, MASK, 3)
    assert run.source.special == (True, False, False, False, False, True)  # 2 starts, 3 ends
    marked = replace(masked, tokenizer=PlainIds(37, pad_id=MASK, bos_id=2, eos_id=3))
    assert trace(marked, "2 9 10 11 12 3", masked=[2, 4]).source.special == run.source.special
    said = "masked names token 6, and this source has 0 to 5"
    refuses(said, trace, masked, "2 9 10 11 12 3", masked=[6])
    refuses("has no mask token", trace, judge, "2 3", masked=[0])


def test_a_core_gives_its_last_vectors_and_they_are_stored(core, masked, tmp_path):
    assert (core.takes, core.gives) == ("vectors", "vectors")
    x = np.linspace(-1, 1, 66, dtype=np.float32).reshape(3, 22)
    run = trace(core, x)
    wanted = core.module(torch.from_numpy(x)[None])[0].detach().numpy()
    assert run.logits is None and np.abs(run.output - wanted).max() < 1e-6
    run.save(tmp_path / "run.safetensors")
    assert (Trace.load(tmp_path / "run.safetensors").output == run.output).all()
    assert trace(masked, "2 9").output is None


def test_an_input_of_another_kind_is_refused(core, masked):
    zeros, pad = np.zeros((3, 22), np.float32), Intervention((Pad(count=1),))
    refuses("it reads vectors", trace, core, "2 3")
    refuses(r"vectors of 7 numbers and this model reads 22", trace, core, zeros[:, :7])
    refuses("padding token, and vectors have none", trace, core, zeros, intervention=pad)
    refuses("no decoder; leave the target out", trace, masked, [2, 3], target=[2])
    gpt, said = make_model(encoder_layers=0, source_vocab=0), "reads token ids; give text or ids in"
    refuses(said, trace, gpt, np.ones((3, 4), np.float32))


def test_decoding_that_fills_all_positions_can_be_traced():
    model = make_model(max_positions=5, eos_id=-1)
    assert model.eos_id is None
    run = trace(model, [4, 5, 6])
    assert run.target.ids == (model.bos_id, *run.produced.ids[:-1])
    assert len(run.produced.ids) == 5


@pytest.mark.shipped
def test_things_of_a_wrong_kind_are_refused():
    small, layer = tv.load("en-de-small", device="cpu"), nn.Linear(2, 2)
    given = {"input_ids": [[5, 6]], "attention_mask": [[1, 1]]}
    refuses(r"takes what tv.load gave; got a Linear", tv.trace, layer, "a")
    refuses(r"reads a trace, .*; got a Model", tv.align, small)
    refuses(r"a table of tv.metrics; got a Model", tv.roles, small)
    refuses("got one list of ids", tv.rank, small, [5, 6, 7])
    refuses("list of sentences, of lists of ids", tv.metrics, small, [5, 6, 7])
    refuses(r'input_ids, attention_mask.*inputs\["input_ids"\]', tv.trace, small, given)
    refuses("one token for each row of the weights", tv.from_attentions, [], given)
    # an intervention may be its JSON or a dict
    words = {"edits": [{"kind": "temperature", "value": 2.0}]}
    edits = tv.Intervention.from_json(json.dumps(words))
    for way in (edits, words, json.dumps(words)):
        run = tv.trace(small, "A cat.", intervention=way, check=False)
        assert run.intervention.to_json() == edits.to_json(), way
    said = "its JSON, or None for the clean run; got 7"
    refuses(said, tv.trace, small, "A cat.", intervention=7)
    # a swap says which piece of a word it measures
    texts, target = ("I see a dog.", "I see a cat."), {"target": "Ich"}
    found = tv.swap(small, *texts, words=("Hunde", "Katze"), **target)
    piece = small.tokenizer.tokens([found.card["word_ids"][0]]).labels[0]
    assert "Hunde".startswith(piece) and piece != "Hunde"
    assert found.bench.question.words[0] == f"{piece}… (Hunde)"
    said = r"'qqqq' begins with the piece .* no letter"
    refuses(said, tv.swap, small, *texts, words=("qqqq", "Katze"), **target)
