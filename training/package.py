"""Packaging of a finished run for ``pretrained/``: weights, config, vocabulary, log, card.

``python -m training.package RECIPE RUN OUT [--data DIR]`` repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import safetensors.torch
import sentencepiece
import torch
from torch import Tensor, nn

from transformer_viz.checkpoints.common import native
from transformer_viz.checkpoints.common.bundled import CONFIG, EXAMPLE, VOCABULARY, WEIGHTS
from transformer_viz.checkpoints.common.fill_weights import compare, shared_names, skip_init
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.files.reading import Weights, refuse_non_finite
from transformer_viz.checkpoints.loader import load
from transformer_viz.inference.generation import translate
from transformer_viz.inference.tracing import trace
from transformer_viz.model import Transformer

from .card import BEAM, card, hide, sureness
from .corpus import MASK, read_pairs
from .digits import Digits
from .evaluate import Score, measure, sure_from
from .pictures import store_pictures, timm_config
from .recipe import Recipe, below_recipes
from .write_file import note, write

ORIGIN = "origin.json"  # in a run folder: the initial weights of the run


def package(
    recipe: Recipe,
    folder: Path,
    out: Path,
    *,
    data: Path | None = None,
    source: str = "",
    device: str | None = None,
) -> None:
    """Write the run in ``folder`` to ``out`` as a checkpoint.

    Args:
        recipe: The recipe of the run.
        folder: Folder of the run.
        out: Folder of the checkpoint.
        data: Folder of the recipe's test file. With it the card has the packaged model's score (for
            the digits always).
        source: File name of the recipe.
        device: Device of the measurements.

    Raises:
        ValueError: The folder holds no saved run, or float16 cannot hold the weights.
    """
    if not (folder / "resume.pt").is_file():
        raise ValueError(f"{folder} holds no saved run (resume.pt); train the recipe first.")
    origin = read_origin(folder)
    recipe = recipe.continued() if origin else recipe
    state = torch.load(folder / "resume.pt", map_location="cpu", weights_only=True)
    out.mkdir(parents=True, exist_ok=True)
    plan, words = plan_of(recipe, folder)
    save_weights(plan, state.get("average") or state["model"], out / WEIGHTS)
    steps = snapshots(recipe, folder)
    for step in steps:
        weights = torch.load(folder / f"step-{step}.pt", map_location="cpu", weights_only=True)
        save_weights(plan, weights, out / f"step-{step}.safetensors")
    words = {"title": recipe.title, "steps": state["step"], "snapshots": steps} | words
    write(out / CONFIG, (json.dumps(words, indent=2) + "\n").encode())
    for name in (VOCABULARY, "log.csv"):
        if (folder / name).is_file():
            write(out / name, (folder / name).read_bytes())
    finish(recipe, state, out, data=data, source=source, origin=origin, device=device)


def plan_of(recipe: Recipe, folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Return the model of a recipe without weights, and the fields of its config.json."""
    if recipe.data.task == "digits":
        task = Digits(recipe)
        return task.module(), timm_config(task)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / VOCABULARY))
    config = recipe.config(pieces)
    fields = {"layout": native.NAME, "kind": config.kind, **config.to_dict()}
    if recipe.data.task == "masked":
        fields["mask_id"] = pieces.piece_to_id(MASK)
    with skip_init():
        return Transformer(config), fields


def finish(
    recipe: Recipe,
    state: Mapping[str, Any],
    out: Path,
    *,
    data: Path | None,
    source: str,
    origin: Mapping[str, Any],
    device: str | None,
) -> None:
    """Open the packaged model, measure it, and write its card."""
    digits = recipe.data.task == "digits"
    model = load(out, device=device)
    first = store_pictures(model, out)[0] if digits else None
    score = None
    if digits or (data is not None and recipe.data.test):
        path = None if data is None else data / recipe.data.test
        score = measure(model, path, (recipe.data.source, recipe.data.target), BEAM)
    sure = ""
    if isinstance(score, Score) and data is not None:
        pairs = read_pairs(data / recipe.data.valid, recipe.data.source, recipe.data.target)
        limit = sure_from(model, pairs)
        sure = sureness(limit, recipe.data.valid)
        note(out, bleu=round(score.bleu, 1), sure_from=limit)
    text = card(recipe, model, state, score=score, sure=sure, source=source, origin=origin)
    write(out / "README.md", text.encode())
    for example in (first, *recipe.card.examples[:1]):
        if example is not None:
            store_example(model, example, out / EXAMPLE)


def store_example(model: Model, source: str | Path, path: Path) -> None:
    """Store the clean run of an input, as the app shows it first.

    The translation is that of beam 4. A masked model gets the mask in place of the word in
    brackets, and predicts that word.
    """
    seen: Any = source
    target = asked = None
    if model.kind == "encoder-decoder":
        best = translate(model, seen, beam=BEAM)[0]
        words = best.ids[:-1] if best.finished else best.ids
        target = [*model.tokenizer.target_ids(""), *words]
    elif model.mask_id is not None:
        seen, asked = hide(model, str(source))
    keep = ("weights", "scores", "hidden")
    trace(model, seen, target=target, produced=asked, keep=keep).save(path)


def snapshots(recipe: Recipe, folder: Path) -> list[int]:
    """Return the recipe's snapshots that the run has reached, without its last update."""
    last = recipe.schedule.steps
    return [s for s in sorted(recipe.snapshots) if s < last and (folder / f"step-{s}.pt").exists()]


def save_weights(plan: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Write the state dict of a model like ``plan`` as float16, every tied matrix once.

    Raises:
        ValueError: Weights of another model, not finite, or too large for float16; the message
            names the tensor.
    """
    compare(plan, Weights(path, dict(weights), {}), config=True)
    names = [group[0] for group in shared_names(plan)]
    tensors = {name: weights[name].half().contiguous() for name in names}
    for name, tensor in tensors.items():
        refuse_non_finite(name, tensor, path)
    write(path, safetensors.torch.save(tensors, metadata={"format": "pt"}))


def read_origin(folder: Path) -> dict[str, Any]:
    """Return the origin of a run's initial weights; empty if they were random."""
    path = folder / ORIGIN
    return json.loads(path.read_text()) if path.exists() else {}


@click.command()
@click.argument("recipe", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", metavar="RUN", type=click.Path(file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Measures BLEU.")
def main(recipe: Path, folder: Path, out: Path, data: Path | None) -> None:
    """Package the run of a recipe again."""
    package(Recipe.read(recipe), folder, out, data=data, source=below_recipes(recipe))


if __name__ == "__main__":
    main()
