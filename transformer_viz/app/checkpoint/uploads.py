"""Files that a visitor uploads: they lie in a folder of their own until the visit ends."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import streamlit as st

from ...checkpoints.common.bundled import NAMES_FILE
from ...checkpoints.files import upload_rooms
from ...i18n import say
from ..engine import model_names
from ..engine.engine import Engine
from ..session.keys import private

GRACE = 120.0  # seconds in which a visit that lost its connection may come back to its files
MAX_UPLOADS = 3  # uploads that one visit keeps
#: How names end of what stands beside weights.
BESIDE = (".json", ".yaml", ".yml", ".toml", ".txt", ".model", ".spm", ".vocab", ".md")


class UploadFolder:
    """A temporary folder for the uploads of one visit.

    It stays a little while after the visitor has left, since a connection may only be broken.
    """

    def __init__(self, engine: Engine) -> None:
        self.name = f"{model_names.UPLOAD}{secrets.token_hex(8)}/"
        self.open = True
        self.engine = engine
        self.folder = Path(tempfile.mkdtemp(dir=upload_rooms.folder()))
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._uploads: list[tuple[str, Path]] = []
        self._count = 0
        self.end: threading.Timer | None = None

    def put(self, files: Sequence[tuple[str, IO[bytes]]], used: str = "") -> str:
        """Place files side by side, or unpack a zip; the name under which the shelf knows them.

        Args:
            files: each file's name and its open content.
            used: the upload that the visit looks at, which stays however many come after it.

        Raises:
            ValueError: files that are refused, or more than a visit or the server takes; says why.
        """
        upload_rooms.require_space(self.folder, sum(_length(content) for _, content in files))
        from ...checkpoints.files.unpacking import place_files, unpack

        zips = [file for file, _ in files if file.lower().endswith(".zip")]
        if zips and len(files) > 1:
            raise ValueError(
                say(
                    "{file} came with other files; a zip holds all files of a model, so drop it "
                    "alone, or drop its files without it.",
                    file=zips[0],
                )
            )
        self._count += 1
        place = self.folder / str(self._count)
        name = _title(max(files, key=_weighs)[0])
        into = place / name
        try:
            if zips:
                archive = place_files([(f"{name}.zip", files[0][1])], place / "archive")
                path = unpack(archive, into)
                shutil.rmtree(place / "archive")
            else:
                path = place_files(files, into)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        known = f"{self.name}{self._count}/{path.name}"
        self.engine.shelf.put(known, path)
        self._uploads.append((known, place))
        while len(self._uploads) > MAX_UPLOADS:
            at = next(n for n, (old, _) in enumerate(self._uploads) if old != used)
            old, folder = self._uploads.pop(at)
            self._forget(old)
            shutil.rmtree(folder, ignore_errors=True)
        return known

    def write_names(self, known: str, names: Mapping[str, str | None]) -> None:
        """Write a table of names beside the weights of an upload of this visit.

        Args:
            known: the name under which `put` placed it.
            names: the file's names of weights and the layout's.

        Raises:
            ValueError: no upload of this visit, or no room for the table.
        """
        place = next((folder for name, folder in self._uploads if name == known), None)
        if place is None:
            raise ValueError(say("This upload is gone. Drop its files again."))
        text = json.dumps(names, indent=1, ensure_ascii=False) + "\n"
        upload_rooms.require_space(self.folder, len(text.encode()))
        folder = self.engine.shelf[known].folder
        if not folder.resolve().is_relative_to(place.resolve()):
            raise ValueError(say("This upload is gone. Drop its files again."))
        fresh = folder / f".{secrets.token_hex(8)}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(folder / NAMES_FILE)

    def leave(self) -> None:
        """The visitor has gone: remove the folder unless they come back soon."""
        self.end = threading.Timer(GRACE, self.close)
        self.end.daemon = True
        self.end.start()

    def stay(self) -> None:
        """The visitor is here, or has come back."""
        if self.end is not None:
            self.end.cancel()

    def close(self) -> None:
        """Remove the files, and let go of the models that were loaded from them."""
        self.open = False
        self._forget(self.name)
        self._remove()

    def _forget(self, beginning: str) -> None:
        self.engine.shelf.take(beginning)
        self.engine.models.forget(lambda name: name.startswith(beginning))


@st.cache_resource(scope="session", show_spinner=False, on_release=UploadFolder.leave)
def _attended(name: str, _folder: UploadFolder) -> UploadFolder:
    """The folder; Streamlit lets go of it when the visit ends or its line breaks."""
    _folder.stay()
    return _folder


def room(engine: Engine) -> UploadFolder:
    """The folder of this visit."""
    if private.upload_folder is None or not private.upload_folder.open:
        private.upload_folder = UploadFolder(engine)
    keep_alive()
    found: UploadFolder = private.upload_folder
    return found


def keep_alive() -> None:
    """Keep the folder of a visit that has one: its visitor is here."""
    found = private.upload_folder
    if found is not None and found.open:
        _attended(found.name, found)


def begins(name: str) -> bool:
    """Whether a file that comes later is another model: weights or a zip, but no further piece."""
    from ...checkpoints.files.reading import SUFFIXES

    name = name.lower()
    return name.endswith((*SUFFIXES, ".zip")) and not re.search(r"-of-\d+\.", name)


def _title(name: str) -> str:
    """A plain name for the folder of an upload, after the file that came."""
    return re.sub(r"[^\w.-]+", "_", Path(name).stem).strip("._")[:60] or "upload"


def _weighs(file: tuple[str, IO[bytes]]) -> tuple[bool, int]:
    """By which the file with the weights is told from those beside it."""
    name, content = file
    return not name.lower().endswith(BESIDE), _length(content)


def _length(content: IO[bytes]) -> int:
    length = content.seek(0, 2)
    content.seek(0)
    return length
