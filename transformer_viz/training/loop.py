"""The training loop: batches in, weights out, resumable at any moment."""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch.nn import functional as F

from ..model import Transformer
from .corpus import Pair, encode_pairs, endless, read_pairs, to_tensors, train_vocabulary
from .recipe import Recipe

LOG = ("step", "tokens", "seconds", "rate", "loss", "valid_loss", "tokens_per_second")


@dataclass(frozen=True)
class Progress:
    """Where a run stands: update, training loss (nats a token), target tokens a second."""

    step: int
    loss: float
    tokens_per_second: float


class Run:
    """One training run in a folder: vocabulary, log, resume file, snapshots.

    ``folder`` keeps ``vocabulary.model``, ``log.csv``, ``resume.pt`` and the snapshots. A killed
    run goes on from its last save with the same batches, dropout and learning rate as if
    nothing had happened; with the same seed, device and number of
    threads it ends with the same weights.
    ``start`` holds weights to begin with instead of random ones.

    Raises:
        ValueError: data that is missing, or a folder that belongs to another recipe.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Path,
        folder: Path,
        device: str,
        start: Mapping[str, torch.Tensor] | None = None,
    ):
        self.recipe, self.folder, self.device = recipe, folder, device
        self.kind = torch.device(device).type
        folder.mkdir(parents=True, exist_ok=True)
        columns = recipe.data.source, recipe.data.target
        pairs = read_pairs(data / recipe.data.train, *columns)
        self.pieces = self.vocabulary(pairs)
        self.pairs = encode_pairs(pairs, self.pieces, recipe.data)
        valid = read_pairs(data / recipe.data.valid, *columns)
        self.valid = encode_pairs(valid, self.pieces, recipe.data)
        torch.manual_seed(recipe.seed)
        config = recipe.config(self.pieces.pad_id(), self.pieces.bos_id(), self.pieces.eos_id())
        self.model = Transformer(config).to(device)
        if start is not None:
            self.put(start, "the weights to continue from")
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.schedule.peak,
            betas=(0.9, 0.98),
            weight_decay=recipe.schedule.weight_decay,
            fused=True,
        )
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.resume()
        self.forget_later_lines()

    def vocabulary(self, pairs: list[tuple[str, str]]) -> sentencepiece.SentencePieceProcessor:
        path, size = self.folder / "vocabulary.model", self.recipe.data.vocabulary
        if not path.exists():
            write(path, train_vocabulary(pairs, size))
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        if pieces.get_piece_size() != size:
            raise ValueError(
                f"{path} has {pieces.get_piece_size()} pieces, the recipe {size}; they belong to "
                "different runs. Name another folder for this run."
            )
        return pieces

    def put(self, weights: Mapping[str, torch.Tensor], what: str) -> None:
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
        }
        self.store(state, "resume.pt")

    def store(self, state: Mapping[str, Any], name: str) -> None:
        temporary = self.folder / "state.part"
        torch.save(state, temporary)
        os.replace(temporary, self.folder / name)  # a kill leaves the old or the new file

    def loss(
        self, batch: list[int], pairs: list[Pair], smoothing: float
    ) -> tuple[torch.Tensor, int]:
        """Mean cross-entropy (nats) over the real target tokens of a batch, and their number."""
        config = self.model.config
        source, target, wanted = (
            part.to(self.device) for part in to_tensors(pairs, batch, config.pad_id, config.bos_id)
        )
        with torch.autocast(self.kind, torch.bfloat16, enabled=self.recipe.bfloat16):
            logits = self.model(source, target)
        value = F.cross_entropy(
            logits.flatten(0, 1).float(),
            wanted.flatten(),
            ignore_index=config.pad_id,
            label_smoothing=smoothing,
        )
        return value, int((wanted != config.pad_id).sum())

    def update(self, batch: list[int]) -> tuple[float, int]:
        schedule = self.recipe.schedule
        self.step += 1
        for group in self.optimiser.param_groups:
            group["lr"] = schedule.rate(self.step)
        loss, tokens = self.loss(batch, self.pairs, schedule.label_smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), schedule.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.tokens += tokens
        return float(loss.detach()), tokens

    def valid_loss(self) -> float:
        """Cross-entropy (nats a token, no smoothing) on the validation pairs."""
        self.model.eval()
        total, count = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(self.valid), 64):
                batch = list(range(start, min(start + 64, len(self.valid))))
                loss, tokens = self.loss(batch, self.valid, 0.0)
                total, count = total + float(loss) * tokens, count + tokens
        self.model.train()
        return total / max(1, count)

    def train(self, tell: Callable[[Progress], None]) -> None:
        """Run until the recipe's last update; ``tell`` hears of every update.

        Raises:
            ValueError: the loss is no number any more; says at which update.
        """
        recipe, schedule = self.recipe, self.recipe.schedule
        self.model.train()
        batches = endless(self.pairs, schedule.batch_tokens, recipe.seed, skip=self.step)
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
            tell(Progress(self.step, losses / (self.step - since), speed))
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
        measured = last or self.step % self.recipe.save_every == 0
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


def write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    temporary = path.with_suffix(".part")
    temporary.write_bytes(content)
    os.replace(temporary, path)
