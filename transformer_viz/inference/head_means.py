"""Mean head outputs, stored under the hash of their numbers, which edits refer to.

Means are known if they were measured in this process (by `tv.rank`), or if a file
``means-HASH.safetensors`` is in the folder of the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..checkpoints.common.model import Model
from ..core.sites import Site

SHOWN = 16  # hash characters used in edits
NOTE = "means"  # metadata key of the file: origin of the means


@dataclass(frozen=True, eq=False)
class HeadMeans:
    """Mean output of each head before the output projection.

    Attributes:
        values: Means by site (``cross L1``), float32 ``[head, width]``.
        model_hash: Hash of the model's weights.
        sentences_hash: Hash of the sentences.
        rows: Number of rows averaged.
    """

    values: Mapping[str, np.ndarray]
    model_hash: str
    sentences_hash: str
    rows: int

    @cached_property
    def hash(self) -> str:
        """First characters of the SHA-256 of all numbers."""
        made = hashlib.sha256(json.dumps([self.model_hash, self.sentences_hash]).encode())
        for site in sorted(self.values):
            value = np.ascontiguousarray(self.values[site], "<f4")
            made.update(f"{site} {value.shape}".encode() + value.tobytes())
        return made.hexdigest()[:SHOWN]

    def of(self, site: Site) -> np.ndarray | None:
        """Return the means of one attention, ``[head, width]``."""
        return self.values.get(str(Site(site.stack, site.block, site.layer)))

    def save(self, folder: Path) -> Path:
        """Write the means next to a model's weights, named by their hash."""
        words = {"model": self.model_hash, "sentences": self.sentences_hash, "rows": self.rows}
        path = folder / f"means-{self.hash}.safetensors"
        arrays = {site: np.ascontiguousarray(value) for site, value in self.values.items()}
        save_file(arrays, path, {NOTE: json.dumps(words)})
        return path


_known: dict[str, HeadMeans] = {}
MOST = 64  # means cached per process


def remember(means: HeadMeans) -> str:
    """Cache these means for edits of this process; return the hash."""
    _known.pop(means.hash, None)
    _known[means.hash] = means
    while len(_known) > MOST:
        _known.pop(next(iter(_known)))
    return means.hash


def find(name: str, model: Model) -> HeadMeans:
    """Return the means that an edit refers to, by the beginning of their hash.

    Raises:
        ValueError: The means are unknown, belong to another model, or the file is damaged.
    """
    found = next((means for key, means in _known.items() if _same(key, name)), None)
    if found is None and model.folder is not None:
        paths = sorted(model.folder.glob("means-*.safetensors"))
        path = next((p for p in paths if _same(p.stem.removeprefix("means-"), name)), None)
        found = None if path is None else read(path)
    if found is None:
        raise ValueError(
            f"The means {name!r} are not known here: they lie in no file beside the weights of "
            f"{model.name!r}, and were not measured since this process began. Measure them again "
            "(tv.rank on the same sentences), or take the edit out."
        )
    if model.hash and found.model_hash != model.hash:
        raise ValueError(
            f"The means {name!r} were measured on other weights than those of {model.name!r}, so "
            "they say nothing of its heads; measure them again."
        )
    return found


def _same(known: str, name: str) -> bool:
    return known.startswith(name) or name.startswith(known)


def read(path: Path) -> HeadMeans:
    """Return the means of a file.

    Raises:
        ValueError: The file is damaged, or its numbers do not match the hash in its name.
    """
    try:
        with safe_open(path, "numpy") as file:
            words = json.loads((file.metadata() or {})[NOTE])
            values = {site: file.get_tensor(site) for site in file.keys()}  # noqa: SIM118
        means = HeadMeans(values, words["model"], words["sentences"], int(words["rows"]))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path.name} holds no means of heads ({error}).") from error
    if path.stem != f"means-{means.hash}":
        raise ValueError(
            f"The numbers in {path.name} have the hash {means.hash}, so they are not those that "
            "its name says; measure them again."
        )
    return means
