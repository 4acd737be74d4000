"""The models that a visitor can choose, as far as their files tell without torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from ..checkpoints.shelf import CONFIG, EXAMPLE, PRETRAINED, VOCABULARY, WEIGHTS
from ..records import Trace
from ..storage import load_trace
from ..text import SentencePieceText

HEADER = 10_000_000  # bytes of a safetensors header that are read at most


@dataclass(frozen=True)
class Shelved:
    """A model that can be chosen, as far as its files tell without loading it."""

    name: str
    path: Path

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS if self.path.is_dir() else self.path

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the weights file; empty when there is none to read."""
        try:
            with self.weights.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""

    @cached_property
    def parameters(self) -> int | None:
        """How many numbers the file holds, from its header alone; None if it is no safetensors."""
        try:
            with self.weights.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, HEADER)))
        except (OSError, ValueError):
            return None
        return sum(prod(item["shape"]) for name, item in header.items() if name != "__metadata__")

    @cached_property
    def example(self) -> Trace | None:
        """The stored clean run: made with these very weights, and all in it that pages show."""
        try:
            trace = load_trace(self.folder / EXAMPLE)
        except (OSError, ValueError):
            return None
        same = trace.manifest.get("hash") == self.hash
        return trace if same and _complete(trace) else None

    @cached_property
    def vocabulary(self) -> SentencePieceText | None:
        """The vocabulary beside a native model's weights; None where there is none."""
        try:
            config = json.loads((self.folder / CONFIG).read_text(encoding="utf-8"))
            return SentencePieceText(
                self.folder / VOCABULARY, bos_id=config.get("bos_id"), eos_id=config.get("eos_id")
            )
        except (OSError, ValueError, AttributeError):
            return None


def _complete(trace: Trace) -> bool:
    """Whether a stored run has what older files lack: the residual stream, norms after the gain."""
    norms = trace.norms
    return bool(trace.hiddens) and "output_mean" in norms and norms["output_mean"].notna().all()


def shelf(first: str, further: str) -> dict[str, Shelved]:
    """The models to choose from: the wanted one first, then the box, then the further folder."""
    found: dict[str, Shelved] = {}
    for folder in filter(None, (str(PRETRAINED), further)):
        for weights in sorted(Path(folder).glob(f"*/{WEIGHTS}")):
            found.setdefault(weights.parent.name, Shelved(weights.parent.name, weights.parent))
    if first not in found and first:
        path = Path(first)
        found[path.name] = Shelved(path.name, path)
    name = first if first in found else Path(first).name
    return {name: found[name]} | found if name in found else found
