"""A checkpoint on disk, as passed from layout to layout: path, config, weights."""

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

MOST_FIELDS = 6  # number of nested fields that are searched


@dataclass(frozen=True, eq=False)
class Candidate:
    """Checkpoint on disk: its weights file, its config, and its weights (read on first access).

    Attributes:
        path: Weights file, or the index of a checkpoint in several parts.
        config: Options of ``config.json``; empty without such a file beside the weights.
        allow_nonfinite: Accept weights that are NaN or infinite.
        averaged: Read the running average of the weights if the file holds one.
        adapter: File of an adapter to merge into the model.
        names: Mapping from the file's names of weights to a layout's.
        remarks: Sentences that become notes of the model.
    """

    path: Path
    config: dict[str, Any]
    allow_nonfinite: bool = False
    averaged: bool = False
    adapter: Path | None = None
    names: Names | None = None
    remarks: list[str] = field(default_factory=list)

    def remark(self, sentence: str) -> None:
        """Add a note, unless it is there already."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    @property
    def folder(self) -> Path:
        """Folder of the weights file and of the files that belong to it."""
        return self.path.parent

    @cached_property
    def weights(self) -> Weights:
        """Tensors of the file, read and checked on first access."""
        librarys = isinstance(self.config.get("model_type"), str)  # a Hugging Face config
        weights = read_weights(self.path, self.averaged, other_networks=librarys)
        _ = self._digest  # start the thread now, beside the work on the weights
        for note in weights.notes:
            self.remark(note)
        weights = replace(weights, allow_nonfinite=self.allow_nonfinite)
        return weights if self.names is None else self.names.rename(weights)

    @property
    def renamed(self) -> bool:
        """True if names of weights were mapped; the code base of the file is then unknown."""
        return self.names is not None and bool(self.weights.names)

    @cached_property
    def beside(self) -> dict[str, Any]:
        """Training options beside the weights by file name, ``config.json`` included.

        A file that cannot be read is left out with a remark.
        """
        files, notes = options_beside(self.path)
        for note in notes:
            self.remark(note)
        return {"config.json": self.config, **files}

    def in_a_field(self) -> Iterator[Candidate]:
        """Yield the checkpoint as a field of a larger module, also nested fields; see `bared`."""
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
        """Adapter, read and checked on first access; None without one."""
        return None if self.adapter is None else read_adapter(self.adapter, self.allow_nonfinite)

    @cached_property
    def _digest(self) -> Future[str]:
        """SHA-256 digest of the weights file, computed in a thread."""
        pool = ThreadPoolExecutor(1)
        try:
            return pool.submit(digest, self.path)
        finally:
            pool.shutdown(wait=False)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the weights file; with an adapter, the hash of both digests."""
        own = self._digest.result()
        if self.adapter is None:
            return own
        return sha256(bytes.fromhex(own + digest(self.adapter))).hexdigest()
