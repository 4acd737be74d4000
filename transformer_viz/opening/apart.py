"""The door for checkpoints of strangers: a process of its own goes through it first.

It reads the file, builds the model, has its tokenizer made and runs a sample, under limits of time,
memory and everything else that the platform can refuse it. What comes back is safetensors and JSON,
checked like any stranger's file, and from these the model is built here, by our own code. The
tokenizer goes on living elsewhere (:mod:`.workshop`).
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

PACE = 20 * MEGA  # bytes of weights for which a second more is given
PATIENCE = 2  # times the seconds of processor, by the clock: the machine may be busy
MOST_PAGE = 100 * MEGA  # bytes of a report
LONGEST = 2_000  # characters of a refusal
LONG_NUMBER = re.compile(r"\d{5}")  # no model has so many layers
LONGEST_WORD = 100  # characters of a word with its value
TIMES = 5  # the size of the weights that opening takes besides: as read, written, built, in float32


def open_apart(
    thing: str | os.PathLike[str],
    device: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    target_tokenizer: str | os.PathLike[str] | None = None,
    **overrides: Any,
) -> Model:
    """Open a checkpoint as `load` does, with all that is dangerous done in another process.

    Vocabularies are paths here, and are read there too.

    Raises:
        CheckpointMissing: nothing of that name.
        CheckpointError: what `load` refuses; and a file whose process took too long, too much
            memory, or broke off.
        OSError: no process can be begun.
    """
    place = choose_device(device)
    found, words = discover(thing, overrides)
    require_memory(found.path, words.get("dtype"))
    if found.names is not None and found.names.origin == "override":
        overrides = overrides | {"names": dict(found.names.table)}  # it may be a file elsewhere
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
    """Propose names as `propose_names` does, with the file read in another process.

    The proposal's ``assumed`` words are those of `assumed_words`.

    Raises:
        CheckpointMissing: nothing of that name.
        CheckpointError: what `propose_names` refuses; and a file whose process took too long, too
            much memory, or broke off.
        OSError: no process can be begun.
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
    """Refuse a proposal of another process that the page could not work with.

    Raises:
        ValueError: no known layout, too many names, or a layer of a number without end.
    """
    named = [name for row in proposal.rows if (name := row.proposed)]
    every = [proposal.layout, *proposal.missing, *named]
    if proposal.layout not in {one.NAME for one, _ in TARGETS} or len(every) > 2 * MAX_TENSORS:
        raise ValueError("no layout")
    if any(LONG_NUMBER.search(name) or len(name) > LONGEST for name in every):
        raise ValueError("no name")


def _plain_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """The words whose values are plain and short; the process that gave them is not trusted."""
    return {
        word: value
        for word, value in given.items()
        if word.isidentifier() and len(f"{word}{value}") < LONGEST_WORD
        if value is None or isinstance(value, str | int | float)
    }


def report_apart(path: Path, name: str, make: str) -> dict[str, Any]:
    """Open a trace file in another process, and return what a function there makes of it.

    Args:
        path: the file, alone in its folder.
        name: what its owner calls it.
        make: a function of this package as ``module:function``: a trace to plain data, of which
            ``page`` is a text.

    Raises:
        CheckpointError: a file that is damaged, or whose process took too long, too much memory,
            or broke off.
        OSError: no process can be begun.
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
    """The text of a file that the process wrote, and no other file.

    Raises:
        OSError: a link, or no file.
        ValueError: no plain file, too long, or no text.
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
    """Have a process answer a request about a file; its folder lives as long as the block.

    ``size`` of what it reads; ``known`` are the paths that it may read.
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
    """Say what the process said, where it did not open the checkpoint.

    Raises:
        CheckpointError: its sentence, or ours where it had none.
    """
    if "memory" in answer:
        raise _too_large(name, memory)
    if "fault" in answer:  # what no checkpoint should raise is told to the operator
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
