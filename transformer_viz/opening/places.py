"""Start of the processes that open files, and their working folders.

Nothing here imports torch, since the fork server imports torch while the server does.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints.common.bundled import PRETRAINED
from ..checkpoints.files.upload_rooms import FREE, clear, folder
from ..confinement.disk import remove_tree
from ..confinement.limits import ENFORCED, Limits
from ..confinement.processes import ANSWER, Child, Nursery, StoppedError
from ..i18n import say
from ..settings import APART

if TYPE_CHECKING:
    from ..checkpoints.common.candidate import Candidate

MEGA = 1_000_000
LEAST_DISK = 16 * MEGA  # bytes, even on a nearly full disk
PREFIX = "opening-"
ROOM = "transformer_viz.opening"
PREPARE, LATER = f"{ROOM}.rehearsal:prepare", f"{ROOM}.rehearsal:prepare_library"
REHEARSAL, TOKENIZERS = f"{ROOM}.rehearsal:rehearse", f"{ROOM}.tokenizer_job:serve"
TRACES = f"{ROOM}.trace_job:report"
NURSERY = Nursery(PREPARE, LATER, REHEARSAL, TOKENIZERS, TRACES)


def begin(
    job: str, seconds: int, memory: int, readable: Sequence[str], disk: int | None = None
) -> tuple[Child, Path]:
    """Start a process with a job, and create its folder below that of this server's uploads.

    Its files may take ``disk`` bytes (default: as many as its memory), but part of the disk always
    stays free.

    Raises:
        OSError: There is no folder for temporary files, or no process. The message names the
            remedy.
    """
    own = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder()))
    _clear_at_the_end()
    try:
        left = shutil.disk_usage(own).free - FREE
        most = max(LEAST_DISK, min(memory if disk is None else disk, left))
        return Child(NURSERY, job, Limits(seconds, memory, str(own), tuple(readable), most)), own
    except OSError as error:
        remove_tree(own)
        raise OSError(
            say(
                "This server cannot begin the process in which files are opened ({reason}). "
                "Whoever runs it finds the cause in its log; try again later.",
                reason=str(error).rstrip(". "),
            )
        ) from error


def enforced() -> tuple[str, ...]:
    """Return the limits enforced on processes that open files, by starting one.

    Raises:
        OSError: No process can be started.
    """
    child, own = begin(TOKENIZERS, 10, 100 * MEGA, ())
    try:
        with suppress(StoppedError):
            child.ask({}, ANSWER)  # an invalid request; the first reply lists the limits
        return child.enforced
    finally:
        child.close()
        remove_tree(own)


def describe_enforced() -> str:
    """Return a sentence about the limits enforced on processes that open files."""
    if not APART.on:
        return f"{APART.variable} is off: files of visitors are opened in the server itself."
    try:
        found = enforced()
    except OSError as error:
        return str(error)
    lacking = [word for word in ENFORCED if word not in found]
    said = f"Processes that open files are held to: {', '.join(found) or 'nothing'}."
    return f"{said} Not on this machine: {', '.join(lacking)}." if lacking else said


@cache
def _clear_at_the_end() -> None:
    """Remove the folder at exit, for programs that are no server."""
    atexit.register(clear)


def readable(found: Candidate, *vocabularies: Path) -> tuple[str, ...]:
    """Return the paths that have to be readable to open a checkpoint.

    These are its folder, that of its adapter, targets of links in them, nanoGPT's characters next
    to it, and named vocabularies.
    """
    named = [place for path in vocabularies for place in (path.parent, path.resolve().parent)]
    folders = [path for path in vocabularies if path.is_dir()]
    places = (*_places(found), *named, *folders)
    return tuple(dict.fromkeys(str(place) for place in places))


def _places(found: Candidate) -> Iterator[Path]:
    yield PRETRAINED
    for path in filter(None, (found.path, found.adapter)):
        parent = path.resolve().parent
        yield parent
        yield path.parent
        yield from (file.resolve() for file in path.parent.iterdir() if file.is_symlink())
        for form in ("*/meta.pkl", "data/*/meta.pkl"):
            yield from path.parent.parent.glob(form)
