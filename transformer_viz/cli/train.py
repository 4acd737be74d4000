"""``transformer-viz train``: run a recipe with the ``training/`` folder of a clone."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import click

from ..paths import ROOT
from .arguments import known_checkpoint
from .terminal import after_a_second, tell

TRAINING = ROOT / "training" / "command.py"


@click.command()
@click.argument("recipe", metavar="RECIPE.toml")
@click.option("--data", metavar="DIR", help="The folder of the recipe's data, if it needs any.")
@click.option("--device", help="cpu or cuda; left out, a GPU if there is one.")
@click.option(
    "--folder",
    metavar="DIR",
    help="Where the run is kept: runs/NAME (with the seed, if one is given) if left out.",
)
@click.option("--out", metavar="DIR", help="Where the model goes: model/ in that folder.")
@click.option(
    "--continue-from",
    metavar="PATH",
    help="Begin with these weights, grown where the recipe is larger.",
)
@click.option("--decay-from", type=int, help="The update from which the learning rate falls.")
@click.option("--steps", type=int, help="The last update, where the learning rate is zero.")
@click.option("--seed", type=int, help="Of the first weights and the order of the text.")
def train(
    recipe: str,
    data: str | None,
    device: str | None,
    folder: str | None,
    out: str | None,
    continue_from: str | None,
    decay_from: int | None,
    steps: int | None,
    seed: int | None,
) -> None:
    """Train a recipe; the same command again goes on where a stopped run was saved last."""
    refuse_without_clone()
    if not Path(recipe).is_file():
        raise ValueError(f"There is no recipe {recipe!r}; name a file such as recipes/en-de.toml.")
    sentences = recipe_data(Path(recipe), data)
    start = None if continue_from is None else known_checkpoint(continue_from)
    named = Path(recipe).stem if seed is None else f"{Path(recipe).stem}-{seed}"
    kept = Path(folder) if folder else Path("runs") / named
    made = Path(out) if out else kept / "model"
    with after_a_second("Reading the data"):
        run = import_trainer()
    run(
        Path(recipe), sentences, kept, made, device,
        continue_from=start, decay_from=decay_from, steps=steps, seed=seed,
    )  # fmt: skip
    tell(f"{made}: look inside with transformer-viz app --model {made}")


def import_trainer() -> Callable[..., None]:
    """Import ``training.command.run`` from the clone that contains this package."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    run: Callable[..., None] = importlib.import_module("training.command").run
    return run


def refuse_without_clone() -> None:
    """Raise an error outside a clone, as in an installed wheel.

    Raises:
        ValueError: ``training/`` is not beside the package.
    """
    if not TRAINING.is_file():
        raise ValueError(
            "transformer-viz train needs a clone of the repository; this is an installed package. "
            "Clone it and run: make train DATA=folder."
        )


def recipe_data(recipe: Path, folder: str | None) -> Path | None:
    """Return the folder of a recipe's data; None is valid for a recipe with built-in data."""
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(
            f"There is no folder {folder!r}; --data names the one with the recipe's sentences."
        )
    try:
        words = tomllib.loads(recipe.read_text(encoding="utf-8")).get("data", {})
    except ValueError as error:
        raise ValueError(f"{recipe.name} is not a recipe: {error}.") from error
    if folder is None and words.get("train"):
        raise ValueError(
            f"{recipe.name} learns from sentences; name the folder they are in with --data DIR."
        )
    return None if folder is None else Path(folder)
