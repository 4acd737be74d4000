"""Resumable, verified download of one file of the Hub into the client's cache.

The client deletes a partial file when it is stopped, and compares lengths only, not hashes
(huggingface_hub 1.31 to 2.4: ``hf_hub_download``, ``snapshot_download`` and ``http_get`` alike).
Bytes are therefore streamed into a separate file beside the client's blobs. The complete file
becomes a blob of the client, which does all else.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ...i18n import say
from .refusals import HubError, status
from .repository import HubFile, Repository, asked
from .snapshots import storage

TRIES = 5  # attempts without new bytes
WAIT = 1.0  # seconds before the second attempt, and one more before each further one
SILENT: Any = partial(tqdm, disable=True)  # the caller draws its own bar
#: Called with the number of new bytes, negative if some are dropped; may raise, to stop.
Tell = Callable[[int], None]


def is_here(source: Repository, file: HubFile) -> bool:
    """Return True if the cache has a file, in this snapshot or as a blob of another one."""
    folder = storage(source.id.repo)
    places = (folder / "snapshots" / source.commit / file.name, folder / "blobs" / file.blob)
    return bool(file.blob) and any(place.is_file() for place in places)


def arrived(source: Repository, file: HubFile) -> int:
    """Return the present bytes of a file: all, none, or those of an earlier attempt."""
    return file.size if is_here(source, file) else min(Partial(source, file).size, file.size)


def fetch(source: Repository, file: HubFile, token: bool | None, on_progress: Tell) -> Path:
    """Return the path of a file in the snapshot of its commit; download it if needed.

    Args:
        source: The repository at one commit.
        file: File of the repository.
        token: As in :func:`.repository.look`.
        on_progress: Called with the number of new bytes, negative if some are dropped.

    Raises:
        HubError: The content twice had another hash than the Hub names.
        OSError: Disk error, or error of the client; :func:`.refusals.in_words` rewords them.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined, unused-ignore]

    if file.blob and not is_here(source, file):
        half, folder = Partial(source, file, token, on_progress), storage(source.id.repo)
        locks = folder.parent / ".locks" / folder.name
        for place in (half.path.parent, locks):
            place.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / f"{file.blob}.resumed.lock"):
            if not is_here(source, file):
                half.complete()
                os.replace(half.path, folder / "blobs" / file.blob)
    return Path(
        asked(
            lambda: hf_hub_download(
                source.id.repo, file.name, revision=source.commit, token=token, tqdm_class=SILENT
            )
        )
    )


@dataclass(frozen=True)
class Partial:
    """Partial download of a file, possibly begun by earlier attempts."""

    source: Repository
    file: HubFile
    token: bool | None = None
    on_progress: Tell = lambda count: None

    @property
    def path(self) -> Path:
        """Path of the bytes until all are there."""
        return storage(self.source.id.repo) / "blobs" / f"{self.file.blob}.resumed.incomplete"

    @property
    def size(self) -> int:
        """Number of bytes received."""
        return self.path.stat().st_size if self.file.blob and self.path.is_file() else 0

    def complete(self) -> None:
        """Complete the file; start again once if its hash differs."""
        for _ in range(2):
            self.stream()
            if self.hash() == self.file.blob:
                return
            self.on_progress(-self.size)
            self.path.unlink()
        raise HubError(
            say(
                "{file} of {model} came twice with other content than the Hub names for it; "
                "something between here and there changes files. Try another network or mirror "
                "(HF_ENDPOINT).",
                file=self.file.name,
                model=self.source.id.repo,
            )
        )

    def stream(self) -> None:
        """Append until it is as long as the Hub says, over connections that break."""
        from huggingface_hub.errors import HfHubHTTPError

        transport = HfHubHTTPError.__bases__[0]  # error class of the client's HTTP library
        self.path.touch()
        tries, most = 0, self.size
        while self.size < self.file.size:
            failure: Exception = ConnectionError("The answer ended early.")
            try:
                asked(self.append)
            except (transport, ConnectionError) as error:  # type: ignore[misc]
                if (status(error) or 500) < 500:
                    raise
                failure = error
            tries, most = (0, self.size) if self.size > most else (tries + 1, most)
            if tries >= TRIES:
                raise failure
            if self.size < self.file.size:
                self.wait(WAIT * max(tries, 1))

    def append(self) -> None:
        """Append the bytes of one response."""
        from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status
        from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
            build_hf_headers,
        )

        start, repo, name = self.size, self.source.id.repo, self.file.name
        # The bytes as they are stored: a part of a compressed response could not be resumed.
        headers = build_hf_headers(token=self.token) | {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with (
            get_session().stream(
                "GET",
                hf_hub_url(repo, name, revision=self.source.commit),
                headers=headers,
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            ) as answer,
            self.path.open("ab") as place,
        ):
            if start and answer.status_code in (200, 416):  # all of it again, or it is shorter
                self.on_progress(-start)
                place.truncate(0)
            if answer.status_code == 416:
                return
            hf_raise_for_status(answer)
            for piece in answer.iter_bytes():
                place.write(piece)
                self.on_progress(len(piece))
                if place.tell() > self.file.size:  # the hash will not fit
                    break

    def wait(self, seconds: float) -> None:
        """Wait, and call ``on_progress`` meanwhile, so that the caller can stop."""
        for _ in range(round(10 * seconds)):
            self.on_progress(0)
            time.sleep(0.1)

    def hash(self) -> str:
        """Return the name of these bytes in the cache: SHA-256, or git's SHA-1 of a blob."""
        head = b"blob %d\0" % self.size
        large = len(self.file.blob) == 64
        found = hashlib.sha256() if large else hashlib.sha1(head, usedforsecurity=False)
        with self.path.open("rb") as content:
            while piece := content.read(2**20):
                found.update(piece)
        return found.hexdigest()
