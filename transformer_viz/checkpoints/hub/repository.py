"""What a repository of the Hub holds: its commit, and each file's size and hash."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...i18n import say
from ..files.errors import CheckpointError, CheckpointMissing
from .ids import HubId
from .refusals import UNKNOWN, UNREADABLE, HubError, in_words, signs

T = TypeVar("T")
PATIENCE = 15.0  # seconds for one answer about a repository
COMMIT = re.compile(r"[0-9a-f]{40}")
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_FILES = 20_000  # of one repository


@dataclass(frozen=True)
class HubFile:
    """A file of a repository.

    Attributes:
        name: its path in the repository.
        size: in bytes.
        blob: its hash and its name in the cache: SHA-256 of large files, else git's SHA-1. Empty
            where a mirror does not name one.
    """

    name: str
    size: int
    blob: str = ""


@dataclass(frozen=True)
class Repository:
    """A repository at one commit; ``files`` by their names."""

    id: HubId
    commit: str
    files: dict[str, HubFile] = field(hash=False)


def asked(call: Callable[[], T]) -> T:
    """Call the Hub's client; if another model is being opened, which keeps it offline, wait.

    Raises:
        OfflineModeIsEnabled: HF_HUB_OFFLINE is set.
    """
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        return call()
    except OfflineModeIsEnabled:
        from ..hugging_face.library import undisturbed

        with undisturbed():
            return call()


def look(wanted: HubId, token: bool | None = None) -> Repository:
    """Ask the Hub what a repository holds.

    Args:
        wanted: the model.
        token: None for the client's own (HF_TOKEN, or of hf auth login), False for none.

    Raises:
        CheckpointMissing: there is no such model or revision, or it is a data set.
        CheckpointError: it may not be read, or has too many files.
        HubError: no network, or an answer that cannot be read.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    with in_words(wanted):
        try:
            info = asked(
                lambda: api.model_info(
                    wanted.repo, revision=wanted.revision, timeout=PATIENCE, files_metadata=True
                )
            )
        except OSError as error:  # the client's errors of HTTP are of this kind
            if UNKNOWN in signs(error):
                _refuse_data_set(api, wanted)
            raise
        return _read(info, wanted)


def _refuse_data_set(api: Any, wanted: HubId) -> None:
    try:
        asked(lambda: api.dataset_info(wanted.repo, timeout=PATIENCE))
    except Exception:  # nothing of that name: the first answer says so
        return
    raise CheckpointMissing(
        say(
            "{model} is a data set on the Hub and no model; give the id of a model.",
            model=wanted.repo,
        )
    )


def _read(info: Any, wanted: HubId) -> Repository:
    """Return commit and files of an answer, checking each part of it: a mirror may lie."""
    if not COMMIT.fullmatch(str(info.sha)):
        raise HubError(say(UNREADABLE, model=wanted.repo))
    siblings = info.siblings or []
    if len(siblings) > MAX_FILES:
        raise CheckpointError(
            say(
                "{model} has {count} files, more than are looked at; fetch those of one model "
                "yourself and open their folder.",
                model=wanted.repo,
                count=f"{len(siblings):,}",
            )
        )
    files = {}
    for one in siblings:
        blob = str(one.lfs["sha256"] if one.lfs else one.blob_id)
        known = isinstance(one.size, int) and one.size >= 0
        sound = known and HASH.fullmatch(blob)
        name = str(one.rfilename)
        files[name] = HubFile(name, one.size if known else 0, blob if sound else "")
    return Repository(wanted, info.sha, files)
