"""Content of a Hub repository: its commit, and each file's size and hash."""

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
PATIENCE = 15.0  # seconds for one response about a repository
COMMIT = re.compile(r"[0-9a-f]{40}")
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_FILES = 20_000  # of one repository


@dataclass(frozen=True)
class HubFile:
    """File of a repository.

    Attributes:
        name: Path in the repository.
        size: Size in bytes.
        blob: Hash and cache name: SHA-256 of large files, else git's SHA-1. Empty if a mirror does
            not name one.
    """

    name: str
    size: int
    blob: str = ""


@dataclass(frozen=True)
class Repository:
    """Repository at one commit; ``files`` by name."""

    id: HubId
    commit: str
    files: dict[str, HubFile] = field(hash=False)


def asked(call: Callable[[], T]) -> T:
    """Call the Hub's client; wait if opening another model keeps it offline.

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
    """Return the content of a repository on the Hub.

    Args:
        wanted: The model.
        token: None for the client's own (HF_TOKEN, or of hf auth login), False for none.

    Raises:
        CheckpointMissing: There is no such model or revision, or it is a data set.
        CheckpointError: It may not be read, or has too many files.
        HubError: There is no network, or the response cannot be read.
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
        except OSError as error:  # the client's HTTP errors are of this kind
            if UNKNOWN in signs(error):
                _refuse_data_set(api, wanted)
            raise
        return _read(info, wanted)


def _refuse_data_set(api: Any, wanted: HubId) -> None:
    try:
        asked(lambda: api.dataset_info(wanted.repo, timeout=PATIENCE))
    except Exception:  # nothing of that name: the first response says so
        return
    raise CheckpointMissing(
        say(
            "{model} is a data set on the Hub and no model; give the id of a model.",
            model=wanted.repo,
        )
    )


def _read(info: Any, wanted: HubId) -> Repository:
    """Return commit and files of a response; each part is checked, since a mirror may be wrong."""
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
