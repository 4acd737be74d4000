"""Catalog of the models that users can open, read from their files without torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from ...checkpoints.common import bundled
from ...checkpoints.common.bundled import (
    CONFIG,
    EXAMPLE,
    NAMES_FILE,
    PREFERRED,
    PRETRAINED,
    WEIGHTS,
    shelved,
    vocabulary_of,
)
from ...checkpoints.vocabularies.beside import languages_of
from ...core.errors import visible
from ...core.trace import Trace
from ...i18n import say
from ...preprocessing.typed_text import TypedText
from . import hub_models, model_names
from .model_kind import Kind, of_config
from .query import Question

HEADER = 10_000_000  # bytes of a safetensors header that are read at most
REMEMBERED = 100  # users' models whose files are not read again


@dataclass(frozen=True)
class Shelved:
    """A model of the catalog, described by its files without loading it.

    Attributes:
        overrides: Entries of its config that a user changed.
    """

    name: str
    path: Path
    overrides: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_own(self) -> bool:
        """True if a user supplied the model or its overrides; its files are then untrusted."""
        return model_names.is_own(self.name) or bool(self.overrides)

    @property
    def in_the_box(self) -> bool:
        """True if its files are bundled with this package."""
        return self.path.resolve().is_relative_to(bundled.PRETRAINED.resolve())

    @property
    def called(self) -> str:
        """Display name, with the overrides."""
        name = model_names.parted(self.name)[0]
        if name.startswith(model_names.HUB):
            name = name.removeprefix(model_names.HUB)
        elif model_names.is_own(name):
            name = self.path.parent.name if self.path.name == WEIGHTS else self.path.name
        words = ", ".join(f"{word}={value}" for word, value in self.overrides.items())
        return visible(f"{name} ({words})" if words else name)

    @property
    def label(self) -> str:
        """Display name and size, if the size is quickly known."""
        size = self.parameters
        return self.called if size is None else f"{self.called} · {size / 1e6:.1f} M"

    @property
    def written(self) -> tuple[object, ...]:
        """Path, times and sizes of its files; a change means another model."""
        weights = self.weights if self.weights.exists() else self.path
        beside = (self.folder / name for name in (CONFIG, NAMES_FILE))
        files = [path.stat() for path in (weights, *beside) if path.exists()]
        return self.path, *((file.st_mtime_ns, file.st_size) for file in files)

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS if self.path.is_dir() else self.path

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Languages of source and target as HTML codes (``en``); empty if unknown."""
        found = (*languages_of(self.folder, self.config), "", "")[:2]
        codes = [re.split("[-_]", code.lower())[0] for code in found]
        known = [code if re.fullmatch("[a-z]{2,3}", code) else "" for code in codes]
        return known[0], known[1]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the weights file; empty if it cannot be read."""
        try:
            with self.weights.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""

    @cached_property
    def parameters(self) -> int | None:
        """Number of parameters from the file's header; None if it is no safetensors file."""
        if self.weights.suffix != ".safetensors":
            return None
        try:
            with self.weights.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, HEADER)))
            header.pop("__metadata__", None)
            return sum(prod(item["shape"]) for item in header.values())
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    @cached_property
    def example(self) -> Trace | None:
        """Stored clean run, if made with these weights and complete enough for the pages."""
        if self.is_own:
            return None
        try:
            trace = Trace.load(self.folder / EXAMPLE)
        except (OSError, ValueError):
            return None
        same = trace.manifest.get("hash") == self.hash
        return trace if same and _complete(trace) else None

    @cached_property
    def vocabulary(self) -> TypedText | None:
        """Vocabulary beside the weights of a bundled native model, or None.

        Other vocabularies are read in a separate process when the model is opened.
        """
        if self.is_own or not self.in_the_box:
            return None
        config = self.config
        try:
            return TypedText(
                vocabulary_of(self.folder), bos_id=config.get("bos_id"), eos_id=config.get("eos_id")
            )
        except (OSError, ValueError):
            return None

    @cached_property
    def config(self) -> dict[str, Any]:
        """Entries of config.json; empty if there is no such file."""
        try:
            config = json.loads((self.folder / CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}

    @cached_property
    def kind(self) -> Kind | None:
        """Inputs and outputs if its files determine them; else None, and it has to be loaded."""
        if self.is_own:
            return None
        return of_config(self.config, vocabulary_of(self.folder).is_file())

    @cached_property
    def pictures(self) -> dict[str, Path]:
        """Example pictures beside the weights by name, in the order of the config."""
        named = [] if self.is_own else self.config.get("examples") or []
        names = [name for name in named if isinstance(name, str) and Path(name).name == name]
        paths = [self.folder / "examples" / name for name in names]
        return {path.stem: path for path in paths if path.is_file()}

    @cached_property
    def asked(self) -> Question | None:
        """Question that the stored run answers."""
        trace, kind = self.example, self.kind
        if trace is None or kind is None:
            return None
        if kind.takes == "image":
            name = next(iter(self.pictures), None)
            return None if name is None else Question(self.name, picture=name)
        if kind.takes != "text" or not kind.spelled or trace.produced is None:
            return None
        source = trace.source
        if not kind.fills:
            return Question(self.name, joined(source.pieces, source.special))
        masked = [place for place, token in enumerate(source.ids) if token == kind.mask_id]
        text = joined(trace.produced.pieces, source.special)
        return Question(self.name, text, masked=tuple(masked))


def joined(pieces: Sequence[str], special: Sequence[bool]) -> str:
    """Return pieces of a sentencepiece vocabulary as text, without its library."""
    kept = (piece for piece, mark in zip(pieces, special, strict=True) if not mark)
    return "".join(kept).replace("▁", " ").strip()


def _complete(trace: Trace) -> bool:
    """Return True if a stored run has data that older files lack: hiddens, norms after the gain."""
    norms = trace.norms
    return bool(trace.hiddens) and "output_mean" in norms and norms["output_mean"].notna().all()


class Shelf(Mapping[str, Shelved]):
    """Catalog of models. Iteration yields the listed ones; look-up also finds users' models.

    The name of a listed model or of a user's may carry overrides. Uploads are found under the
    name of `put` until `take` removes them.
    """

    def __init__(self, first: str, further: str = "") -> None:
        self._box = box(first, further)
        self._uploads: dict[str, Path] = {}
        self._seen: dict[str, tuple[Shelved, tuple[object, ...]]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._box)

    def __len__(self) -> int:
        return len(self._box)

    def __getitem__(self, name: str) -> Shelved:
        """Return the model of a name, the same object as long as its files do not change.

        Raises:
            KeyError: There is no such model; the message gives the reason and a remedy.
        """
        if name in self._box:
            return self._box[name]
        try:
            place, words = model_names.parted(name)
            found = Shelved(name, self._path(place), words)
            written = found.written
        except (ValueError, OSError) as error:
            raise model_names.NotHere(str(error)) from error
        if len(self._seen) > REMEMBERED:
            self._seen.clear()
        if self._seen.get(name, (None, None))[1] != written:
            self._seen[name] = found, written
        return self._seen[name][0]

    def _path(self, place: str) -> Path:
        if place in self._box:
            return self._box[place].path
        if place in self._uploads:
            return self._uploads[place]
        beside = shelved(place)  # the labs' tiny models and snapshots are not listed
        if beside is not None:
            return beside
        if place.startswith(model_names.PATH):
            return model_names.find_below(place.removeprefix(model_names.PATH))
        if place.startswith(model_names.HUB):
            return hub_models.folder(place)
        if place.startswith(model_names.UPLOAD):
            raise ValueError(
                say(
                    "{name} was uploaded in another tab or in a visit that has ended, and only the "
                    "tab that brought it can open it; upload it here on the page Checkpoint.",
                    name=place.rpartition("/")[2].removeprefix(model_names.UPLOAD),
                )
            )
        raise ValueError(
            say(
                "There is no model {name} here; there is {known}.",
                name=repr(place),
                known=", ".join(self._box),
            )
        )

    def put(self, place: str, path: Path) -> None:
        """Register an uploaded model under its name."""
        self._uploads[place] = path

    def take(self, room: str) -> None:
        """Remove the uploads of a folder whose files are gone."""
        self._uploads = {
            place: path for place, path in self._uploads.items() if not place.startswith(room)
        }
        self._seen = {name: seen for name, seen in self._seen.items() if not name.startswith(room)}


def box(first: str, further: str) -> dict[str, Shelved]:
    """Return the listed models: the requested one first, bundled ones, then the further folder's.

    The further folder is searched for subfolders with a native or a library model.
    """
    found = {name: Shelved(name, PRETRAINED / name) for name in bundled.available()}
    if further:
        offered = {path.parent for name in PREFERRED for path in Path(further).glob(f"*/{name}")}
        for folder in sorted(offered):
            if not folder.name.startswith("."):
                name = visible(folder.name)  # file names may have bytes that are no UTF-8
                found.setdefault(name, Shelved(name, folder))
    if first not in found and first:
        path, name = Path(first), visible(Path(first).name)
        found[name] = Shelved(name, path)
    name = first if first in found else visible(Path(first).name)
    return {name: found[name]} | found if name in found else found
