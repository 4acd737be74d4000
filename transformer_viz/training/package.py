"""A finished run made into a folder of ``pretrained/``: weights, config, vocabulary, log, card.

``python -m transformer_viz.training.package RECIPE RUN OUT [--data DIR]`` does it again.
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
from torch import Tensor

from ..checkpoints import native
from ..checkpoints.filling import NoFirstWeights, compare, shared_names
from ..checkpoints.model import Model
from ..checkpoints.opening import load
from ..checkpoints.reading import Weights, refuse_non_finite
from ..checkpoints.shelf import CONFIG, EXAMPLE, VOCABULARY, WEIGHTS
from ..decode import translate
from ..model import ModelConfig, Transformer
from ..tracing import trace
from .card import BEAM, card
from .corpus import read_pairs
from .evaluate import Score, bleu
from .loop import write
from .recipe import Recipe

ORIGIN = "origin.json"  # in a run folder: which weights the run began with


def package(
    recipe: Recipe,
    folder: Path,
    out: Path,
    *,
    data: Path | None = None,
    source: str = "",
    device: str | None = None,
) -> None:
    """Write the run in ``folder`` to ``out`` as a checkpoint that anyone can open.

    ``data`` is where the recipe's test file lies: then the card tells the score of the packaged
    model. ``source`` is the recipe's file name.

    Raises:
        ValueError: the folder holds no saved run; weights that float16 cannot hold.
    """
    if not (folder / "resume.pt").is_file():
        raise ValueError(f"{folder} holds no saved run (resume.pt); train the recipe first.")
    origin = read_origin(folder)
    recipe = recipe.continued() if origin else recipe
    state = torch.load(folder / "resume.pt", map_location="cpu", weights_only=True)
    out.mkdir(parents=True, exist_ok=True)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / VOCABULARY))
    config = recipe.config(pieces.pad_id(), pieces.bos_id(), pieces.eos_id())
    save_weights(config, state["model"], out / WEIGHTS)
    steps = snapshots(recipe, folder)
    for step in steps:
        weights = torch.load(folder / f"step-{step}.pt", map_location="cpu", weights_only=True)
        save_weights(config, weights, out / f"step-{step}.safetensors")
    words = {
        "layout": native.NAME,
        "kind": config.kind,
        "title": recipe.title,
        "steps": state["step"],
        "snapshots": steps,
        **config.to_dict(),
    }
    write(out / CONFIG, (json.dumps(words, indent=2) + "\n").encode())
    write(out / VOCABULARY, (folder / VOCABULARY).read_bytes())
    write(out / "log.csv", (folder / "log.csv").read_text().encode())
    finish(recipe, state, out, data=data, source=source, origin=origin, device=device)


def finish(
    recipe: Recipe,
    state: Mapping[str, Any],
    out: Path,
    *,
    data: Path | None,
    source: str,
    origin: Mapping[str, str],
    device: str | None,
) -> None:
    """Open the packaged model as anyone would, measure it, and write its card."""
    model = load(out, device=device)
    score: Score | None = None
    if data is not None and recipe.data.test:
        pairs = read_pairs(data / recipe.data.test, recipe.data.source, recipe.data.target)
        score = bleu(model, pairs, beam=4)
    text = card(recipe, model, state, score=score, source=source, origin=origin)
    write(out / "README.md", text.encode())
    if recipe.card.examples:
        store_example(model, recipe.card.examples[0], out / EXAMPLE)


def store_example(model: Model, text: str, path: Path) -> None:
    """Store the clean run of a sentence with its beam-4 translation, as the app would show it."""
    best = translate(model, text, beam=BEAM)[0]
    words = best.ids[:-1] if best.finished else best.ids
    target = [*model.tokenizer.target_ids(""), *words]
    trace(model, text, target=target, keep=("weights", "scores", "hidden")).save(path)


def snapshots(recipe: Recipe, folder: Path) -> list[int]:
    """The recipe's snapshots that the run has reached; its last update is the model itself."""
    last = recipe.schedule.steps
    return [s for s in sorted(recipe.snapshots) if s < last and (folder / f"step-{s}.pt").exists()]


def save_weights(config: ModelConfig, weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a state dict as float16, every tied matrix once.

    Raises:
        ValueError: weights of another model, not finite, or too large for float16; names it.
    """
    with NoFirstWeights():
        plan = Transformer(config)
    compare(plan, Weights(path, dict(weights), {}))
    names = [group[0] for group in shared_names(plan)]
    tensors = {name: weights[name].half().contiguous() for name in names}
    for name, tensor in tensors.items():
        refuse_non_finite(name, tensor, path)
    write(path, safetensors.torch.save(tensors, metadata={"format": "pt"}))


def read_origin(folder: Path) -> dict[str, str]:
    """Where a run's first weights came from; empty where they were random."""
    path = folder / ORIGIN
    return json.loads(path.read_text()) if path.exists() else {}


@click.command()
@click.argument("recipe", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", metavar="RUN", type=click.Path(file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Measures BLEU.")
def main(recipe: Path, folder: Path, out: Path, data: Path | None) -> None:
    """Package the run of a recipe again."""
    package(Recipe.read(recipe), folder, out, data=data, source=recipe.name)


if __name__ == "__main__":
    main()
