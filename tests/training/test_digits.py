"""The digits: their split, their batches, and a folder that opens as any other."""

from __future__ import annotations

import json

import click.testing
import numpy as np
import pytest
import torch
from PIL import Image

from training import command, evaluate
from training.digits import HELD_OUT, NAMES, Digits, moved, read_digits
from training.evaluate import accuracy
from training.loop import Run
from training.pictures import answers, chances
from training.recipe import Recipe
from transformer_viz.checkpoints import load
from transformer_viz.core.trace import Trace

from .conftest import Trained, recipe_text, trained

RECIPE = recipe_text(
    name="tiny", title="Ten digits", seed=2, log_every=50, save_every=50,
    data={"task": "digits"},
    model={"patch_size": [2, 2], "d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 1},
    schedule={"steps": 150, "decay_from": 120, "warmup": 5, "peak": 0.02, "batch_tokens": 32},
    card={"attribution": "Contains digits.", "weaknesses": ["It is tiny."]},
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Trained:
    place = tmp_path_factory.mktemp("digits")
    (place / "tiny.toml").write_text(RECIPE)
    return trained(place / "tiny.toml", None, place)


@pytest.fixture(scope="module")
def words(made) -> Recipe:
    return Recipe.read(made.run.parent / "tiny.toml")


@pytest.mark.slow
def test_three_whole_sheets_are_held_out():
    """Every sheet begins with three times 0 to 9; 14 of them stand one after another."""
    images, labels = read_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8
    assert (images.min(), images.max()) == (0, 255)
    first = "".join(map(str, range(10))) * 3
    text = "".join(map(str, labels))
    assert text[HELD_OUT:].startswith(first)
    middle = "9898417735"  # stands once on a sheet, behind the three runs
    assert (text[:HELD_OUT].count(middle), text[HELD_OUT:].count(middle)) == (11, 3)


def test_a_moved_image_is_the_image_with_paper_behind_it():
    image = np.arange(1, 65, dtype=np.uint8).reshape(1, 8, 8)
    seen = set()
    for seed in range(60):
        (out,) = moved(image, np.random.default_rng(seed))
        wide = np.zeros((10, 10), np.uint8)
        wide[1:9, 1:9] = image[0]
        fits = [
            (down, right)
            for down in range(3)
            for right in range(3)
            if (wide[down : down + 8, right : right + 8] == out).all()
        ]
        assert len(fits) == 1
        seen.add(fits[0])
    assert len(seen) == 9


@pytest.mark.slow
def test_batches_depend_on_seed_and_update_alone_and_never_show_what_is_held_out(words):
    task = Digits(words)
    stream = task.batches(0)
    three = [next(stream) for _ in range(3)]
    (images,), labels = next(task.batches(2))
    assert images.equal(three[2][0][0]) and labels.equal(three[2][1])
    assert not images.equal(three[1][0][0])
    assert images.shape == (32, 1, 8, 8) and labels.shape == (32,)
    assert len(task.images) == HELD_OUT
    ((pixels,), wanted) = next(task.unseen())
    assert len(pixels) == len(wanted) == 1797 - HELD_OUT
    back = pixels[:, 0].numpy() * task.std + task.mean
    np.testing.assert_allclose(back, read_digits()[0][HELD_OUT:] / 255, atol=1e-6)
    (pixels,), _ = task.batch(task.images, task.labels)  # of those that are learned from
    assert float(pixels.mean()) == pytest.approx(0, abs=1e-3)
    assert float(pixels.std()) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_saved(words, made, tmp_path):
    straight = Run(words, None, made.run, "cpu")
    assert straight.tokens == 150 * 32

    def stop(progress):
        if progress.step == 81:
            raise KeyboardInterrupt

    with command.machine("cpu", 1):
        with pytest.raises(KeyboardInterrupt):
            Run(words, None, tmp_path / "stopped", "cpu").train(stop)
        resumed = Run(words, None, tmp_path / "stopped", "cpu")
        assert resumed.step == 50
        resumed.train(lambda progress: None)
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_the_folder_opens_with_pictures_an_example_and_an_honest_card(made):
    out, model = made.out, load(made.out, device="cpu")
    assert (model.takes, model.gives, model.labels) == ("image", "classes", NAMES)
    assert (model.title, model.file_dtype) == ("Ten digits", "float16")
    names = json.loads((out / "config.json").read_text())["examples"]
    assert [name.removesuffix(".png") for name in names[:10]] == list(NAMES)
    assert names[10].startswith("hard-") and len(names) == 11
    assert {path.name for path in (out / "examples").iterdir()} == set(names)
    example = Trace.load(out / "example.safetensors")
    assert example.report.status == "green" and example.manifest["hash"] == model.hash
    assert len(example.source) == 17 and example.logits.shape == (10,)
    card = (out / "README.md").read_text(encoding="utf-8")
    hits = accuracy(model)
    assert f"**Accuracy {hits.right / hits.images:.1%}** ({hits.right} of 382)" in card
    for said in (
        *("150 of 150 updates of 32 images, 4,800 images in all", "4 x 4 patches of 2 x 2"),
        *("> Contains digits.", "- It is tiny.", "transformer-viz train recipes/tiny.toml --out"),
        *(
            f"| `examples/{name}` | {said} |"
            for (_, said), name in zip(answers(model), names, strict=True)
        ),
    ):
        assert said in card
    said = click.testing.CliRunner().invoke(evaluate.main, [str(out)])
    assert f"accuracy {hits.right / 382:.1%}, {hits.right} of 382 images" in said.output


def test_what_is_measured_is_what_the_trained_weights_say(words, made):
    """Witness: the float32 module of the run, on the batches of the run."""
    out, model = made.out, load(made.out, device="cpu")
    work = Run(words, None, made.run, "cpu")
    work.model.eval()
    (pixels,), labels = next(work.task.unseen())
    with torch.inference_mode():
        expected = work.model(pixels).softmax(-1)
    images = read_digits()[0][HELD_OUT:]
    np.testing.assert_allclose(chances(model, images), expected.numpy(), atol=5e-3)  # float16 file
    right = int((expected.argmax(-1) == labels).sum())
    assert accuracy(model).right == pytest.approx(right, abs=2)
    assert right > 2 * 382 / 10  # far better than by chance after a second of training
    first = {name: int(np.flatnonzero(labels.numpy() == n)[0]) for n, name in enumerate(NAMES)}
    for name, index in first.items():
        stored = np.asarray(Image.open(out / "examples" / f"{name}.png"))
        np.testing.assert_array_equal(stored, images[index])
    names = json.loads((out / "config.json").read_text())["examples"]
    hardest = int(chances(model, images)[np.arange(382), labels.numpy()].argmin())
    stored = np.asarray(Image.open(out / "examples" / names[10]))
    np.testing.assert_array_equal(stored, images[hardest])
