"""Where uploads lie on the disk: below one folder of this server, which goes when it ends.

A server that was killed leaves its folder; the next one that starts finds and removes it.
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
    """The folder of this process, made when it is first needed.

    Raises:
        OSError: there is no folder for temporary files; says what to do.
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
    """Remove the folders of servers that have ended: those of this user whose process is gone.

    Not on Windows, where no question to a process is without danger for it.
    """
    if os.name == "nt":
        return
    try:
        places = list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    except OSError:  # there is no folder for temporary files, so nothing lies in it
        return
    for place in places:
        found = re.fullmatch(rf"{PREFIX}(\d+)-\w+", place.name)
        if found is None or place.is_symlink() or place.stat().st_uid != os.getuid():
            continue
        if not _runs(int(found[1])) and not (folder.cache_info().currsize and place == folder()):
            remove_tree(place)


def clear() -> None:
    """Remove the folder of this process: the server ends."""
    if folder.cache_info().currsize:
        remove_tree(folder())
        folder.cache_clear()


def require_space(room: Path, more: int) -> None:
    """Refuse an upload for which there is no place.

    Args:
        room: the folder of the visit.
        more: bytes that come.

    Raises:
        ValueError: the visit, the server or the disk would hold too much; says how much is left.
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
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _runs(process: int) -> bool:
    """Whether another process of this number is alive."""
    if process == os.getpid():  # in a container each server may have the same number
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
