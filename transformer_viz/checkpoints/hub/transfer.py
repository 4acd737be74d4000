"""One file of the Hub into its cache, resumed where an earlier attempt ended, and checked.

The client throws away half a file when it is stopped; a large one would begin anew each time. So
bytes are kept here under a name of their own beside the client's blobs, gone on with by ``Range``,
compared with the hash that the Hub tells, and only then given to the client as its blob.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...i18n import say
from .refusals import HubError
from .repository import HubFile, Repository, asked

TRIES = 5  # attempts that bring nothing new
WAIT = 1.0  # seconds before the second attempt, and one more before each further one
UNFIT_RANGE = 416
#: Told how many bytes more there are; may raise, to stop.
Tell = Callable[[int], None]


def storage(repo: str) -> Path:
    """The folder of a model in the client's cache, whether it is there or not."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def partial(repo: str, file: HubFile) -> Path:
    """Where the bytes of a file lie until all are there."""
    return storage(repo) / "blobs" / f"{file.blob}.resumed.incomplete"


def arrived(source: Repository, file: HubFile) -> int:
    """Bytes of a file that are here already: all, none, or those of an earlier attempt."""
    folder = storage(source.id.repo)
    for place in (folder / "snapshots" / source.commit / file.name, folder / "blobs" / file.blob):
        if file.blob and place.is_file():
            return file.size
    half = partial(source.id.repo, file)
    return min(half.stat().st_size, file.size) if file.blob and half.is_file() else 0


def fetch(source: Repository, file: HubFile, token: bool | None, on_progress: Tell) -> Path:
    """The file in the snapshot of its commit, fetched if need be.

    Args:
        source: the repository at one commit.
        file: one of its files.
        token: as of :func:`.repository.look`.
        on_progress: called with the bytes that come, negative where some were not this file's.

    Raises:
        HubError: bytes that are twice not those that the Hub names.
        OSError: of the disk, or the client's own errors; :func:`.refusals.in_words` says them.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined, unused-ignore]

    folder = storage(source.id.repo)
    placed = folder / "snapshots" / source.commit / file.name
    blob = folder / "blobs" / file.blob
    if file.blob and not placed.is_file() and not blob.is_file():
        blob.parent.mkdir(parents=True, exist_ok=True)
        locks = folder.parent / ".locks" / folder.name
        locks.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / f"{file.blob}.resumed.lock"):
            if not blob.is_file():
                _complete(source, file, token, on_progress)
                os.replace(partial(source.id.repo, file), blob)
    path = asked(
        lambda: hf_hub_download(
            source.id.repo, file.name, revision=source.commit, token=token, tqdm_class=_silent()
        )
    )
    return Path(path)


def _complete(source: Repository, file: HubFile, token: bool | None, on_progress: Tell) -> None:
    """Bring the partial file to its end; if it is not what the Hub names, begin anew once."""
    half = partial(source.id.repo, file)
    for last in (False, True):
        _stream(source, file, token, on_progress)
        if _hash(half, file) == file.blob:
            return
        on_progress(-half.stat().st_size)
        half.unlink()
        if last:
            raise HubError(
                say(
                    "{file} of {model} came twice with other content than the Hub names for it; "
                    "something between here and there changes files. Try another network or "
                    "mirror (HF_ENDPOINT).",
                    file=file.name,
                    model=source.id.repo,
                )
            )


def _stream(source: Repository, file: HubFile, token: bool | None, on_progress: Tell) -> None:
    """Append to the partial file until it is as long as it must be."""
    from huggingface_hub.errors import HfHubHTTPError

    transport = HfHubHTTPError.__bases__[0]  # what the client's library for HTTP raises
    half, tries = partial(source.id.repo, file), 0
    half.touch()
    most = half.stat().st_size
    while (before := half.stat().st_size) < file.size:
        tries += 1
        try:
            asked(lambda: _append(source, file, half, token, on_progress))
            if half.stat().st_size < file.size:
                raise ConnectionError("The answer ended early.")
        except HfHubHTTPError as error:
            if error.response.status_code == UNFIT_RANGE and before:
                on_progress(-before)
                half.write_bytes(b"")
            elif error.response.status_code < 500 or tries >= TRIES:
                raise
        except (transport, ConnectionError):  # type: ignore[misc]  # its base is known at run time
            if half.stat().st_size > most:
                tries, most = 0, half.stat().st_size
            elif tries >= TRIES:
                raise
        if half.stat().st_size < file.size:
            _pause(WAIT * max(tries, 1), on_progress)
    if half.stat().st_size > file.size:  # longer than named: the hash will not fit either
        os.truncate(half, file.size)


def _append(
    source: Repository, file: HubFile, half: Path, token: bool | None, on_progress: Tell
) -> None:
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    url = hf_hub_url(source.id.repo, file.name, revision=source.commit)
    # the bytes as they lie there: a part of a compressed answer could not be gone on with
    headers = build_hf_headers(token=token) | {"Accept-Encoding": "identity"}
    start = half.stat().st_size
    if start:
        headers["Range"] = f"bytes={start}-"
    wait = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with (
        get_session().stream("GET", url, headers=headers, timeout=wait) as answer,
        half.open("ab") as place,
    ):
        hf_raise_for_status(answer)
        if start and answer.status_code != 206:  # it sends all of it again
            on_progress(-start)
            place.truncate(0)
        for piece in answer.iter_bytes():
            place.write(piece)
            on_progress(len(piece))
            if place.tell() > file.size:
                break


def _pause(seconds: float, on_progress: Tell) -> None:
    """Wait, and look now and again whether anybody still waits for us."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        on_progress(0)
        time.sleep(0.1)


def _hash(path: Path, file: HubFile) -> str:
    """The name that a file's bytes have in the cache: SHA-256, or what git calls a blob."""
    with path.open("rb") as content:
        if file.large:
            return hashlib.file_digest(content, "sha256").hexdigest()
        found = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
        while piece := content.read(2**20):
            found.update(piece)
        return found.hexdigest()


def _silent() -> Any:
    """A progress bar of the client that shows nothing: we tell it ourselves."""
    from huggingface_hub.utils.tqdm import tqdm

    class Silent(tqdm):  # type: ignore[misc, unused-ignore]
        def __init__(self, *args: Any, **words: Any) -> None:
            super().__init__(*args, **(words | {"disable": True}))  # type: ignore[no-untyped-call]

    return Silent
