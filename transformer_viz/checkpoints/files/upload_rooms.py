"""Folders for uploads on disk: all below one folder of this server, removed when it ends.

A killed server leaves its folder; the next server that starts removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ... import settings
from ...confinement.disk import remove_tree
from ...i18n import say

PREFIX = "transformer-viz-uploads-"
MEGA = 1_000_000
FREE = 200 * MEGA  # bytes that stay free on the disk


@cache
def folder() -> Path:
    """Return the upload folder of this process; create it on first use.

    Raises:
        OSError: There is no folder for temporary files; states what to do.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    except OSError as error:
        raise OSError(
            say(
                "This server has no folder for files that visitors bring ({reason}). Whoever runs "
                "it can name one by the variable TMPDIR.",
                reason=error.strerror or str(error),
            )
        ) from error


def sweep() -> None:
    """Remove the folders of servers that have ended: those of this user without a running process.

    Does nothing on Windows, where querying a process can harm it.
    """
    if os.name == "nt":
        return
    try:
        places = list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    except OSError:  # no folder for temporary files, so nothing to remove
        return
    for place in places:
        found = re.fullmatch(rf"{PREFIX}(\d+)-\w+", place.name)
        if found is None or place.is_symlink() or place.stat().st_uid != os.getuid():
            continue
        if not _runs(int(found[1])) and not (folder.cache_info().currsize and place == folder()):
            remove_tree(place)


def clear() -> None:
    """Remove the folder of this process at shutdown."""
    if folder.cache_info().currsize:
        remove_tree(folder())
        folder.cache_clear()


def require_space(room: Path, more: int) -> None:
    """Refuse an upload that exceeds a limit of the visit, the server or the disk.

    Args:
        room: Folder of the visit.
        more: Bytes of the upload.

    Raises:
        ValueError: A limit is exceeded; states how much is left.
    """
    limits = (
        (
            settings.VISIT_MB.number * MEGA - _held(room),
            say("One visit may keep {most} MB of uploads here", most=settings.VISIT_MB.text),
        ),
        (
            settings.UPLOADS_MB.number * MEGA - _held(room.parent),
            say("All visits may keep {most} MB of uploads here", most=settings.UPLOADS_MB.text),
        ),
        (shutil.disk_usage(room).free - FREE, say("The disk of this server is nearly full")),
    )
    for left, words in limits:
        if more > left:
            raise ValueError(
                say(
                    "{limit}; {left} MB are left and these files have {size} MB. Bring fewer, or "
                    "open the app on your own machine.",
                    limit=words,
                    left=max(0, left) // MEGA,
                    size=-(-more // MEGA),
                )
            )


def _held(place: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _runs(process: int) -> bool:
    """Return True if another process with this id is alive."""
    if process == os.getpid():  # in a container each server may have the same number
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
