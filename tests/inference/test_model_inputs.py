"""Inputs by kind of model, things of a wrong kind, and what a notebook prints of a result."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

import transformer_viz as tv
from tests.conftest import TINY, make_model, ramp
from tests.support.refusals import refuses
from transformer_viz import Intervention, Trace, trace
from transformer_viz.checkpoints.common.model import Calls, Model
from transformer_viz.core.interventions import Pad, Temperature
from transformer_viz.core.sites import MAPS
from transformer_viz.inference.ablation.places import _heads_of
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


def test_pairs_and_classes(judge, masked):
    run = trace(judge, ("2 3", "7 8 9"))
    assert run.source.ids == (2, 3, 5, 7, 8, 9, 5)
    ids = torch.tensor([run.source.ids])
    both = judge.module(ids, torch.tensor([[0, 0, 0, 1, 1, 1, 1]]))[0]
    assert np.abs(run.logits - both.detach().numpy()).max() < 1e-6
    assert np.abs(run.logits - judge.module(ids)[0].detach().numpy()).max() > 1e-3
    refuses(r"reads two texts; got 3", trace, judge, ("2", "3", "4"))
    refuses(r"reads one text; got 2", trace, masked, ("2", "3"))
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


@pytest.mark.slow
def test_a_masked_model_fills_its_masks(masked, judge):
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
    run = trace(masked, "2 9 10 11 12 3", masked=[2, 4])
    assert run.source.ids == (2, 9, MASK, 11, MASK, 3)
    assert run.source.special == (True, False, False, False, False, True)  # 2 starts, 3 ends
    marked = replace(masked, tokenizer=PlainIds(37, pad_id=MASK, bos_id=2, eos_id=3))
    assert trace(marked, "2 9 10 11 12 3", masked=[2, 4]).source.special == run.source.special
    said = "masked names token 6, and this source has 0 to 5"
    refuses(said, trace, masked, "2 9 10 11 12 3", masked=[6])
    refuses("has no mask token", trace, judge, "2 3", masked=[0])


def test_vectors_and_inputs_of_another_kind(core, masked, tmp_path):
    zeros, pad = np.zeros((3, 22), np.float32), Intervention((Pad(count=1),))
    refuses("it reads vectors", trace, core, "2 3")
    refuses(r"vectors of 7 numbers and this model reads 22", trace, core, zeros[:, :7])
    refuses("padding token, and vectors have none", trace, core, zeros, intervention=pad)
    refuses("no decoder; leave the target out", trace, masked, [2, 3], target=[2])
    gpt, said = make_model(encoder_layers=0, source_vocab=0), "reads token ids; give text or ids in"
    refuses(said, trace, gpt, np.ones((3, 4), np.float32))
    model = make_model(max_positions=5, eos_id=-1)
    assert model.eos_id is None
    run = trace(model, [4, 5, 6])
    assert run.target.ids == (model.bos_id, *run.produced.ids[:-1])
    assert len(run.produced.ids) == 5
    assert (core.takes, core.gives) == ("vectors", "vectors")
    x = np.linspace(-1, 1, 66, dtype=np.float32).reshape(3, 22)
    run = trace(core, x)
    wanted = core.module(torch.from_numpy(x)[None])[0].detach().numpy()
    assert run.logits is None and np.abs(run.output - wanted).max() < 1e-6
    run.save(tmp_path / "run.safetensors")
    assert (Trace.load(tmp_path / "run.safetensors").output == run.output).all()
    assert trace(masked, "2 9").output is None


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


SOURCE, OTHER, HELD = [5, 17, 6, 29, 3], [30, 9, 12, 22, 3], [2, 7, 31, 9]


@pytest.mark.slow
def test_results_in_a_notebook(tiny_model):
    run = tv.trace(tiny_model, SOURCE, HELD)
    explained = tv.explain(tiny_model, SOURCE, 1, HELD)
    ranked = tv.rank(tiny_model, [(SOURCE, HELD)])
    swapped = tv.swap(tiny_model, SOURCE, OTHER, words=(7, 8), target=HELD)
    compared = tv.compare(run, tv.trace(tiny_model, OTHER, HELD))
    shown = [repr(x) for x in (tiny_model, run, explained, ranked, swapped, compared)]
    assert all(len(line) < 200 and "\n" not in line for line in shown), shown
    parameters = sum(p.numel() for p in tiny_model.module.parameters())
    assert f"{parameters:,} parameters" in shown[0]
    heads = sum(one.weights.shape[0] for one in run.attentions)
    assert f"{len(SOURCE)} source tokens, {len(HELD)} target tokens, {heads} heads" in shown[1]
    assert f"{explained.word!r} by contribution: {len(SOURCE) + 2} values" in shown[2]
    assert f"of {heads} heads on 1 sentence," in shown[3]
    most = swapped.table.loc[swapped.table["moved"].idxmax()]
    place = f"{most['part']} L{most['layer']} head {most['head']}"
    assert f"most {most['moved']:+.3f} at {place}" in shown[4]
    assert shown[5] == f"<Comparison of {heads} heads on 1 input>"
    # ids of one row are read as a tokenizer gives them
    batch = tv.trace(tiny_model, torch.tensor([SOURCE]), torch.tensor([HELD]))
    assert batch.source.ids == run.source.ids and batch.target == run.target
    with pytest.raises(ValueError, match=r"a batch of 2 rows of ids; give one row"):
        tv.trace(tiny_model, torch.tensor([SOURCE, OTHER]), HELD)
    run = tv.trace(tiny_model, SOURCE, HELD)
    for block, (stack, kind) in MAPS.items():
        own = run.heads[(run.heads["stack"] == stack) & (run.heads["block"] == kind)]
        wide = own.pivot(index="layer", columns="head", values="entropy").to_numpy()
        assert np.array_equal(run.head_column(block, "entropy"), wide)
        assert run.head_counts(block).tolist() == own.groupby("layer").size().tolist()
        assert np.isnan(run.head_column(block, "unheard-of")).all()
    with pytest.raises(LookupError):
        run.head_column("sideways", "entropy")
    alone = torch.tensor([[1.0, -0.5, 0.7, 9.99e-4]])
    factors = torch.tensor([2.0, 2.0, 3.0, 3.0])
    found = _heads_of(alone, alone * factors, 2)
    assert found is not None and found.tolist() == [0, 0, 1, 1]
    assert _heads_of(alone, alone * torch.tensor([2.0, 2.0, 3.0, 9.0]), 2) is None
    assert _heads_of(alone, alone * torch.tensor([2.0, 3.0, 2.0, 3.0]), 2) is None


HEADS, WIDTH, IDS = 2, 8, (3, 1, 4, 1, 5, 9, 2, 6)


class Reader(nn.Module):
    """One layer over word ids; ``turned`` does something to queries and keys on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, HEADS * WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(4))
        self.head = nn.Linear(HEADS * WIDTH, 10)

    def turned(self, x: Tensor) -> Tensor:
        return x

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT * WIDTH**-0.5).softmax(-1) @ v

    def weights(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        made = (f(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for f in (self.q, self.k))
        q, k = (self.turned(y) for y in made)
        return q, k, self.v(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        y = self.attend(*self.weights(x)).transpose(1, 2).flatten(2)
        return self.head(x + self.o(y))


class Lazy(Reader):
    """Makes its table of factors at the first call, anew where the text is longer."""

    table: Tensor | None = None

    def turned(self, x: Tensor) -> Tensor:
        if self.table is None or len(self.table) < x.shape[2]:
            self.table = torch.linspace(0.5, 1.5, x.shape[2])
        return x * self.table[: x.shape[2], None]


class Sparse(Reader):
    """Holds a sparse buffer and reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pairs", torch.eye(16).to_sparse(), persistent=False)

    def turned(self, x: Tensor) -> Tensor:
        return self.pairs.to_dense()[: x.shape[2], : x.shape[2]] @ x


class Masked(Reader):
    """Makes PyTorch's own mask object at each call."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = causal_lower_right(q.shape[2], k.shape[2])
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("kind", (Lazy, Sparse, Masked))
def test_a_traced_module_is_proved_and_can_still_be_trained(kind):
    torch.manual_seed(0)
    module = kind().eval()
    run = tv.trace(tv.load(module), list(IDS[:4]))
    run = tv.trace(tv.load(module), list(IDS))
    assert run.report.status == "green", (run.report.untold, run.report.missed)
    with torch.no_grad():
        q, k, _ = module.weights(module.words(torch.tensor([IDS])))
        z = q @ k.mT * WIDTH**-0.5
        later = torch.ones(z.shape[-2:], dtype=torch.bool).triu(1)
        wanted = (z.masked_fill(later, -torch.inf) if kind is Masked else z).softmax(-1)[0]
    assert torch.allclose(torch.tensor(run.attentions[0].weights), wanted, atol=1e-6)
    module.train()(torch.tensor([IDS])).square().mean().backward()
    assert module.q.weight.grad is not None
