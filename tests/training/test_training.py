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

from tests.support.refusals import refuses
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
def test_a_killed_run_ends_with_the_same_weights_bit_for_bit(recipe, pairs, toy, tmp_path):
    straight, killed = toy.run, tmp_path / "killed"
    words = [sys.executable, "-c", KILLED, str(recipe), str(pairs), str(killed)]
    paths = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    died = subprocess.run(words, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert torch.load(killed / "resume.pt", weights_only=True)["step"] == 6
    assert len(pd.read_csv(killed / "log.csv")) == 3  # one line more than was saved
    command.run(recipe, pairs, killed, device="cpu", threads=1)
    assert weights(straight).keys() == weights(killed).keys()
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(killed)[name]), name
    pd.testing.assert_frame_equal(comparable(straight), comparable(killed))
    for step in (1, 4, 12):
        assert (killed / f"step-{step}.pt").is_file()


@pytest.mark.slow
def test_training_learns_and_leaves_a_log_and_a_picture_of_it(recipe, pairs, tmp_path, capsys):
    longer = recipe.read_text().replace("steps = 12", "steps = 60").replace("= 9", "= 40")
    recipe.write_text(longer.replace("warmup = 4", "warmup = 4\npeak = 0.02"))
    command.run(recipe, pairs, tmp_path / "run", device="cpu", threads=1)
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


def test_the_package_opens_and_says_what_it_is(recipe, pairs, toy):
    run, out = toy.run, toy.out
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
    valid = pairs / Recipe.read(recipe).data.valid
    lines = list(dict.fromkeys(english for english, _ in read_pairs(valid, 0, 1)))
    best = [translate(model, line, beam=4)[0].steps for line in lines]
    means = [math.exp(sum(steps) / len(steps)) for steps in best]
    assert config["sure_from"] == pytest.approx(np.quantile(means, 0.05), abs=6e-4)
    card = (out / "README.md").read_text(encoding="utf-8")
    for words in (
        *("# Toy to toy", "> Contains nothing of anybody.", "- It knows twelve words."),
        *("12 of 12 updates", "| the red cat runs |", f"`{model.hash}`", "`step-<update>"),
        *(f"It is {config['sure_from']:.0%} or more", "beam 4"),
        *("refs:1|case:mixed|eff:no|tok:13a", "transformer-viz train recipes/tiny.toml"),
    ):
        assert words in card
    assert "did not begin at random" not in card


def test_packages_without_test_data_or_a_run_or_of_odd_weights(recipe, pairs, toy, tmp_path):
    words, out = Recipe.read(recipe), tmp_path / "out"
    refuses("no saved run", package, words, tmp_path / "none", out)
    package(words, toy.run, out)
    assert "It was not measured" in (out / "README.md").read_text(encoding="utf-8")
    state = weights(toy.run)
    name = "decoder.norm.weight"
    plan = Run(words, pairs, tmp_path / "run", "cpu").model
    state[name][0] = 1e6  # more than float16 holds
    odd = tmp_path / "x.safetensors"
    refuses(f"{name} in x.safetensors has 1 values", save_weights, plan, state, odd)
    wider = dataclasses.replace(words, model=words.model | {"d_ff": 16})
    refuses(r"but the config makes it \[16", package, wider, toy.run, out)


@pytest.mark.slow
def test_a_lost_resume_file_is_continued_from_the_packaged_weights(recipe, pairs, toy, tmp_path):
    folder, again = tmp_path / "next", tmp_path / "again"
    model = load(toy.out, device="cpu")
    shipped = model.module.state_dict()
    start = command.begin_from(folder, toy.out, Recipe.read(recipe))
    assert start is not None
    assert all(torch.equal(start.weights[name], shipped[name]) for name in shipped)
    work = Run(Recipe.read(recipe), pairs, folder, "cpu", start)
    assert torch.equal(work.model.output.weight, shipped["output.weight"])
    kept, given = (place / "vocabulary.model" for place in (folder, toy.out))
    assert kept.read_bytes() == given.read_bytes()
    command.run(recipe, pairs, folder, again, device="cpu", threads=1)  # remembers
    assert not torch.equal(weights(folder)["output.weight"], shipped["output.weight"])
    card = (again / "README.md").read_text(encoding="utf-8")
    assert f"continued the float16 weights of tiny (SHA-256 `{model.hash}`" in card


def test_another_seed_begins_from_other_weights_and_nothing_else(recipe, pairs, toy, tmp_path):
    words = Recipe.read(recipe)
    assert words.seeded(None) is words
    assert dataclasses.replace(words.seeded(words.seed + 1), seed=words.seed) == words
    folders = [tmp_path / name for name in ("same", "other")]
    for folder, seed in zip(folders, (words.seed, words.seed + 1), strict=True):
        command.run(recipe, pairs, folder, device="cpu", threads=1, seed=seed)
    own, same, other = (weights(folder) for folder in (toy.run, *folders))
    assert all(torch.equal(own[name], same[name]) for name in own)
    assert not torch.equal(own["output.weight"], other["output.weight"])


def test_the_learning_rate_rises_holds_and_falls():
    schedule = Schedule(steps=100, decay_from=60, warmup=10, peak=2.0)
    rates = [schedule.rate(step) for step in (1, 5, 10, 60, 80, 100)]
    assert rates == pytest.approx([0.2, 1.0, 2.0, 2.0, 1.0, 0.0])
    schedule = Schedule(steps=1000, decay_from=900, warmup=600)
    recipe = Recipe(name="x", seed=0, data=None, model={}, schedule=schedule)  # type: ignore[arg-type]
    after = recipe.continued().schedule  # the warm-up alone is shorter
    assert after.warmup == 100
    assert (after.steps, after.peak, after.decay_from) == (1000, schedule.peak, 900)


def test_every_pass_holds_each_pair_once_in_batches_of_at_most_so_many_tokens(recipe):
    seed = Recipe.read(recipe).seed
    rows = [([n, 3], list(range(n % 5 + 2))) for n in range(57)]
    for epoch in (0, 1):
        batches = epoch_batches(rows, 20, seed, epoch)
        assert sorted(i for batch in batches for i in batch) == list(range(57))
        assert all(len(b) * max(len(rows[i][1]) for i in b) <= 20 for b in batches)
        assert batches == epoch_batches(rows, 20, seed, epoch)
    count = len(epoch_batches(rows, 20, seed, 0))
    later, whole = endless(rows, 20, seed, count + 2), endless(rows, 20, seed, 0)
    for _ in range(count + 2):
        next(whole)
    assert [next(later) for _ in range(5)] == [next(whole) for _ in range(5)]


def test_bad_recipes_data_and_folders_are_named(recipe, pairs, tmp_path):
    def run(old: str = "", new: str = "", data: Path = pairs, folder: str = "run") -> Run:
        (tmp_path / "other.toml").write_text(recipe.read_text().replace(old, new))
        return Run(Recipe.read(tmp_path / "other.toml"), data, tmp_path / folder, "cpu")

    work = run()
    long = [("cat", "kato"), ("cat " * 200, "kato")]
    assert len(encode_pairs(long, work.task.pieces, work.recipe.data)) == 1  # one is left out
    work.save()
    refuses(r"does not fit .*resume\.pt: size mismatch for enc", run, "d_ff = 12", "d_ff = 16")
    refuses("has 288 pieces, the recipe 289", run, "= 288", "= 289")
    huge = "vocabulary of 9000 pieces does not fit 54 pairs"
    refuses(huge, run, "= 288", "= 9000", folder="huge")
    refuses(r"no train\.tsv in .*--data", run, data=tmp_path / "elsewhere")
    wild = run("warmup = 4", "warmup = 1\npeak = 1e30", folder="wild")
    diverged = r"became nan at update [23]: the training diverged"
    refuses(diverged, wild.train, lambda progress: None)
    (tmp_path / "one.tsv").write_text("a\tb\nonly\n")
    refuses(r"one\.tsv line 2 has 1 columns", read_pairs, tmp_path / "one.tsv", 0, 1)
    (tmp_path / "bad.toml").write_text("name = 'x'")
    refuses(r"bad\.toml is not a recipe: 'data'", Recipe.read, tmp_path / "bad.toml")


def test_bleu_is_the_sum_one_gets_by_hand():
    """Two sentences, the first with two references.

    Precisions: 1-grams: "the cat sat on a mat ." has 7, all in one of its references (6 of the
    first, "a" of the second); "dogs bark at night ." 5 of 5. 12/12. 2-grams: "on a" and "a mat"
    stand in the second reference, the others in the first: 6 of 6, and 4 of 4. 10/10. 3-grams:
    "sat on a" stands in neither; the others of 5 do, and 3 of 3: 7/8. 4-grams: "cat sat on a" and
    "sat on a mat" do not, 2 of 4, and 2 of 2: 4/6. Length: 12 against the closest 7 + 5: no
    penalty.
    """
    pairs = [("a", "x y"), ("b", "z"), ("a", "x w"), ("a", "x y")]
    assert references(pairs) == (["a", "b"], [["x y", "z"], ["x w", None]])
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


def test_a_model_is_scored_by_its_own_translations(toy):
    model = load(toy.out, device="cpu")
    sources = ["the red cat runs", "the blue dog sleeps"]
    own = [(line, translate(model, line, beam=2)[0].text or "nothing") for line in sources]
    assert bleu(model, own, beam=2).sentences == 2
    refuses("no sentence pairs", bleu, model, [], beam=2)
