"""Training: the same run however often it is killed, a package that opens, an honest score."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from training import command
from training.corpus import encode_pairs, endless, epoch_batches, read_pairs
from training.evaluate import bleu, corpus_bleu, references
from training.loop import LOG, Run
from training.package import package, save_weights
from training.recipe import Recipe, Schedule
from transformer_viz.checkpoints import load
from transformer_viz.core.trace import Trace
from transformer_viz.inference.generation import translate
from transformer_viz.views.charts.training_curve import training_curve

RECIPE = """
name = "tiny"
title = "Toy to toy"
seed = 3
bfloat16 = true
log_every = 3
save_every = 6
snapshots = [1, 4, 12]

[data]
train = "train.tsv"
valid = "valid.tsv"
test = "valid.tsv"
vocabulary = 288

[model]
d_model = 8
heads = 2
d_ff = 12
encoder_layers = 1
decoder_layers = 1
max_positions = 64
tied = "all"
dropout = 0.2

[schedule]
steps = 12
decay_from = 9
warmup = 4
batch_tokens = 120

[card]
data = "Invented for a test."
attribution = "Contains nothing of anybody."
licence = "none needed"
weaknesses = ["It knows twelve words."]
examples = ["the red cat runs"]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A toy language pair of a few dozen sentences, in a folder."""
    words = {"the": "la", "red": "rosa", "blue": "blua", "old": "mala", "cat": "kato"}
    words |= {"dog": "hundo", "bird": "birdo", "runs": "kuras", "sleeps": "dormas", "eats": "manas"}
    english, toy = list(words), list(words.values())
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [
        "\t".join(" ".join(side[n] for n in (0, colour, animal, verb)) for side in (english, toy))
        for colour in (1, 2, 3)
        for animal in (4, 5, 6)
        for verb in (7, 8, 9)
    ]
    (folder / "train.tsv").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
    (folder / "valid.tsv").write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path / "tiny.toml"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "resume.pt", weights_only=True)["model"]


def comparable(folder: Path) -> pd.DataFrame:
    """The log without the columns that tell the time."""
    return pd.read_csv(folder / "log.csv").drop(columns=["seconds", "tokens_per_second"])


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from training.loop import Run
from training.recipe import Recipe
torch.set_num_threads(1)
def tell(progress):
    if progress.step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
recipe, data, folder = map(Path, sys.argv[1:])
Run(Recipe.read(recipe), data, folder, "cpu").train(tell)
"""


@pytest.mark.process
def test_a_killed_run_ends_with_the_same_weights_bit_for_bit(recipe, data, tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    command.run(recipe, data, straight, device="cpu", threads=1)
    words = [sys.executable, "-c", KILLED, str(recipe), str(data), str(killed)]
    paths = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    died = subprocess.run(words, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert torch.load(killed / "resume.pt", weights_only=True)["step"] == 6
    assert len(pd.read_csv(killed / "log.csv")) == 3  # one line more than was saved
    command.run(recipe, data, killed, device="cpu", threads=1)
    assert weights(straight).keys() == weights(killed).keys()
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(killed)[name]), name
    pd.testing.assert_frame_equal(comparable(straight), comparable(killed))
    for step in (1, 4, 12):
        assert (killed / f"step-{step}.pt").is_file()


def test_training_learns_and_leaves_a_log_and_a_picture_of_it(recipe, data, tmp_path, capsys):
    longer = recipe.read_text().replace("steps = 12", "steps = 60").replace("= 9", "= 40")
    recipe.write_text(longer.replace("warmup = 4", "warmup = 4\npeak = 0.02"))
    command.run(recipe, data, tmp_path / "run", device="cpu", threads=1)
    log = pd.read_csv(tmp_path / "run" / "log.csv")
    assert tuple(log.columns) == LOG
    assert list(log["step"]) == list(range(3, 61, 3))
    assert log["loss"].iloc[-1] < 0.6 * log["loss"].iloc[0]
    assert log["valid_loss"].notna().sum() == 10
    told = capsys.readouterr().err
    assert "tiny" in told and "loss=" in told and "tokens/s=" in told
    assert "plotly.min.js" in (tmp_path / "run" / "log.html").read_text(encoding="utf-8")
    curve = training_curve(log)
    assert [line.name for line in curve.data] == ["training", "unseen"]
    np.testing.assert_allclose(curve.data[0].x, log["tokens"] / 1e6)


def test_the_machine_is_put_back_after_training():
    before = torch.get_num_threads()
    with command.machine("cpu", 1) as place:
        assert (place, torch.get_num_threads()) == ("cpu", 1)
        assert float(torch.tensor(1e-40) * 1) == 0
    assert torch.get_num_threads() == before
    assert float(torch.tensor(1e-40) * 1) > 0


def test_the_package_opens_and_says_what_it_is(recipe, data, tmp_path):
    run, out = tmp_path / "run", tmp_path / "tiny"
    command.run(recipe, data, run, out, device="cpu", threads=1)
    assert sorted(path.name for path in out.iterdir()) == [
        *("README.md", "config.json", "example.safetensors", "log.csv"),
        *("step-1.safetensors", "step-4.safetensors", "vocabulary.model", "weights.safetensors"),
    ]
    example = Trace.load(out / "example.safetensors")
    assert example.manifest["hash"] == load(out, device="cpu").hash
    assert example.report.status == "green" and example.block("cross", 0).scores is not None
    assert len(example.hidden("encoder")[0]) == len(example.source)
    model = load(out, device="cpu")
    assert (model.name, model.title, model.file_dtype) == ("tiny", "Toy to toy", "float16")
    for name, tensor in weights(run).items():
        assert torch.equal(model.module.state_dict()[name], tensor.half().float()), name
    table = model.module.encoder.embedding.tokens.weight
    assert table is model.module.output.weight is model.module.decoder.embedding.tokens.weight
    first = load(out / "step-1.safetensors", device="cpu")
    assert first.name == "tiny/step-1"
    assert not torch.equal(first.module.output.weight, table)
    config = json.loads((out / "config.json").read_text())
    assert (config["steps"], config["snapshots"]) == (12, [1, 4])
    lines = list(
        dict.fromkeys(a for a, _ in read_pairs(data / Recipe.read(recipe).data.valid, 0, 1))
    )
    best = [translate(model, line, beam=4)[0].steps for line in lines]
    means = [math.exp(sum(steps) / len(steps)) for steps in best]
    assert config["sure_from"] == pytest.approx(np.quantile(means, 0.05), abs=6e-4)
    card = (out / "README.md").read_text(encoding="utf-8")
    for words in (
        *("# Toy to toy", "> Contains nothing of anybody.", "- It knows twelve words."),
        *("12 of 12 updates", "| the red cat runs |", f"`{model.hash}`", "`step-<update>"),
        *(
            f"It is {config['sure_from']:.0%} or more",
            "beam 4",
            "refs:1|case:mixed|eff:no|tok:13a",
            "transformer-viz train recipes/tiny.toml",
        ),
    ):
        assert words in card
    assert "did not begin at random" not in card


def test_a_package_without_test_data_says_so_and_one_without_a_run_is_refused(
    recipe, data, tmp_path
):
    words = Recipe.read(recipe)
    with pytest.raises(ValueError, match="no saved run"):
        package(words, tmp_path / "none", tmp_path / "out")
    command.run(recipe, data, tmp_path / "run", device="cpu", threads=1)
    package(words, tmp_path / "run", tmp_path / "out")
    assert "It was not measured" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    state = weights(tmp_path / "run")
    name = "decoder.norm.weight"
    plan = Run(words, data, tmp_path / "run", "cpu").model
    with pytest.raises(ValueError, match=f"{name} in x.safetensors has 1 values"):
        state[name][0] = 1e6  # more than float16 holds
        save_weights(plan, state, tmp_path / "x.safetensors")
    wider = dataclasses.replace(words, model=words.model | {"d_ff": 16})
    with pytest.raises(ValueError, match=r"but the config makes it \[16"):
        package(wider, tmp_path / "run", tmp_path / "out")


def test_a_training_that_diverges_stops_and_says_so(recipe, data, tmp_path):
    recipe.write_text(recipe.read_text().replace("warmup = 4", "warmup = 1\npeak = 1e30"))
    work = Run(Recipe.read(recipe), data, tmp_path / "run", "cpu")
    with pytest.raises(ValueError, match=r"became nan at update [23]: the training diverged"):
        work.train(lambda progress: None)


def test_a_lost_resume_file_is_continued_from_the_packaged_weights(recipe, data, tmp_path):
    run, out = tmp_path / "run", tmp_path / "tiny"
    command.run(recipe, data, run, out, device="cpu", threads=1)
    shipped = load(out, device="cpu").module.state_dict()
    start = command.begin_from(tmp_path / "next", out, Recipe.read(recipe))
    assert start is not None
    assert all(torch.equal(start.weights[name], shipped[name]) for name in shipped)
    work = Run(Recipe.read(recipe), data, tmp_path / "next", "cpu", start)
    assert torch.equal(work.model.output.weight, shipped["output.weight"])
    assert (tmp_path / "next" / "vocabulary.model").read_bytes() == (
        out / "vocabulary.model"
    ).read_bytes()
    again = tmp_path / "again"
    command.run(recipe, data, tmp_path / "next", again, device="cpu", threads=1)  # remembers
    assert not torch.equal(weights(tmp_path / "next")["output.weight"], shipped["output.weight"])
    card = (again / "README.md").read_text(encoding="utf-8")
    assert (
        f"continued the float16 weights of tiny (SHA-256 `{load(out, device='cpu').hash}`" in card
    )


def test_continuing_shortens_the_warm_up_only():
    schedule = Schedule(steps=1000, decay_from=900, warmup=600)
    recipe = Recipe(name="x", seed=0, data=None, model={}, schedule=schedule)  # type: ignore[arg-type]
    after = recipe.continued().schedule
    assert after.warmup == 100
    assert (after.steps, after.peak, after.decay_from) == (1000, schedule.peak, 900)


def test_another_seed_begins_from_other_weights_and_nothing_else(recipe, data, tmp_path):
    words = Recipe.read(recipe)
    assert words.seeded(None) is words
    assert dataclasses.replace(words.seeded(words.seed + 1), seed=words.seed) == words
    folders = [tmp_path / name for name in ("own", "same", "other")]
    for folder, seed in zip(folders, (None, words.seed, words.seed + 1), strict=True):
        command.run(recipe, data, folder, device="cpu", threads=1, seed=seed)
    own, same, other = (weights(folder) for folder in folders)
    assert all(torch.equal(own[name], same[name]) for name in own)
    assert not torch.equal(own["output.weight"], other["output.weight"])


def test_the_learning_rate_rises_holds_and_falls():
    schedule = Schedule(steps=100, decay_from=60, warmup=10, peak=2.0)
    rates = [schedule.rate(step) for step in (1, 5, 10, 60, 80, 100)]
    assert rates == pytest.approx([0.2, 1.0, 2.0, 2.0, 1.0, 0.0])


def test_every_pass_holds_each_pair_once_in_batches_of_at_most_so_many_tokens(data, recipe):
    words = Recipe.read(recipe)
    pairs = [([n, 3], list(range(n % 5 + 2))) for n in range(57)]
    for epoch in (0, 1):
        batches = epoch_batches(pairs, 20, words.seed, epoch)
        assert sorted(i for batch in batches for i in batch) == list(range(57))
        assert all(len(b) * max(len(pairs[i][1]) for i in b) <= 20 for b in batches)
        assert batches == epoch_batches(pairs, 20, words.seed, epoch)
    count = len(epoch_batches(pairs, 20, words.seed, 0))
    later, whole = endless(pairs, 20, words.seed, count + 2), endless(pairs, 20, words.seed, 0)
    for _ in range(count + 2):
        next(whole)
    assert [next(later) for _ in range(5)] == [next(whole) for _ in range(5)]


def test_bad_recipes_data_and_folders_are_named(recipe, data, tmp_path):
    words = Recipe.read(recipe)
    with pytest.raises(ValueError, match=r"no train\.tsv in .*--data"):
        Run(words, tmp_path / "elsewhere", tmp_path / "run", "cpu")
    (tmp_path / "one.tsv").write_text("a\tb\nonly\n")
    with pytest.raises(ValueError, match=r"one\.tsv line 2 has 1 columns"):
        read_pairs(tmp_path / "one.tsv", 0, 1)
    (tmp_path / "bad.toml").write_text("name = 'x'")
    with pytest.raises(ValueError, match=r"bad\.toml is not a recipe: 'data'"):
        Recipe.read(tmp_path / "bad.toml")
    Run(words, data, tmp_path / "run", "cpu").save()
    wider = recipe.read_text().replace("d_ff = 12", "d_ff = 16")
    (tmp_path / "wider.toml").write_text(wider)
    with pytest.raises(ValueError, match=r"does not fit .*resume\.pt: size mismatch for enc"):
        Run(Recipe.read(tmp_path / "wider.toml"), data, tmp_path / "run", "cpu")
    (tmp_path / "more.toml").write_text(recipe.read_text().replace("= 288", "= 289"))
    with pytest.raises(ValueError, match="has 288 pieces, the recipe 289"):
        Run(Recipe.read(tmp_path / "more.toml"), data, tmp_path / "run", "cpu")
    (tmp_path / "huge.toml").write_text(recipe.read_text().replace("= 288", "= 9000"))
    with pytest.raises(ValueError, match="vocabulary of 9000 pieces does not fit 54 pairs"):
        Run(Recipe.read(tmp_path / "huge.toml"), data, tmp_path / "huge", "cpu")


def test_overlong_pairs_are_left_out(recipe, data, tmp_path):
    words = Recipe.read(recipe)
    pieces = Run(words, data, tmp_path / "run", "cpu").task.pieces
    pairs = [("cat", "kato"), ("cat " * 200, "kato")]
    assert len(encode_pairs(pairs, pieces, words.data)) == 1


def test_references_are_grouped_by_source_and_filled_up_with_nothing():
    pairs = [("a", "x y"), ("b", "z"), ("a", "x w"), ("a", "x y")]
    assert references(pairs) == (["a", "b"], [["x y", "z"], ["x w", None]])


def test_bleu_is_the_sum_one_gets_by_hand():
    """Two sentences, the first with two references.

    Precisions: 1-grams: "the cat sat on a mat ." has 7, all in one of its references (6 of the
    first, "a" of the second); "dogs bark at night ." 5 of 5. 12/12. 2-grams: "on a" and "a mat"
    stand in the second reference, the others in the first: 6 of 6, and 4 of 4. 10/10. 3-grams:
    "sat on a" stands in neither; the others of 5 do, and 3 of 3: 7/8. 4-grams: "cat sat on a" and
    "sat on a mat" do not, 2 of 4, and 2 of 2: 4/6. Length: 12 against the closest 7 + 5: no
    penalty.
    """
    lines = ["the cat sat on a mat.", "dogs bark at night."]
    pairs = [
        ("one", "the cat sat on the mat."),
        ("two", "dogs bark at night."),
        ("one", "it is on a mat."),
    ]
    sources, targets = references(pairs)
    assert sources == ["one", "two"]
    value, signature = corpus_bleu(lines, targets)
    assert value == pytest.approx(100 * math.prod((12 / 12, 10 / 10, 7 / 8, 4 / 6)) ** (1 / 4))
    assert signature.startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp")


def test_a_model_is_scored_by_its_own_translations(recipe, data, tmp_path):
    command.run(recipe, data, tmp_path / "run", tmp_path / "tiny", device="cpu", threads=1)
    model = load(tmp_path / "tiny", device="cpu")
    from transformer_viz.inference.generation import translate

    sources = ["the red cat runs", "the blue dog sleeps"]
    own = [(line, translate(model, line, beam=2)[0].text or "nothing") for line in sources]
    assert bleu(model, own, beam=2).sentences == 2
    with pytest.raises(ValueError, match="no sentence pairs"):
        bleu(model, [], beam=2)
