"""A run on mixed text: resumable, with an average of its weights and an end on demand."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece
import torch

from training.card import averaging, fading
from training.loop import Progress, Run
from training.recipe import Recipe, Schedule
from training.sentences import Sentences
from training.whole_words import SPACE, frequent

from .conftest import recipe_text

RECIPE = recipe_text(
    name="tiny", seed=5, log_every=2, save_every=2, keep=3,
    data={"train": ["one.tsv", "two.tsv"], "valid": "one.tsv", "vocabulary": 560,
          "whole_words": 30, "max_tokens": 200},
    mix={"updates": 5, "held_back": ["two"], "agreement": 0.2, "agreement_late": 0.0,
         "other_cuts": 0.3},
    model={"d_model": 8, "heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1,
           "max_positions": 256, "tied": "all"},
    schedule={"steps": 100, "decay_from": 100, "warmup": 2, "peak": 0.01, "fade_from": 4,
              "average": 0.9, "batch_tokens": 400},
)  # fmt: skip
PAIRS = [
    f"The {animal} doesn't {verb} because it is {word}."
    f"\tDas {tier} {tut} nicht, weil es {wort} ist."
    for animal, tier in (("cow", "Rind"), ("pony", "Pony"), ("lamb", "Lamm"), ("calf", "Kalb"))
    for verb, tut in (("eat", "frisst"), ("sleep", "schläft"), ("run", "läuft"))
    for word, wort in (("old", "alt"), ("tired", "müde"), ("young", "jung"), ("full", "satt"))
]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    for name in ("one", "two"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(PAIRS * 2), encoding="utf-8")
    path = tmp_path / "mixed.toml"
    path.write_text(RECIPE)
    return Recipe.read(path)


def run(recipe: Recipe, folder: Path, steps: int) -> Run:
    """A run that is killed after that update."""
    work = Run(recipe, folder.parent, folder, "cpu")

    def tell(progress: Progress) -> None:
        if progress.step == steps + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.train(tell)
    return work


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(recipe: Recipe, tmp_path: Path) -> None:
    run(recipe, tmp_path / "whole", 12)
    run(recipe, tmp_path / "twice", 6)
    run(recipe, tmp_path / "twice", 12)
    names = ("resume.pt", "resume-1.pt", "resume-2.pt")  # the newest are kept, in order
    for folder in ("whole", "twice"):
        kept = [torch.load(tmp_path / folder / name, weights_only=True) for name in names]
        assert [one["step"] for one in kept] == [12, 10, 8]
        assert not list((tmp_path / folder).glob("resume-3*"))
    whole, twice = (
        torch.load(tmp_path / name / "resume.pt", weights_only=True) for name in ("whole", "twice")
    )
    for kind in ("model", "average"):
        for name, weights in whole[kind].items():
            assert torch.equal(weights, twice[kind][name]), (kind, name)


def test_each_pass_has_a_text_of_its_own_and_the_last_ones_no_agreement(
    recipe: Recipe, tmp_path: Path
) -> None:
    work = Sentences(recipe.ending(10, 20), tmp_path, tmp_path)
    assert work.text(0) == work.text(0) != work.text(1)
    told = [sum("it was" in english for english, _ in work.text(number)) for number in range(4)]
    assert min(told[:2]) > 3 and told[2:] == [0, 0]


def test_the_learning_rate_fades_and_falls_to_zero_on_demand_as_the_card_says(
    recipe: Recipe,
) -> None:
    rate = recipe.ending(None, None).schedule.rate
    assert rate(1) == pytest.approx(0.005) and rate(4) == pytest.approx(0.01)
    assert rate(16) == pytest.approx(0.005)
    falls = recipe.ending(16, 32).schedule
    assert falls.rate(16) == pytest.approx(0.005) and falls.rate(32) == 0
    assert falls.rate(24) == pytest.approx(0.01 * (4 / 24) ** 0.5 / 2)
    with pytest.raises(ValueError, match="cannot fall from update 5 to update 4"):
        recipe.ending(5, 4)
    assert fading(recipe.schedule) == (
        "from update 4 lowered with the square root of the updates, "
    )
    assert "about the last 100 updates" in averaging(recipe.schedule)
    plain = Schedule(steps=9, decay_from=9)
    assert fading(plain) == averaging(plain) == ""


def test_the_average_lies_between_the_weights_that_it_has_seen(
    recipe: Recipe, tmp_path: Path
) -> None:
    work = Run(recipe.ending(20, 30), tmp_path, tmp_path / "run", "cpu")
    assert work.average == {}
    work.train(lambda progress: None)
    own = work.model.state_dict()["decoder.embedding.tokens.weight"]
    kept = work.average["decoder.embedding.tokens.weight"]
    assert 0 < float((own - kept).abs().max()) < float(own.abs().max())


def test_frequent_words_and_short_forms_are_single_pieces(recipe: Recipe, tmp_path: Path) -> None:
    work = Sentences(recipe, tmp_path, tmp_path)
    pieces: sentencepiece.SentencePieceProcessor = work.pieces
    assert pieces.get_piece_size() == 560
    words = frequent(work.text(0), 20)
    assert "n't" in words and f"{SPACE}because" in words
    for word in words:
        if word[0] == SPACE:
            assert pieces.encode(word[1:], out_type=str) == [word]
    assert pieces.id_to_piece(pieces.piece_to_id("n't")) == "n't"
    assert pieces.decode(pieces.encode("It doesn't eat.")) == "It doesn't eat."
