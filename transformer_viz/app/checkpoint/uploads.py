"""Uploaded files: kept in a folder per session until it ends."""

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

GRACE = 120.0  # seconds in which a disconnected session may return to its files
MAX_UPLOADS = 3  # uploads kept per session
#: Suffixes of files beside the weights.
BESIDE = (".json", ".yaml", ".yml", ".toml", ".txt", ".model", ".spm", ".vocab", ".md")


class UploadFolder:
    """Temporary folder for the uploads of one session.

    It is kept for a while after the session has ended, since the connection may only be broken.
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
        """Store files side by side, or unpack a zip. Return the name in the catalog.

        Args:
            files: Name and open content of each file.
            used: Upload in use, which is kept however many follow.

        Raises:
            ValueError: Files were refused, or a limit of session or server is exceeded.
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
        """Write a table of names beside the weights of an upload of this session.

        Args:
            known: Name returned by `put`.
            names: Names in the file and in the layout.

        Raises:
            ValueError: No upload of this session, or no disk space for the table.
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
        """Schedule the removal of the folder after the session has ended."""
        self.end = threading.Timer(GRACE, self.close)
        self.end.daemon = True
        self.end.start()

    def stay(self) -> None:
        """Cancel the removal: the session is active."""
        if self.end is not None:
            self.end.cancel()

    def close(self) -> None:
        """Remove the files, and drop the models loaded from them."""
        self.open = False
        self._forget(self.name)
        self._remove()

    def _forget(self, beginning: str) -> None:
        self.engine.shelf.take(beginning)
        self.engine.models.forget(lambda name: name.startswith(beginning))


@st.cache_resource(scope="session", show_spinner=False, on_release=UploadFolder.leave)
def _attended(name: str, _folder: UploadFolder) -> UploadFolder:
    """Return the folder; Streamlit releases it when the session ends or is disconnected."""
    _folder.stay()
    return _folder


def room(engine: Engine) -> UploadFolder:
    """Return the folder of this session, created at the first call."""
    if private.upload_folder is None or not private.upload_folder.open:
        private.upload_folder = UploadFolder(engine)
    keep_alive()
    found: UploadFolder = private.upload_folder
    return found


def keep_alive() -> None:
    """Keep the folder of an active session that has one."""
    found = private.upload_folder
    if found is not None and found.open:
        _attended(found.name, found)


def begins(name: str) -> bool:
    """Return True if a later file is another model: weights or a zip, but no further shard."""
    from ...checkpoints.files.reading import SUFFIXES

    name = name.lower()
    return name.endswith((*SUFFIXES, ".zip")) and not re.search(r"-of-\d+\.", name)


def _title(name: str) -> str:
    """Return a plain folder name for an upload, from its file name."""
    return re.sub(r"[^\w.-]+", "_", Path(name).stem).strip("._")[:60] or "upload"


def _weighs(file: tuple[str, IO[bytes]]) -> tuple[bool, int]:
    """Return a sort key by which the file with the weights is the largest."""
    name, content = file
    return not name.lower().endswith(BESIDE), _length(content)


def _length(content: IO[bytes]) -> int:
    length = content.seek(0, 2)
    content.seek(0)
    return length
