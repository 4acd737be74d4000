"""What a source is, by kind of model: pairs, masked words, vectors; and what comes out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.conftest import TINY, make_model, ramp
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

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.segments = nn.Embedding(37, 14), nn.Embedding(2, 14)
        self.query, self.key, self.value = (nn.Linear(14, 14) for _ in range(3))
        self.output, self.classes = nn.Linear(14, 14), nn.Linear(14, 3)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        x = self.tokens(ids) + self.segments(
            torch.zeros_like(ids) if segments is None else segments
        )
        q, k, v = (
            f(x).unflatten(-1, (2, 7)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(-2, -1) / 7**0.5, -1)
        return self.classes(x + self.output((weights @ v).transpose(1, 2).flatten(2)))[:, 0]


def judge() -> Model:
    """A classifier of pairs with three classes."""
    module = ramp(Judge()).eval()

    def forward(source: Tensor, target: Any = None, mask: Any = None, **words: Any) -> Tensor:
        result: Tensor = module(source, **words)
        return result

    return Model(
        name="judge",
        module=module,
        kind="encoder-only",
        config={"heads": 2, "source_vocab": 37},
        tokenizer=Pairs(37),
        device="cpu",
        calls=Calls(forward),
        layout="test",
        gives="classes",
        labels=("yes", "no", "maybe"),
        pairs=True,
    )


def masked_model() -> Model:
    """An encoder with an output layer, whose id 4 stands for a hidden word."""
    config = replace(TINY, decoder_layers=0, target_vocab=37)
    return replace(make_model(config), mask_id=MASK)


def test_a_pair_is_one_source_and_says_whose_each_token_is() -> None:
    model = judge()
    run = trace(model, ("2 3", "7 8 9"))
    assert run.source.ids == (2, 3, 5, 7, 8, 9, 5)
    ids = torch.tensor([run.source.ids])
    both = model.module(ids, torch.tensor([[0, 0, 0, 1, 1, 1, 1]]))[0]
    one = model.module(ids)[0]
    assert run.logits is not None
    assert np.abs(run.logits - both.detach().numpy()).max() < 1e-6
    assert np.abs(run.logits - one.detach().numpy()).max() > 1e-3
    with pytest.raises(ValueError, match=r"reads two texts; got 3"):
        trace(model, ("2", "3", "4"))
    with pytest.raises(ValueError, match=r"reads one text; got 2"):
        trace(masked_model(), ("2", "3"))


def test_a_classifier_is_asked_about_one_class() -> None:
    run = trace(judge(), "2 3 7")
    assert run.logits is not None and run.produced is not None
    best = int(run.logits.argmax())
    assert (run.produced.ids, run.produced.rank.tolist()) == ((best,), [1])
    assert run.produced.labels == (("yes", "no", "maybe")[best],)
    other = trace(judge(), "2 3 7", produced=[(best + 1) % 3])
    assert other.produced is not None and other.produced.rank[0] > 1
    wanted = torch.softmax(torch.tensor(run.logits).double(), -1)[(best + 1) % 3]
    assert abs(float(other.produced.probability[0]) - float(wanted)) < 1e-6
    assert run.manifest["labels"] == ["yes", "no", "maybe"]
    with pytest.raises(ValueError, match=r"from 0 to 2; got \[3\]"):
        trace(judge(), "2 3 7", produced=[3])


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_gradients_are_those_of_the_chosen_class(chosen: int) -> None:
    """By finite differences of the weights, multiplied out by hand."""
    model = judge()
    run = trace(model, "2 3 7", produced=[chosen], keep=("weights", "gradients"))
    attention = run.attentions[0]
    assert attention.gradients is not None
    module = model.module
    x = (module.tokens(torch.tensor([2, 3, 7])) + module.segments.weight[0]).double()
    v = F.linear(x, module.value.weight.double(), module.value.bias.double()).view(3, 2, 7)
    direction = module.output.weight.double().T @ module.classes.weight.double()[chosen]
    # only the first query reaches the classifier: d logit / d w[h, 0, k] = v[k, h] . direction[h]
    wanted = torch.einsum("khd,hd->hk", v, direction.view(2, 7)).detach().numpy()
    assert np.abs(attention.gradients[:, 0] - wanted).max() < 1e-5
    assert np.abs(attention.gradients[:, 1:]).max() == 0


def test_a_masked_model_fills_its_masks_and_keeps_the_other_words() -> None:
    model = masked_model()
    ids = [2, 9, MASK, 11, MASK, 3]
    run = trace(model, ids)
    logits = model.module(torch.tensor([ids]))[0].detach()
    assert run.produced is not None and run.logits is not None
    best = logits.argmax(-1)
    assert run.produced.ids == (2, 9, int(best[2]), 11, int(best[4]), 3)
    chances = torch.softmax(logits.double(), -1)
    wanted = [float(chances[row, token]) for row, token in enumerate(run.produced.ids)]
    assert np.abs(run.produced.probability - np.array(wanted)).max() < 1e-6
    held = trace(
        model,
        ids,
        produced=run.produced.ids,
        intervention=Intervention((Temperature(value=3.0),)),
    )
    assert held.produced is not None and held.produced.ids == run.produced.ids


def test_gradients_of_a_masked_model_are_those_of_its_masked_places() -> None:
    """Their sum is the gradient of each place alone, added up."""
    model = masked_model()
    ids = [2, 9, MASK, 11, MASK, 3]
    both = trace(model, ids, keep=("gradients",))
    assert both.produced is not None
    gradients = both.attentions[0].gradients
    assert gradients is not None and np.abs(gradients).max() > 0
    whole = trace(replace(model, mask_id=36), ids, produced=both.produced.ids, keep=("gradients",))
    other = whole.attentions[0].gradients
    assert other is not None and np.abs(gradients - other).max() > 1e-6  # all places, not two


def test_an_input_of_another_kind_is_refused_in_a_sentence() -> None:
    core = make_model(replace(TINY, source_vocab=0, target_vocab=0, decoder_layers=0))
    assert (core.takes, core.gives) == ("vectors", "vectors")
    with pytest.raises(ValueError, match="it reads vectors"):
        trace(core, "2 3")
    with pytest.raises(ValueError, match=r"vectors of 7 numbers and this model reads 22"):
        trace(core, np.zeros((3, 7), np.float32))
    with pytest.raises(ValueError, match="padding token, and vectors have none"):
        trace(core, np.zeros((3, 22), np.float32), intervention=Intervention((Pad(count=1),)))
    with pytest.raises(ValueError, match="no decoder; leave the target out"):
        trace(masked_model(), [2, 3], target=[2])


def test_masking_by_number_keeps_the_rest() -> None:
    model = masked_model()
    run = trace(model, "2 9 10 11 12 3", masked=[2, 4])
    assert run.source.ids == (2, 9, MASK, 11, MASK, 3)
    assert run.source.special == (True, False, False, False, False, True)  # 2 starts, 3 ends
    marked = replace(model, tokenizer=PlainIds(37, pad_id=MASK, bos_id=2, eos_id=3))
    assert trace(marked, "2 9 10 11 12 3", masked=[2, 4]).source.special == run.source.special
    with pytest.raises(ValueError, match="masked names token 6, and this source has 0 to 5"):
        trace(model, "2 9 10 11 12 3", masked=[6])
    with pytest.raises(ValueError, match="has no mask token"):
        trace(judge(), "2 3", masked=[0])


def test_a_core_gives_its_last_vectors_and_they_are_stored(tmp_path: Path) -> None:
    core = make_model(replace(TINY, source_vocab=0, target_vocab=0, decoder_layers=0))
    x = np.linspace(-1, 1, 66, dtype=np.float32).reshape(3, 22)
    run = trace(core, x)
    wanted = core.module(torch.from_numpy(x)[None])[0].detach().numpy()
    assert run.logits is None and run.output is not None
    assert np.abs(run.output - wanted).max() < 1e-6
    run.save(tmp_path / "run.safetensors")
    again = Trace.load(tmp_path / "run.safetensors").output
    assert again is not None and (again == run.output).all()
    assert trace(masked_model(), "2 9").output is None


def test_vectors_are_not_taken_for_the_ids_of_a_model_with_one_stack() -> None:
    model = make_model(encoder_layers=0, source_vocab=0)
    with pytest.raises(ValueError, match="reads token ids; give text or ids instead of vectors"):
        trace(model, np.ones((3, 4), np.float32))


def test_decoding_that_fills_all_positions_can_be_traced() -> None:
    model = make_model(max_positions=5, eos_id=-1)
    assert model.eos_id is None
    run = trace(model, [4, 5, 6])
    assert run.target is not None and run.produced is not None
    assert run.target.ids == (model.bos_id, *run.produced.ids[:-1])
    assert len(run.produced.ids) == 5
