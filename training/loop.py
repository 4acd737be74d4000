"""Training loop that can be resumed at any moment."""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .batches import Batch
from .digits import Digits
from .grow import Start, grown
from .recipe import AVERAGED, Recipe
from .sentences import Sentences
from .write_file import write

LOG = ("step", "tokens", "seconds", "rate", "loss", "valid_loss", "tokens_per_second")


@dataclass(frozen=True)
class Progress:
    """Progress of a run: update, training loss (nats per token), tokens per second."""

    step: int
    loss: float
    tokens_per_second: float


class Task(Protocol):
    """Learning task of a run: its model, its batches and its held-out data."""

    @property
    def ignored(self) -> int:
        """Wanted id of positions without a prediction."""
        ...

    def module(self) -> nn.Module:
        """Return the model with random weights."""
        ...

    def batches(self, after: int) -> Iterator[Batch]:
        """Yield inputs and wanted ids of the updates that follow update ``after``."""
        ...

    def unseen(self) -> Iterator[Batch]:
        """Yield inputs and wanted ids of the held-out data."""
        ...

    def answers(self, model: Any, inputs: list[Tensor], wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits ``[question, answer]`` and the wanted ids ``[question]``."""
        ...


def task_of(recipe: Recipe, data: Path | None, folder: Path) -> Task:
    """Return the task of a recipe, with its data loaded.

    Raises:
        ValueError: Data that is missing or does not fit.
    """
    if recipe.data.task == "digits":
        return Digits(recipe)
    if data is None:
        raise ValueError(
            f"The recipe {recipe.name} learns from sentences; name the folder that holds them "
            "with --data."
        )
    return Sentences(recipe, data, folder)


class Run:
    """Training run in a folder: vocabulary, log, resume file, snapshots.

    ``folder`` holds ``vocabulary.model``, ``log.csv``, ``resume.pt`` and the snapshots. A killed
    run resumes from its last save with the same batches, dropout and learning rate. With the same
    seed, device and number of threads it ends with the same weights. ``start`` holds initial
    weights instead of random ones.

    Raises:
        ValueError: Data that is missing, or a folder of another recipe.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Path | None,
        folder: Path,
        device: str,
        start: Start | None = None,
    ):
        self.recipe, self.folder, self.device = recipe, folder, device
        self.kind = torch.device(device).type
        folder.mkdir(parents=True, exist_ok=True)
        self.task = task_of(recipe, data, folder)
        torch.manual_seed(recipe.seed)
        self.model = self.task.module().to(device)
        if start is not None:
            self.put(self.fitted(start), "the weights to continue from")
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.schedule.peak,
            betas=(0.9, 0.98),
            weight_decay=recipe.schedule.weight_decay,
            fused=True,
        )
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.average: dict[str, Tensor] = {}
        self.resume()
        self.forget_later_lines()

    def fitted(self, start: Start) -> Mapping[str, Tensor]:
        """Return the initial weights, resized for a text model that has grown."""
        if start.pieces is None or not isinstance(self.task, Sentences):
            return start.weights
        return grown(start.weights, self.model, start.pieces, self.task.pieces)

    def put(self, weights: Mapping[str, Tensor], what: str) -> None:
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(
                f"The model of the recipe {self.recipe.name} does not fit {what}: "
                f"{str(error).splitlines()[1].strip()} Take the recipe that they were made with."
            ) from error

    def resume(self) -> None:
        path = self.folder / "resume.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.put(state["model"], str(path))
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None and self.kind == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu())
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.average = state.get("average", {})

    def forget_later_lines(self) -> None:
        """Drop the lines of the log that a killed run wrote after its last save."""
        path = self.folder / "log.csv"
        if not path.exists():
            return
        head, *lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if int(line.partition(b",")[0]) <= self.step]
        if len(kept) < len(lines):
            write(path, b"".join([head, *kept]))

    def save(self) -> None:
        cuda = torch.cuda.get_rng_state() if self.kind == "cuda" else None
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
            "random_cuda": cuda,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "average": self.average,
        }
        for age in reversed(range(1, self.recipe.keep)):  # a kill leaves resume.pt intact
            older = self.folder / (f"resume-{age - 1}.pt" if age > 1 else "resume.pt")
            if older.exists():
                temporary = self.folder / "older.part"
                temporary.unlink(missing_ok=True)
                os.link(older, temporary)
                os.replace(temporary, self.folder / f"resume-{age}.pt")
        self.store(state, "resume.pt")

    def store(self, state: Mapping[str, Any], name: str) -> None:
        temporary = self.folder / "state.part"
        torch.save(state, temporary)
        os.replace(temporary, self.folder / name)  # a kill leaves the old or the new file

    def loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, int]:
        """Return the mean cross-entropy (nats) over a batch's predictions, and their number."""
        inputs, wanted = [part.to(self.device) for part in batch[0]], batch[1].to(self.device)
        with torch.autocast(self.kind, torch.bfloat16, enabled=self.recipe.bfloat16):
            logits, wanted = self.task.answers(self.model, inputs, wanted)
        ignored = self.task.ignored
        value = F.cross_entropy(
            logits.float(), wanted, ignore_index=ignored, label_smoothing=smoothing
        )
        return value, int((wanted != ignored).sum())

    def update(self, batch: Batch) -> tuple[float, int]:
        schedule = self.recipe.schedule
        self.step += 1
        for group in self.optimiser.param_groups:
            group["lr"] = schedule.rate(self.step)
        loss, tokens = self.loss(batch, schedule.label_smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), schedule.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.tokens += tokens
        if schedule.average and self.step % AVERAGED == 0:
            self.follow_average(schedule.average)
        return float(loss.detach()), tokens

    def follow_average(self, kept: float) -> None:
        """Move the average of the weights a little towards them (Polyak and Juditsky 1992)."""
        weights = self.model.state_dict()
        if not self.average:
            self.average = {name: value.clone() for name, value in weights.items()}
        seen = self.step // AVERAGED
        share = max(1 - kept, 1 / (1 + seen))  # the first weights are soon forgotten
        for name, value in self.average.items():
            value.lerp_(weights[name], share)

    def valid_loss(self) -> float:
        """Return the cross-entropy (nats, no smoothing) on held-out data."""
        self.model.eval()
        total, count, own = 0.0, 0, None
        if self.average:
            own = {name: value.clone() for name, value in self.model.state_dict().items()}
            self.model.load_state_dict(self.average)
        with torch.inference_mode():
            for batch in self.task.unseen():
                loss, tokens = self.loss(batch, 0.0)
                total, count = total + float(loss) * tokens, count + tokens
        if own is not None:
            self.model.load_state_dict(own)
        self.model.train()
        return total / max(1, count)

    def train(self, on_progress: Callable[[Progress], None]) -> None:
        """Run until the recipe's last update; ``on_progress`` is called after every update.

        Raises:
            ValueError: The loss is no longer finite; the message names the update.
        """
        recipe, schedule = self.recipe, self.recipe.schedule
        self.model.train()
        batches = self.task.batches(self.step)
        losses, tokens, clock = 0.0, 0, time.monotonic()
        since = self.step
        while self.step < schedule.steps:
            loss, count = self.update(next(batches))
            if not math.isfinite(loss):
                raise ValueError(
                    f"The loss became {loss} at update {self.step}: the training diverged. Lower "
                    "peak or clip in the recipe and start anew; nothing was saved since."
                )
            losses, tokens = losses + loss, tokens + count
            speed = tokens / max(1e-9, time.monotonic() - clock)
            on_progress(Progress(self.step, losses / (self.step - since), speed))
            if self.step in recipe.snapshots:
                self.store(self.model.state_dict(), f"step-{self.step}.pt")
            if self.step % recipe.log_every == 0 or self.step == schedule.steps:
                self.seconds += time.monotonic() - clock
                self.log(losses / (self.step - since), speed)
                losses, tokens, since, clock = 0.0, 0, self.step, time.monotonic()
            if self.step % recipe.save_every == 0 or self.step == schedule.steps:
                self.save()

    def log(self, loss: float, speed: float) -> None:
        """Append one line to ``log.csv``; the validation loss at every save and at the end."""
        last = self.step == self.recipe.schedule.steps
        every = self.recipe.valid_every or self.recipe.save_every
        measured = last or self.step % every == 0
        row = (
            self.step,
            self.tokens,
            round(self.seconds, 1),
            f"{self.recipe.schedule.rate(self.step):.3g}",
            round(loss, 4),
            round(self.valid_loss(), 4) if measured else "",
            round(speed),
        )
        path = self.folder / "log.csv"
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(LOG)
            writer.writerow(row)
