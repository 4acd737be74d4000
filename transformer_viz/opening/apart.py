"""Loader of untrusted checkpoints: a confined process opens them first.

The process reads the file, builds the model, creates its tokenizer and runs a sample. Time, memory
and all else that the platform can restrict are limited. The process returns safetensors and JSON,
checked like any untrusted file, from which our own code builds the model here. The tokenizer stays
in another process.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import settings
from ..checkpoints.common.candidate import Candidate
from ..checkpoints.common.memory import require_memory
from ..checkpoints.common.model import Model
from ..checkpoints.files.errors import CheckpointError, CheckpointMissing
from ..checkpoints.files.reading import MAX_TENSORS, file_size
from ..checkpoints.given_vocabularies import given_vocabularies, vocabulary_path
from ..checkpoints.loader import choose_device, discover, open_as
from ..checkpoints.naming.name_proposals import TARGETS, NameProposal
from ..confinement.disk import MOST_FILES, remove_tree
from ..confinement.limits import Limits
from ..confinement.processes import StoppedError, ending
from ..i18n import say, spoken_language
from ..preprocessing.elsewhere import made_by
from .handover import taken
from .places import MEGA, REHEARSAL, TRACES, begin, readable
from .trace_job import PAGE
from .workshop import Workshop

PACE = 20 * MEGA  # bytes of weights per additional second
PATIENCE = 2  # wall-clock seconds per CPU second: the machine may be busy
MOST_PAGE = 100 * MEGA  # maximum bytes of a report
LONGEST = 2_000  # maximum characters of an error
LONG_NUMBER = re.compile(r"\d{5}")  # no model has this many layers
LONGEST_WORD = 100  # maximum characters of a name with its value
TIMES = 5  # memory in sizes of the weights: as read, written, built, in float32


def open_apart(
    thing: str | os.PathLike[str],
    device: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    target_tokenizer: str | os.PathLike[str] | None = None,
    **overrides: Any,
) -> Model:
    """Open a checkpoint like `load`, with all unsafe steps in another process.

    Vocabularies are paths, and are read in that process too.

    Raises:
        CheckpointMissing: Nothing has this name.
        CheckpointError: As in `load`; or the process took too long, used too much memory, or
            crashed.
        OSError: No process can be started.
    """
    place = choose_device(device)
    found, words = discover(thing, overrides)
    require_memory(found.path, words.get("dtype"))
    if found.names is not None and found.names.origin == "override":
        overrides = overrides | {"names": dict(found.names.table)}  # it may be a path
    given = {"tokenizer": tokenizer, "target_tokenizer": target_tokenizer}
    paths = {
        word: vocabulary_path(path, found.folder, word).absolute()
        for word, path in given.items()
        if path is not None
    }
    known = readable(found, *paths.values())
    request = {
        "thing": str(thing),
        "overrides": _plain(overrides),
        "vocabularies": _plain(paths),
    }
    with _asked(request, found.path.name, _size(found), known) as (answer, folder):
        layout, plain = taken(found, answer, folder)
        with made_by(Workshop(known)):
            vocabularies = given_vocabularies(paths.get("tokenizer"), paths.get("target_tokenizer"))
            return open_as(layout, plain, words, vocabularies, device=place)


def propose_apart(thing: str | os.PathLike[str], layout: str | None = None) -> NameProposal:
    """Propose names like `propose_names`, with the file read in another process.

    The ``assumed`` values of the proposal are those of `assumed_words`.

    Raises:
        CheckpointMissing: Nothing has this name.
        CheckpointError: As in `propose_names`; or the process took too long, used too much memory,
            or crashed.
        OSError: No process can be started.
    """
    found, _ = discover(thing, {"names": {}})
    request = {"thing": str(thing), "propose": layout}
    with _asked(request, found.path.name, _size(found), readable(found)) as (answer, _):
        try:
            proposal = NameProposal.from_dict(answer["proposal"])
            _check_proposal(proposal)
            return replace(proposal, assumed=_plain_words(answer["assumed"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"What was read of {found.path.name} is incomplete; open it again."
            ) from error


def _check_proposal(proposal: NameProposal) -> None:
    """Raise if a proposal of another process is unusable.

    Raises:
        ValueError: An unknown layout, too many names, or too large layer numbers.
    """
    named = [name for row in proposal.rows if (name := row.proposed)]
    every = [proposal.layout, *proposal.missing, *named]
    if proposal.layout not in {one.NAME for one, _ in TARGETS} or len(every) > 2 * MAX_TENSORS:
        raise ValueError("no layout")
    if any(LONG_NUMBER.search(name) or len(name) > LONGEST for name in every):
        raise ValueError("no name")


def _plain_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries with plain and short values; the process that sent them is untrusted."""
    return {
        word: value
        for word, value in given.items()
        if word.isidentifier() and len(f"{word}{value}") < LONGEST_WORD
        if value is None or isinstance(value, str | int | float)
    }


def report_apart(path: Path, name: str, make: str) -> dict[str, Any]:
    """Open a trace file in another process, and return the result of a function called there.

    Args:
        path: The file, alone in its folder.
        name: File name shown to the user.
        make: Function of this package as ``module:function``. It converts a trace to plain data
            with a text ``page``.

    Raises:
        CheckpointError: The file is damaged, or the process took too long, used too much memory, or
            crashed.
        OSError: No process can be started.
    """
    request = {"thing": str(path), "name": name, "make": make, "language": spoken_language()}
    place = str(path.parent)
    with _asked(request, name, file_size(path), (place,), TRACES) as (answer, folder):
        told = answer.get("told")
        try:
            if not isinstance(told, dict):
                raise ValueError
            return told | {"page": _written_page(folder / PAGE)}
        except (OSError, ValueError) as error:
            raise _broken_off(name, "no page", MOST_PAGE) from error


def _written_page(path: Path) -> str:
    """Return the text of a file that the process wrote.

    Raises:
        OSError: The file is a link or missing.
        ValueError: It is no regular file, too long, or not text.
    """
    handle = os.open(
        path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    with open(handle, "rb") as file:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_PAGE:
            raise ValueError
        return file.read(MOST_PAGE).decode()


@contextmanager
def _asked(
    request: dict[str, Any], name: str, size: int, known: Sequence[str], job: str = REHEARSAL
) -> Iterator[tuple[dict[str, Any], Path]]:
    """Send a request about a file to a new process; its folder exists inside ``with``.

    ``size`` is the size of the input; ``known`` are the paths that the process may read.
    """
    seconds = settings.OPEN_SECONDS.number + size // PACE
    memory = settings.OPEN_MB.number * MEGA + TIMES * size
    child, folder = begin(job, seconds, memory, known)
    try:
        try:
            answer = child.ask(request, PATIENCE * seconds)
        finally:
            child.close()
        _refuse(answer, name, memory, folder)
        yield answer, folder
    except StoppedError as error:
        raise _stopped(error, name, child.limits) from error
    finally:
        remove_tree(folder)


def _size(found: Candidate) -> int:
    return sum(file_size(path) for path in (found.path, found.adapter) if path is not None)


def _plain(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {w: str(v) if isinstance(v, os.PathLike) else v for w, v in overrides.items()}


def _refuse(answer: dict[str, Any], name: str, memory: int, folder: Path) -> None:
    """Raise the error that the process reported, if any.

    Raises:
        CheckpointError: With the message of the process, or our own.
    """
    if "memory" in answer:
        raise _too_large(name, memory)
    if "fault" in answer:  # unexpected errors are logged for the operator
        sys.stderr.write(f"{name} could not be opened: {str(answer['fault'])[:LONGEST]}\n")
        raise CheckpointError(
            say(
                "{name} could not be opened: {reason}. It is damaged, or its config does not "
                "belong to it; copy or save it again.",
                name=name,
                reason=str(answer["fault"])[:200].rstrip(". "),
            )
        )
    if "refused" in answer:
        kind = CheckpointMissing if answer.get("missing") else CheckpointError
        raise kind(str(answer["refused"])[:LONGEST].replace(f"{folder}/", ""))


def _stopped(error: StoppedError, name: str, limits: Limits) -> CheckpointError:
    how = ending(error.status)
    if error.full:
        return CheckpointError(
            say(
                "{name} could not be opened: the process that read it left more than {most} MB or "
                "{files} files on the disk. Save the weights again as safetensors, which are not "
                "copied; the owner of this server can allow more (TRANSFORMER_VIZ_OPEN_MB) or free "
                "disk space.",
                name=name,
                most=limits.most_on_disk // MEGA,
                files=MOST_FILES,
            )
        )
    if error.late or how == "SIGXCPU":
        return CheckpointError(
            say(
                "{name} could not be opened: reading and trying it took more than {seconds} s, so "
                "it was stopped. Take a smaller file; whoever runs this server can allow more "
                "(TRANSFORMER_VIZ_OPEN_SECONDS).",
                name=name,
                seconds=limits.seconds,
            )
        )
    return _broken_off(name, how, limits.memory)


def _broken_off(name: str, how: str, memory: int) -> CheckpointError:
    return CheckpointError(
        say(
            "{name} could not be opened: the process that read it broke off ({how}). The file is "
            "damaged, made to do harm, or needs more than {memory} MB of memory. Save the weights "
            "again as safetensors; whoever runs this server can allow more "
            "(TRANSFORMER_VIZ_OPEN_MB).",
            name=name,
            how=how,
            memory=memory // MEGA,
        )
    )


def _too_large(name: str, memory: int) -> CheckpointError:
    return CheckpointError(
        say(
            "{name} could not be opened: reading and trying it took more than {memory} MB of "
            "memory. Take a smaller file; whoever runs this server can allow more "
            "(TRANSFORMER_VIZ_OPEN_MB).",
            name=name,
            memory=memory // MEGA,
        )
    )
