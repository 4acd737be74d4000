"""Plan of an atlas: the measurements and the corpus, split into shards. Depends on nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.guesses import KEY, guess_entry
from ..core.stored.field_types import require_types
from ..core.version import __version__
from ..metrics.head_measures.columns import METRIC_SET
from .sentence_file import lines, some_lines, text_file

if TYPE_CHECKING:
    from ..checkpoints.common.model import Model

PLAN = "plan.json"
SHARD = 2000  # sentences
COPIED = 500  # about this many sentences get a copying score, which needs all logits


@dataclass(frozen=True)
class Shard:
    """Range of the corpus: its first sentence, line and byte, and its number of sentences."""

    number: int
    sentence: int
    line: int
    byte: int
    count: int


@dataclass(frozen=True)
class Plan:
    """Contents of `plan.json`. Paths are excluded, so it is the same on every machine.

    ``guesses`` are the config values that no file states; without guesses the field is omitted from
    the file.
    """

    model: str
    model_hash: str
    tokenizer_hash: str
    corpus: str
    corpus_hash: str
    sentences: int
    metric_set: str
    view: str
    seed: int
    dtype: str
    device: str
    copying_every: int
    version: str
    shards: tuple[Shard, ...]
    guesses: dict[str, str | int | float | bool | None] = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the plan, stored in each part."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(self._words(), indent=1, ensure_ascii=False) + "\n"

    def _words(self) -> dict[str, Any]:
        words = {name: value for name, value in asdict(self).items() if name != KEY}
        return words | guess_entry(self.guesses)

    def card(self) -> dict[str, object]:
        """Return the facts needed to repeat and to assess the numbers."""
        card: dict[str, object] = {k: v for k, v in self._words().items() if k != "shards"}
        return card | {"shards": len(self.shards), "plan_hash": self.hash}

    def items(self, shard: Shard, corpus: str | Path) -> list[tuple[int, Any]]:
        """Return the numbered sentences of a shard."""
        found = some_lines(corpus, shard.byte, shard.count, shard.line)
        return list(enumerate(found, shard.sentence))


def make_plan(
    model: Model,
    corpus: str | Path,
    *,
    view: str = "content",
    seed: int = 0,
    size: int = SHARD,
    on_progress: Callable[[int], None] | None = None,
) -> Plan:
    """Read a file once and split it into shards; every line is checked.

    Raises:
        ValueError: The file holds no sentences, or the model cannot read them.
    """
    if model.takes != "text":
        raise ValueError(
            f"The model {model.name!r} takes {model.takes}, and an atlas is made of a file of "
            "sentences; name a model that reads text."
        )
    path = text_file(corpus)
    digest, shards, count = hashlib.sha256(), list[Shard](), 0
    pairs = False
    for line in lines(path, digest):
        pairs |= isinstance(line.item, tuple)
        if count % size == 0:
            shards.append(Shard(len(shards), count, line.number, line.start, size))
        count += 1
        if on_progress is not None and count % 10_000 == 0:
            on_progress(count)
    if pairs and model.kind == "encoder-only":
        raise ValueError(
            f"{path} has two columns and the model {model.name!r} has no decoder that a target "
            "could go through; give one sentence a line."
        )
    last = shards[-1]
    shards[-1] = Shard(**(asdict(last) | {"count": count - last.sentence}))
    return Plan(
        model.name,
        model_hash(model),
        _tokenizer_hash(model),
        path.name,
        digest.hexdigest(),
        count,
        METRIC_SET,
        view,
        seed,
        model.dtype,
        model.device.partition(":")[0],
        max(1, count // COPIED),
        __version__,
        tuple(shards),
        model.guessed,
    )


def read_plan(folder: str | Path) -> Plan:
    """Return the plan of a folder.

    Raises:
        ValueError: There is none, or it is incomplete.
    """
    path = Path(folder) / PLAN
    if not path.is_file():
        raise ValueError(
            f"{str(folder)!r} holds no atlas of a corpus: it has no {PLAN}. Make one with "
            "transformer-viz atlas MODEL FILE --out DIR."
        )
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
        shards = tuple(Shard(**shard) for shard in words.pop("shards"))
        plan = Plan(**words, shards=shards)
        require_types(plan)
        return plan
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} is no plan of an atlas, or only half of one; take it away, and make the atlas "
            "again."
        ) from error


def settle_plan(plan: Plan, folder: Path) -> None:
    """Write the plan, or check that it equals the plan of the folder.

    Raises:
        ValueError: The folder holds another atlas, or other files.
    """
    if (folder / PLAN).is_file():
        there = read_plan(folder)
        if there == plan:
            return
        other = [k for k, v in asdict(plan).items() if asdict(there)[k] != v]
        raise ValueError(
            f"{str(folder)!r} holds the atlas of something else: {', '.join(other)} differ. Name "
            "a new folder with --out."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"--out {str(folder)!r} is there and holds no atlas; name a new or empty folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    whole(folder / PLAN, lambda path: path.write_text(plan.to_json(), encoding="utf-8"))


def whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file atomically: under a temporary name, then renamed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def model_hash(model: Model) -> str:
    """Return the SHA-256 of a model's weights."""
    if model.hash:
        return model.hash
    from ..inference.run_card import hash_of

    return hash_of(model)


def _tokenizer_hash(model: Model) -> str:
    """Return the SHA-256 of all pieces in their order."""
    made = hashlib.sha256()
    for piece in getattr(model.tokenizer, "pieces", ()) or ():
        made.update(piece.encode("utf-8", "surrogatepass") + b"\0")
    return made.hexdigest()
