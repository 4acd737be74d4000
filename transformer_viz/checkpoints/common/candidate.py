"""What stands on disk, as it is handed from layout to layout: a place, a config, weights."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..files.adapters import Adapter, read_adapter
from ..files.beside import options_beside
from ..files.reading import Weights, digest, read_weights
from ..files.unwrapping import bared
from .names import Names

MOST_FIELDS = 6  # fields in fields that are looked into


@dataclass(frozen=True, eq=False)
class Candidate:
    """A checkpoint on disk: its weights file, the words of ``config.json``, the weights when asked.

    ``path`` is the weights file, or the index of a checkpoint in several parts; ``config`` is
    empty where there is no ``config.json`` beside it; ``averaged`` asks for the running average of
    the weights, where the file holds one; ``adapter`` is the file of an adapter to be merged into
    the model; ``names`` maps the file's names of weights to a layout's; ``remarks`` become
    notes of the model.
    """

    path: Path
    config: dict[str, Any]
    allow_nonfinite: bool = False
    averaged: bool = False
    adapter: Path | None = None
    names: Names | None = None
    remarks: list[str] = field(default_factory=list)

    def remark(self, sentence: str) -> None:
        """Add a note, once."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    @property
    def folder(self) -> Path:
        """The folder of the weights file, where what belongs to it stands."""
        return self.path.parent

    @cached_property
    def weights(self) -> Weights:
        """The tensors of the file, read and checked when first asked for."""
        librarys = isinstance(self.config.get("model_type"), str)  # Hugging Face's, which knows
        weights = read_weights(self.path, self.averaged, other_networks=librarys)
        _ = self._digest  # begins beside what is done with the weights
        for note in weights.notes:
            self.remark(note)
        weights = replace(weights, allow_nonfinite=self.allow_nonfinite)
        return weights if self.names is None else self.names.rename(weights)

    @property
    def renamed(self) -> bool:
        """Whether names of weights were mapped: then nothing says whose code wrote the file."""
        return self.names is not None and bool(self.weights.names)

    @cached_property
    def beside(self) -> dict[str, Any]:
        """The options of the training beside the weights, by name of the file, ``config.json`` too.

        A file that cannot be read is left out with a remark.
        """
        files, notes = options_beside(self.path)
        for note in notes:
            self.remark(note)
        return {"config.json": self.config, **files}

    def in_a_field(self) -> Iterator[Candidate]:
        """The same as it is in a field of a larger module, or in a field of that: see `bared`."""
        waiting = [(self.weights.tensors, self.weights.unwrapped)]
        for _ in range(MOST_FIELDS):
            if not waiting:
                return
            tensors, unwrapped = waiting.pop(0)
            for inner, taken in bared(tensors):
                other = replace(self)
                notes = (*unwrapped, *taken)
                other.__dict__["weights"] = replace(self.weights, tensors=inner, unwrapped=notes)
                waiting.append((inner, notes))
                yield other

    @cached_property
    def change(self) -> Adapter | None:
        """What the adapter holds, read and checked when first asked for; None without one."""
        return None if self.adapter is None else read_adapter(self.adapter, self.allow_nonfinite)

    @cached_property
    def _digest(self) -> Future[str]:
        """The digest of the weights file, computed by a thread."""
        pool = ThreadPoolExecutor(1)
        try:
            return pool.submit(digest, self.path)
        finally:
            pool.shutdown(wait=False)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the weights file; with an adapter, that of both files' digests."""
        own = self._digest.result()
        if self.adapter is None:
            return own
        return sha256(bytes.fromhex(own + digest(self.adapter))).hexdigest()
