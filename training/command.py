"""``transformer-viz train``: train a recipe on its data into a run folder and a packaged model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import sentencepiece
import torch

from transformer_viz.checkpoints.common.bundled import VOCABULARY, vocabulary_of
from transformer_viz.checkpoints.loader import choose_device, load
from transformer_viz.views.charts.training_curve import training_curve

from .grow import Start
from .loop import Progress, Run
from .package import ORIGIN, package, read_origin
from .progress import bar
from .recipe import Recipe, below_recipes
from .write_file import write

MOST_THREADS = 8  # small matrices gain nothing from more


def run(
    recipe: Path,
    data: Path | None,
    folder: Path,
    out: Path | None = None,
    device: str | None = None,
    threads: int | None = None,
    continue_from: str | Path | None = None,
    decay_from: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
) -> None:
    """Train a recipe to its end, or resume an interrupted run from its last save.

    Args:
        recipe: The recipe file.
        data: Folder of sentences; None for a recipe with built-in data.
        folder: Folder of the run (log, plot, resume file, snapshots).
        out: Folder of the packaged model with its card; None to skip packaging.
        device: Device of the training.
        threads: Number of threads, see `machine`.
        continue_from: Trained weights to start from, for a run whose resume file is lost.
        decay_from, steps: Replace those of the recipe, to end a run of open length.
        seed: Replaces that of the recipe, to repeat a training from other random weights.

    Raises:
        ValueError: A recipe, data, device or weights that do not fit; the message names it.
    """
    words = Recipe.read(recipe).ending(decay_from, steps).seeded(seed)
    start = begin_from(folder, continue_from, words)
    if read_origin(folder):
        words = words.continued()
    with machine(device, threads) as place:
        work = Run(words, data, folder, place, start)
        follow(work)
        plot(folder)
        if out is not None:
            package(words, folder, out, data=data, source=below_recipes(recipe), device=place)


def begin_from(folder: Path, weights: str | Path | None, recipe: Recipe) -> Start | None:
    """Return the weights to continue from, given or noted in the folder; None for random ones.

    Their vocabulary becomes the run's if it has the recipe's size. Otherwise the run makes a new
    one, and the weights are fitted to it. A note in the folder stores their origin.
    """
    origin = read_origin(folder)
    named = weights if weights is not None else origin.get("path")
    if named is None or (folder / "resume.pt").exists():
        return None
    model = load(named, device="cpu")
    folder.mkdir(parents=True, exist_ok=True)
    pieces = None
    if model.takes == "text":
        if model.folder is None or not vocabulary_of(model.folder).is_file():
            raise ValueError(
                f"There is no {VOCABULARY} beside {named}; a run needs the pieces too."
            )
        stored = vocabulary_of(model.folder).read_bytes()
        pieces = sentencepiece.SentencePieceProcessor(model_proto=stored)
        if pieces.get_piece_size() == recipe.data.vocabulary:
            write(folder / VOCABULARY, stored)
    note = {
        "path": str(named),
        "name": model.name,
        "hash": model.hash,
        "parameters": model.parameters,
    }
    write(folder / ORIGIN, json.dumps(note, indent=2).encode())
    return Start(model.module.state_dict(), pieces)


@contextmanager
def machine(device: str | None, threads: int | None) -> Iterator[str]:
    """Set up this process for training and yield the device; restore the settings afterwards.

    Without ``threads``, use PyTorch's number (``OMP_NUM_THREADS``, or the cores), up to 8.
    """
    place, before = choose_device(device), torch.get_num_threads()
    torch.set_num_threads(threads or min(MOST_THREADS, before))
    torch.set_flush_denormal(True)  # numbers near zero, common in Adam's averages, are slow
    exact = torch.are_deterministic_algorithms_enabled()
    if torch.device(place).type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by the next line
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield place
    finally:
        torch.use_deterministic_algorithms(exact)
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


def follow(work: Run) -> None:
    """Train, with a line on stderr that shows loss, tokens per second and the time left."""
    with bar(work.recipe.schedule.steps, work.recipe.name, "updates", work.step) as line:

        def tell(progress: Progress) -> None:
            notes: dict[str, Any] = {
                "loss": f"{progress.loss:.3f}",
                "tokens/s": f"{progress.tokens_per_second:,.0f}",
            }
            line.set_postfix(notes, refresh=False)
            line.update()

        work.train(tell)


def plot(folder: Path) -> None:
    """Draw the log into ``log.html``, with plotly's script beside it."""
    log = pd.read_csv(folder / "log.csv")
    training_curve(log).write_html(folder / "log.html", include_plotlyjs="directory")
