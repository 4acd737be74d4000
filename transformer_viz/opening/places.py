"""Where processes that open files come from, and the folders they work in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..checkpoints.common.bundled import PRETRAINED
from ..checkpoints.common.candidate import Candidate
from ..checkpoints.files.upload_rooms import folder
from ..confinement.processes import Nursery

MEGA = 1_000_000
PREFIX = "opening-"
ROOM = "transformer_viz.opening"
PREPARE, LATER = f"{ROOM}.rehearsal:prepare", f"{ROOM}.rehearsal:prepare_library"
REHEARSAL, TOKENIZERS = f"{ROOM}.rehearsal:rehearse", f"{ROOM}.tokenizer_job:serve"
NURSERY = Nursery(PREPARE, LATER, REHEARSAL, TOKENIZERS)


def work_folder() -> Path:
    """A new folder of one process, below that of this server's uploads.

    Raises:
        OSError: there is no folder for temporary files; says what to do.
    """
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder()))


def readable(found: Candidate) -> tuple[str, ...]:
    """What has to be read to open a checkpoint: its folder, that of its adapter, where links in
    them lead, and nanoGPT's characters, which stand beside it."""
    return tuple(dict.fromkeys(str(place) for place in _places(found)))


def _places(found: Candidate) -> Iterator[Path]:
    yield PRETRAINED
    for path in filter(None, (found.path, found.adapter)):
        parent = path.resolve().parent
        yield parent
        yield path.parent
        yield from (file.resolve() for file in path.parent.iterdir() if file.is_symlink())
        for form in ("*/meta.pkl", "data/*/meta.pkl"):
            yield from path.parent.parent.glob(form)
