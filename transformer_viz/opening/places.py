"""Where processes that open files come from, and the folders they work in.

Nothing here imports torch: the process that begins the others does so while the server does.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints.common.bundled import PRETRAINED
from ..checkpoints.files.upload_rooms import clear, folder
from ..confinement.limits import Limits
from ..confinement.processes import Child, Nursery
from ..i18n import say

if TYPE_CHECKING:
    from ..checkpoints.common.candidate import Candidate

MEGA = 1_000_000
PREFIX = "opening-"
ROOM = "transformer_viz.opening"
PREPARE, LATER = f"{ROOM}.rehearsal:prepare", f"{ROOM}.rehearsal:prepare_library"
REHEARSAL, TOKENIZERS = f"{ROOM}.rehearsal:rehearse", f"{ROOM}.tokenizer_job:serve"
TRACES = f"{ROOM}.trace_job:report"
NURSERY = Nursery(PREPARE, LATER, REHEARSAL, TOKENIZERS, TRACES)


def begin(job: str, seconds: int, memory: int, readable: Sequence[str]) -> tuple[Child, Path]:
    """Begin a process with a job, and a folder of its own below that of this server's uploads.

    Raises:
        OSError: there is no folder for temporary files, or no process; says what to do.
    """
    own = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder()))
    _clear_at_the_end()
    try:
        return Child(NURSERY, job, Limits(seconds, memory, str(own), tuple(readable))), own
    except OSError as error:
        shutil.rmtree(own, ignore_errors=True)
        raise OSError(
            say(
                "This server cannot begin the process in which files are opened ({reason}). "
                "Whoever runs it finds the cause in its log; try again later.",
                reason=str(error).rstrip(". "),
            )
        ) from error


@cache
def _clear_at_the_end() -> None:
    """A program that is no server removes its folder too."""
    atexit.register(clear)


def readable(found: Candidate, *vocabularies: Path) -> tuple[str, ...]:
    """What has to be read to open a checkpoint: its folder, that of its adapter, where links in
    them lead, nanoGPT's characters, which stand beside it, and vocabularies that were named."""
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
