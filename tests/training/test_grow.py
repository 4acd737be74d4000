"""Growing: a larger model says what the small one said; a new piece is the mean of its parts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from tests.support.refusals import refuses
from training import command
from training.grow import grown, rows_of, spelled
from training.loop import Run
from training.recipe import Recipe
from transformer_viz.checkpoints import load
from transformer_viz.model import Transformer


@pytest.fixture
def small(recipe: Path, pairs: Path, tmp_path: Path) -> Run:
    """A run that has not begun: random weights, pieces of its own."""
    return Run(Recipe.read(recipe), pairs, tmp_path / "small", "cpu")


def larger(run: Run, **sizes: int) -> Transformer:
    torch.manual_seed(1)
    return Transformer(dataclasses.replace(run.model.config, **sizes))


def test_more_layers_and_a_wider_feed_forward_change_no_logit(small):
    for parameter in small.model.parameters():  # no bias is zero by chance
        torch.nn.init.normal_(parameter, std=0.5)
    model = larger(small, encoder_layers=2, decoder_layers=3, d_ff=31)
    pieces = small.task.pieces
    model.load_state_dict(grown(small.model.state_dict(), model, pieces, pieces))
    source, target = torch.tensor([[5, 9, 200, 3]]), torch.tensor([[2, 40, 41]])
    with torch.inference_mode():
        before, after = small.model.eval()(source, target), model.eval()(source, target)
    assert before.std() > 0.1
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5)


def test_what_is_new_can_learn_and_another_width_is_refused_by_name(small):
    model = larger(small, encoder_layers=2, d_ff=31)
    pieces = small.task.pieces
    model.load_state_dict(grown(small.model.state_dict(), model, pieces, pieces))
    model(torch.tensor([[5, 9, 3]]), torch.tensor([[2, 40]])).square().sum().backward()
    layer = model.encoder.layers[1]
    assert layer.self_attention.output.weight.grad.abs().max() > 0
    assert model.encoder.layers[0].feed_forward.outer.weight.grad[:, 12:].abs().max() > 0
    model = larger(small, d_model=16, d_k=8, d_v=8)
    state = small.model.state_dict()
    refuses("every other size has to stay", grown, state, model, pieces, pieces)


def test_a_new_piece_is_the_mean_of_the_old_pieces_of_its_text(recipe, pairs, tmp_path, small):
    words = recipe.read_text().replace("vocabulary = 288", "vocabulary = 291")
    recipe.write_text(words)
    new = Run(Recipe.read(recipe), pairs, tmp_path / "more", "cpu")
    old, pieces = small.task.pieces, new.task.pieces
    known = torch.randn(old.get_piece_size(), 8)
    rows = rows_of(known, old, pieces)
    fresh = 0
    for number in range(pieces.get_piece_size()):
        piece = pieces.id_to_piece(number)
        parts = [i for i in range(old.get_piece_size()) if old.id_to_piece(i) == piece]
        if not parts:
            parts = spelled(piece, old)
            text = "".join(old.id_to_piece(part) for part in parts)
            assert text.lstrip("▁") == piece.lstrip("▁")
            fresh += 1
        torch.testing.assert_close(rows[number], known[parts].sum(0) / len(parts))
    assert fresh >= 1


@pytest.mark.slow
def test_a_run_grows_from_a_packaged_model_with_other_pieces(recipe, pairs, toy, tmp_path):
    words = recipe.read_text().replace("vocabulary = 288", "vocabulary = 291")
    recipe.write_text(words.replace("encoder_layers = 1", "encoder_layers = 2"))
    run, again = tmp_path / "next", tmp_path / "again"
    command.run(recipe, pairs, run, again, device="cpu", threads=1, continue_from=toy.out)
    made, before = load(again, device="cpu"), load(toy.out, device="cpu")
    assert made.config["encoder_layers"] == 2
    assert made.config["target_vocab"] == 291
    card = (again / "README.md").read_text(encoding="utf-8")
    assert f"(SHA-256 `{before.hash}`)" in card
    assert f"That model had {before.parameters:,} parameters." in card
