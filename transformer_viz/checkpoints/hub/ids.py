"""Ids of the Hugging Face Hub: ``owner/name``, or ``owner/name@revision``. Needs no library."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..files.errors import CheckpointError

WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
ID = re.compile(rf"({WORD}/{WORD})(?:@(.*))?", re.DOTALL)
REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}")
MOST = 96  # characters of owner and name together, the Hub's own limit
FORM = "owner/name or owner/name@revision"


@dataclass(frozen=True)
class HubId:
    """Model id of the Hub; ``revision`` is a branch, a tag or a commit, None the main branch."""

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def parsed(text: str) -> HubId | None:
    """Return the id in a text; None if it can only be a name or a path."""
    match = ID.fullmatch(text)
    if match is None:
        return None
    repo, revision = match.groups()
    odd = "--" in repo or ".." in repo or repo.endswith((".git", ".", "-")) or len(repo) > MOST
    return (
        None if odd or not (revision is None or _is_revision(revision)) else HubId(*match.groups())
    )


def with_revision(wanted: HubId, revision: str | None) -> HubId:
    """Return the id with the revision that was given beside it.

    Raises:
        CheckpointError: The id names another revision, or the revision is invalid.
    """
    if revision is None:
        return wanted
    if not isinstance(revision, str) or not _is_revision(revision):
        raise CheckpointError(
            f"revision is a branch, a tag or a commit of the Hub, such as main; got {revision!r}."
        )
    if wanted.revision not in (None, revision):
        raise CheckpointError(
            f"{wanted} names a revision, and revision={revision!r} another; give one of them."
        )
    return replace(wanted, revision=revision)


def hint(text: str) -> str:
    """Return a sentence on the form of ids, to follow an error about an unknown name."""
    if "/" not in text:
        return "" if "\\" in text or "." in text else f" Models of the Hub are named {FORM}."
    return f" Nor is it an id of the Hub, which reads {FORM}, of letters, digits, '-', '_' and '.'."


def _is_revision(text: str) -> bool:
    plain = REVISION.fullmatch(text) is not None and ".." not in text and "//" not in text
    return plain and not text.endswith(("/", ".lock", "."))
