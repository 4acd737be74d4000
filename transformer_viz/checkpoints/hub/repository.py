"""What a repository of the Hub holds, as the Hub tells it: its commit, and each file's size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...i18n import say
from ..files.errors import CheckpointError, CheckpointMissing
from .ids import HubId
from .refusals import HubError, in_words, unknown

T = TypeVar("T")
PATIENCE = 15.0  # seconds for one answer about a repository
COMMIT = re.compile(r"[0-9a-f]{40}")
HEXADECIMAL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_FILES = 20_000  # of one repository


@dataclass(frozen=True)
class HubFile:
    """One file: ``blob`` is its name in the cache, the SHA-256 of large ones, git's SHA-1 else.

    ``size`` in bytes. ``blob`` is empty where a mirror does not tell it.
    """

    name: str
    size: int
    blob: str = ""

    @property
    def large(self) -> bool:
        """Whether it is kept outside of git, so that its blob is the SHA-256 of its bytes."""
        return len(self.blob) == 64


@dataclass(frozen=True)
class Repository:
    """A repository at one commit; ``files`` by their names."""

    id: HubId
    commit: str
    files: dict[str, HubFile] = field(hash=False)


def asked(call: Callable[[], T]) -> T:
    """Ask the Hub; while a model of the library is opened, which keeps it offline, wait for that.

    Raises:
        OfflineModeIsEnabled: of the client, where HF_HUB_OFFLINE is set.
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
        token: None is the client's own (HF_TOKEN, or of hf auth login), False none.

    Raises:
        CheckpointMissing: no such model, or no such revision.
        CheckpointError: a data set, or no leave to read it.
        HubError: no network, or an answer that is none.
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
        except OSError as error:  # the client's own errors of HTTP are of this kind
            if unknown(error):
                _refuse_data_set(api, wanted)
            raise
        return Repository(wanted, *_read(info, wanted))


def _refuse_data_set(api: Any, wanted: HubId) -> None:
    try:
        asked(lambda: api.dataset_info(wanted.repo, timeout=PATIENCE))
    except Exception:  # then it is nothing of that name, and the first answer says so
        return
    raise CheckpointMissing(
        say(
            "{model} is a data set on the Hub and no model; give the id of a model.",
            model=wanted.repo,
        )
    )


def _read(info: Any, wanted: HubId) -> tuple[str, dict[str, HubFile]]:
    """Commit and files from an answer, of which nothing is believed before it is looked at."""
    if not COMMIT.fullmatch(str(info.sha)) or not info.siblings:
        if COMMIT.fullmatch(str(info.sha)):
            raise CheckpointMissing(
                say(
                    "{model} has no weights; name a repository that holds model.safetensors.",
                    model=wanted.repo,
                )
            )
        raise HubError(
            say(
                "What answered for {model} does not speak like the Hub; check HF_ENDPOINT and the "
                "proxy, and try again.",
                model=wanted.repo,
            )
        )
    if len(info.siblings) > MAX_FILES:
        raise CheckpointError(
            say(
                "{model} has {count} files, more than are looked at; fetch those of one model "
                "yourself and open their folder.",
                model=wanted.repo,
                count=f"{len(info.siblings):,}",
            )
        )
    files = {}
    for one in info.siblings:
        name, size = str(one.rfilename), one.size
        blob = one.lfs["sha256"] if one.lfs else one.blob_id
        sound = isinstance(blob, str) and HEXADECIMAL.fullmatch(blob)
        known = size if isinstance(size, int) and size >= 0 else 0
        files[name] = HubFile(name, known, blob if sound and isinstance(size, int) else "")
    return info.sha, files
