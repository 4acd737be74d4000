"""Language and masked models through the same loop: killed, packaged, opened, measured."""

from __future__ import annotations

import json
import math
from pathlib import Path

import click.testing
import pytest
import torch

from tests.support.refusals import refuses
from training import evaluate
from training.card import fills, hide
from training.corpus import MASK, read_training
from training.evaluate import NOTHING, guesses, hidden_rows, next_rows
from training.loop import Run
from training.recipe import Data, Recipe
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.trace import Trace

from .conftest import KINDS, trained, write_recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory, sentences) -> dict[str, Model]:
    """A model of each kind, trained for a moment and packaged."""
    found = {}
    for kind in KINDS:
        place = tmp_path_factory.mktemp(kind)
        out = trained(write_recipe(kind, place), sentences, place).out
        found[kind] = load(out, device="cpu")
    return found


class Stopped(Exception):
    pass


def test_a_stopped_run_ends_with_the_same_weights(sentences, made, tmp_path):
    def stop(progress):
        if progress.step == 6:
            raise Stopped

    for kind in KINDS:
        words, folder = Recipe.read(write_recipe(kind, tmp_path)), tmp_path / f"stopped {kind}"
        with pytest.raises(Stopped):
            Run(words, sentences, folder, "cpu").train(stop)
        resumed = Run(words, sentences, folder, "cpu")
        assert resumed.step == 4
        resumed.train(lambda progress: None)
        straight = torch.load(made[kind].folder.parent / "run" / "resume.pt", weights_only=True)
        for name, tensor in straight["model"].items():
            assert torch.equal(tensor, resumed.model.state_dict()[name]), (kind, name)
        assert resumed.tokens == straight["tokens"]


@pytest.mark.slow
def test_both_learn(sentences, tmp_path):
    for kind in KINDS:
        recipe = write_recipe(kind, tmp_path)
        longer = recipe.read_text().replace("steps = 12", "steps = 150").replace("= 9\n", "= 100\n")
        recipe.write_text(longer)
        work = Run(Recipe.read(recipe), sentences, tmp_path / f"run {kind}", "cpu")
        before = work.valid_loss()
        assert before == work.valid_loss(), kind  # the same pieces are hidden each time
        work.train(lambda progress: None)
        assert work.valid_loss() < 0.5 * before, kind


def test_the_masked_loss_is_the_cross_entropy_of_the_asked_tokens_alone(sentences, tmp_path):
    work = Run(Recipe.read(write_recipe("masked", tmp_path)), sentences, tmp_path / "run", "cpu")
    work.model.eval()
    (shown,), wanted = batch = next(work.task.batches(0))
    loss, count = work.loss(batch, 0.0)
    logits = work.model(shown).detach().double().log_softmax(-1)
    asked = [(row, column) for row, column in (wanted != 0).nonzero().tolist()]
    by_hand = [-float(logits[r, c, wanted[r, c]]) for r, c in asked]
    assert count == len(asked)
    assert float(loss.detach()) == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)


def test_the_package_opens_with_an_example_and_an_honest_card(made):
    for kind, model in made.items():
        card = (model.folder / "README.md").read_text(encoding="utf-8")
        example = Trace.load(model.folder / "example.safetensors")
        words = json.loads((model.folder / "config.json").read_text())
        assert example.report.status == "green" and example.manifest["hash"] == model.hash, kind
        said = ["A row holds 1 to 3 sentences, by chance."]
        said += ["training.evaluate tiny --data DIR --file valid.tsv"]
        if kind == "language":
            assert words["kind"] == "decoder-only"
            assert model.mask_id is None and "mask_id" not in words
            assert example.source.ids == tuple(model.tokenizer.prompt_ids("the red"))
            assert example.target is None
            said += ["| the red |", "12 of 12 updates of about 60 tokens"]
        else:
            assert words["mask_id"] == model.mask_id == model.tokenizer.pieces.index(MASK)
            asked = model.tokenizer.source_ids("the red cat run")
            assert example.source.ids.count(model.mask_id) == 1
            assert len(example.source.ids) == len(asked)
            assert example.produced.ids == tuple(asked)
            said += [f"| the red [cat] run | {fills(model, 'the red [cat] run')} |"]
            said += ["80% of these hidden behind the mask"]
        assert not [text for text in said if text not in card], kind


def test_perplexity_and_first_guesses_are_those_of_one_sentence_at_a_time(made):
    """Witness: each question asked alone, without batches or padding, in float64."""
    sentences = ["the red cat run", "the blue bird sleeps", "eats"]
    for kind, model in made.items():
        losses, right = [], 0
        for sentence in sentences:
            whole = model.tokenizer.source_ids(sentence)
            for place, wanted in enumerate(whole):
                if kind == "language":
                    shown, row = [model.bos_id, *whole[:place]], place
                elif place < len(whole) - 1:
                    shown, row = [*whole[:place], model.mask_id, *whole[place + 1 :]], place
                else:
                    continue
                logits = model.module(torch.tensor([shown]))[0, row].detach().double()
                losses.append(-float(logits.log_softmax(0)[wanted]))
                right += int(logits.argmax()) == wanted
        score = guesses(model, sentences)
        assert score.tokens == len(losses) and score.sentences == 3, kind
        assert score.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
        assert score.first == right / len(losses), kind


def test_rows_to_measure_with_ask_each_piece_once(made):
    reader, filler = made["language"], made["masked"]
    pieces = reader.tokenizer.source_ids("the cat eats")
    assert next_rows(reader, ["the cat eats"]) == [([reader.bos_id, *pieces[:-1]], pieces)]
    rows = hidden_rows(filler, ["the cat eats"])
    assert len(rows) == len(filler.tokenizer.source_ids("the cat eats")) - 1
    for place, (shown, asked) in enumerate(rows):
        assert shown[place] == filler.mask_id and shown.count(filler.mask_id) == 1
        assert [i for i, token in enumerate(asked) if token != NOTHING] == [place]


def test_the_command_measures_by_what_the_model_is(sentences, made):
    def run(*words: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(evaluate.main, list(words))

    for model in made.values():
        said = run(str(model.folder), "--data", str(sentences), "--file", "valid.tsv")
        assert said.exit_code == 0, said.output
        assert "of 3 sentences" in said.output and "perplexity" in said.output  # each only once
        without = run(str(model.folder))
        assert without.exit_code == 2 and "--data DIR" in without.output


def test_a_word_in_brackets_is_hidden_by_its_piece_and_never_by_text(made):
    model = made["masked"]
    shown, asked = hide(model, "the red [cat] run")
    assert asked == model.tokenizer.source_ids("the red cat run")
    place = shown.index(model.mask_id)
    assert model.tokenizer.decode([asked[place]]) == "cat"
    assert shown[:place] + shown[place + 1 :] == asked[:place] + asked[place + 1 :]
    for line in ("the red cat run", "the red [xylophone] run"):
        refuses(r"one word in \[brackets\]", hide, model, line)


def test_sentences_are_read_once_and_none_that_is_held_out(sentences, tmp_path):
    words = Recipe.read(write_recipe("language", tmp_path)).data
    pairs = read_training(sentences, words)
    read = [sentence for _, sentence in pairs]
    held_out = {line.split("\t")[0] for line in (sentences / "valid.tsv").read_text().splitlines()}
    assert len(held_out) == 3 and len(read) == len(set(read)) == 54 - 3
    assert not held_out & set(read)
    assert all(source == "" for source, _ in pairs)


def test_impossible_words_and_missing_folders_are_refused(tmp_path):
    files = {"train": "x", "valid": "x"}
    refuses("task='painting' is not known", Data, task="painting", **files)
    refuses("join=2 does not fit task='translation'", Data, **files, join=2)
    refuses("join=0 does not fit", Data, task="masked", **files, join=0)
    refuses("lacks train or valid", Data, task="language", valid="x")
    recipe = write_recipe("language", tmp_path)
    words = Recipe.read(recipe), None, tmp_path / "run", "cpu"
    refuses("tiny learns from sentences; name the folder", Run, *words)
    recipe.write_text(recipe.read_text().replace('"language"', '"painting"'))
    said = r"language\.toml is not a recipe: task='painting'"
    refuses(said, Recipe.read, recipe)


def test_a_recipe_like_another_has_its_words_and_its_own(tmp_path):
    first = Path("recipes/labs/scaled-dot.toml")
    for path in sorted(first.parent.glob("*.toml")):
        words, base = Recipe.read(path), Recipe.read(first)
        other = {word for word, value in words.model.items() if base.model.get(word) != value}
        assert words.name == path.stem
        assert (words.data, words.schedule, words.seed) == (base.data, base.schedule, base.seed)
        assert other <= {"score", "positions", "norm", "final_norm"}
        assert bool(other) == (path != first)
    (tmp_path / "a.toml").write_text('like = "b.toml"\n')
    with pytest.raises(FileNotFoundError):
        Recipe.read(tmp_path / "a.toml")
