"""Words that no file says are those that make sample text most probable, or the usual ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import make_model
from transformer_viz.checkpoints.common import bundled
from transformer_viz.checkpoints.common.calibration import (
    SAMPLES,
    calibrated,
    calibrated_heads,
    sample_losses,
)
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.preprocessing.tokenizers import PlainIds, SentencePieceText


def as_labml(name: str, folder: Path) -> Path:
    """Save a bundled model as labml would have, with its vocabulary beside it."""
    rules = {
        r"(self|cross)_attention\.(query|key|value)": r"\1_attn.\2.linear",
        r"(self|cross)_attention\.output": r"\1_attn.output",
        r"(self|cross)_norm": r"norm_\1_attn",
        "cross_attn": "src_attn",
        "feed_forward_norm": "norm_ff",
        r"feed_forward\.inner": "feed_forward.layer1",
        r"feed_forward\.outer": "feed_forward.layer2",
        r"encoder\.embedding\.tokens": "src_embed.linear",
        r"decoder\.embedding\.tokens": "tgt_embed.linear",
        r"^output": "generator.projection",
    }
    module, held = tv.load(name, device="cpu").module, {}
    for name, tensor in module.state_dict().items():
        for old, new in rules.items():
            name = re.sub(old, new, name)
        held[name] = tensor
    held["generator.projection.bias"] = torch.zeros(module.config.target_vocab)
    for stack, embed in (("encoder", "src_embed"), ("decoder", "tgt_embed")):
        table = getattr(module, stack).embedding.positions.table
        held[f"{embed}.positional_encodings"] = table[:, None]
    torch.save(held, folder / "model.pt")
    shutil.copy(bundled.PRETRAINED / "en-de-small" / bundled.VOCABULARY, folder)
    return folder / "model.pt"


@pytest.mark.shipped
def test_the_heads_of_a_file_that_does_not_say_them_are_found(tmp_path):
    path = as_labml("en-de-small", tmp_path)
    model = tv.load(path, device="cpu", pad_id=0)
    assert (model.layout, model.config["heads"], model.config["d_k"]) == ("labml", 4, 24)
    assert {model.provenance[word] for word in ("heads", "d_k", "d_v")} == {"calibration"}
    losses = sample_losses(model)
    assert min(losses, key=losses.get) == "en-de"
    loss = {
        h: sample_losses(tv.load(path, device="cpu", pad_id=0, heads=h), "en-de")["en-de"]
        for h in (1, 2, 3, 4, 6, 8, 12, 16)
    }
    best, second = sorted(loss, key=loss.get)[:2]
    assert best == 4
    assert model.notes == (
        "heads=4 was chosen because sample text is most probable with it: loss "
        f"{loss[4]:.2f} nats, next best {second} with {loss[second]:.2f}.",
    )
    own = tv.load("en-de-small", device="cpu")
    said = [tv.translate(m, "The cat sat on the mat.")[0].text for m in (model, own)]
    assert said[0] == said[1]


@pytest.mark.shipped
@pytest.mark.soak  # the test above finds those of a smaller one
def test_the_heads_of_our_own_model_are_found(tmp_path):
    for name in (bundled.CONFIG, bundled.WEIGHTS, bundled.VOCABULARY):
        shutil.copy(bundled.PRETRAINED / "en-de" / name, tmp_path)
    config = json.loads((tmp_path / bundled.CONFIG).read_text())
    bare = {w: v for w, v in config.items() if w not in ("heads", "d_k", "d_v", "snapshots")}
    (tmp_path / bundled.CONFIG).write_text(json.dumps(bare))
    model = calibrated_heads(
        {"d_k": config["d_model"]}, lambda chosen: tv.load(tmp_path, device="cpu", **chosen)
    )
    assert (model.config["heads"], model.provenance["heads"]) == (8, "calibration")


@pytest.fixture(scope="module")
def reader(tiny_vocabulary: bytes) -> Model:
    """A translator that reads text, with fixed uneven weights."""
    module = make_model(source_vocab=331, target_vocab=331)
    return replace(module, tokenizer=SentencePieceText(tiny_vocabulary))


def by_hand(model: Model, target: list[int], source: list[int] | None) -> list[float]:
    """Return the loss of each token of one sentence, alone in its batch."""
    given = [ids for ids in (source, target[:-1]) if ids is not None]
    with torch.inference_mode():
        logits = model.calls.forward(*(torch.tensor([ids]) for ids in given))[0].double().numpy()
    whole = np.log(np.exp(logits).sum(1))
    return [float(whole[t] - logits[t, token]) for t, token in enumerate(target[1:])]


def test_the_loss_is_the_mean_over_all_tokens_of_the_sentences(reader, tiny_vocabulary):
    read = reader.tokenizer
    losses = sample_losses(reader)
    assert len(losses) == 12
    for one, other in (("en", "de"), ("es", "fr")):
        each = [
            loss
            for a, b in zip(SAMPLES[one], SAMPLES[other], strict=True)
            for loss in by_hand(reader, [*read.target_ids(b), 3][:43], read.source_ids(a)[:43])
        ]
        assert losses[f"{one}-{other}"] == pytest.approx(np.mean(each), abs=1e-5)
        only = sample_losses(reader, f"{one}-{other}")
        assert only == {f"{one}-{other}": losses[f"{one}-{other}"]}
    gpt = make_model(encoder_layers=0, source_vocab=0, target_vocab=331, max_positions=127)
    gpt = replace(gpt, tokenizer=SentencePieceText(tiny_vocabulary))
    each = [loss for text in SAMPLES["fr"] for loss in by_hand(gpt, read.prompt_ids(text), None)]
    assert sample_losses(gpt)["fr"] == pytest.approx(np.mean(each), abs=1e-5)
    assert list(sample_losses(gpt)) == list(SAMPLES)


class Digits(PlainIds):
    """A character vocabulary that leaves nothing of ordinary sentences but one token of some."""

    def prompt_ids(self, text: str) -> list[int]:
        return [4] if "A" in text else [4, 5, 6] if text.startswith("We") else []


def test_sentences_and_models_without_a_loss(reader):
    """Models that predict no next word have none, nor have sentences that the vocabulary lacks."""
    gpt = replace(make_model(encoder_layers=0, source_vocab=0), tokenizer=Digits(41))
    each = by_hand(gpt, [4, 5, 6], None)
    assert sample_losses(gpt) == {"en": pytest.approx(np.mean(each), abs=1e-5)}
    assert sample_losses(make_model(decoder_layers=0)) == {}
    assert sample_losses(replace(reader, gives="vectors")) == {}


def with_logits(model: Model, logits: Callable[[torch.Tensor], torch.Tensor]) -> Model:
    """Return a model whose logits are those of a function of its target."""
    calls = replace(model.calls, forward=lambda source, target, mask: logits(target))
    return replace(model, calls=calls)


def test_the_usual_choice_stands_where_sample_text_decides_nothing(
    reader, tiny_model, make_vocabulary
):
    """A model that knows no language, one without text, losses that are no numbers."""
    lost = with_logits(reader, lambda target: torch.full((6, target.shape[1], 331), torch.nan))
    assert sample_losses(lost) == {}
    cases = {"no language": (reader, {1, 2, 3}), "ids only": (tiny_model, {2}),
             "losses that are no numbers": (lost, None)}  # fmt: skip
    for small, options in ((331, {"bos_id": -1}), (37, {})):
        text = SentencePieceText(make_vocabulary(**options))
        model = replace(make_model(source_vocab=small, target_vocab=small), tokenizer=text)
        cases[f"a vocabulary that cannot be read with {options}"] = (model, None)
    for case, (model, tried) in cases.items():
        asked = []

        def make(chosen: dict[str, int], model=model, asked=asked) -> Model:
            asked.append(chosen["heads"])
            return model

        found = calibrated(("heads", "d_k"), (1, 2, 3), 2, make, "Say heads= if you know.")
        assert tried in (None, set(asked)), case
        origins = (found.provenance["heads"], found.provenance["d_k"])
        assert origins == ("convention", "convention"), case
        assert found.notes[-1] == (
            "heads=2 is a guess, the usual choice: nothing in the file says it. Say heads= if you "
            "know."
        ), case


def test_candidates_that_sample_text_cannot_tell_apart_are_a_guess(reader):
    def make(chosen: dict[str, int]) -> Model:
        """Make sample text equally probable with 2 and 3, and less with 1."""
        shift = 6.0 if chosen["heads"] == 1 else 30.0

        def logits(target: torch.Tensor) -> torch.Tensor:
            after = torch.cat([target[:, 1:], target[:, :1]], 1)  # all but the last token
            return shift * torch.nn.functional.one_hot(after, 331).float()

        return with_logits(reader, logits)

    for usual, best in ((2, 2), (1, 2)):
        model = calibrated(("heads", "d_k"), (1, 2, 3), usual, make)
        assert model.provenance["heads"] == model.provenance["d_k"] == "convention"
        (note,) = model.notes
        assert note.startswith(f"heads={best} is a guess that nothing supports"), note
        assert "as probable with 3 (loss" in note and "most probable" not in note
