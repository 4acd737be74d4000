"""Errors of the Hub's client, each as one sentence that states what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ...i18n import mark, say
from ..files.errors import CheckpointError, CheckpointMissing
from .ids import HubId

TOKEN = "hf auth login, or HF_TOKEN"  # ways to give the client a token


class HubError(CheckpointError):
    """Error of the Hub or the network; a copy in the cache may still be opened."""


UNKNOWN, ANSWERED = "no such model", "an error of HTTP"  # signs beside names of classes
UNREADABLE = mark(
    "What answered for {model} does not speak like the Hub; check HF_ENDPOINT and the proxy, and "
    "try again."
)
#: Signs of an error, its class and its sentence; the first row that shares a sign counts.
REFUSALS: tuple[tuple[set[str], type[CheckpointError], str], ...] = (
    (
        {"GatedRepoError"},
        CheckpointError,
        mark(
            "{model} is gated: accept its conditions on its page of the Hub with your account, "
            "give a token of that account ({token}), and try again."
        ),
    ),
    (
        {"DisabledRepoError"},
        CheckpointError,
        mark("{model} was disabled on the Hub; choose another model."),
    ),
    (
        {"RevisionNotFoundError"},
        CheckpointMissing,
        mark(
            "{model} has no revision {revision} on the Hub; its page lists branches, tags and "
            "commits, and without one main is taken."
        ),
    ),
    (
        {UNKNOWN},
        CheckpointMissing,
        mark(
            "There is no model {model} here, neither in the box nor as a path nor on the Hub; "
            "check the spelling. If it is private, give a token that may read it ({token})."
        ),
    ),
    (
        {"401", "403"},
        CheckpointError,
        mark(
            "The Hub does not let us read {model} (error {status}); check the token, or give one "
            "that may ({token})."
        ),
    ),
    (
        {ANSWERED},
        HubError,
        mark(
            "The Hub answers with error {status} for {model}; try again in some minutes. What "
            "came so far is kept."
        ),
    ),
    (
        {"OfflineModeIsEnabled"},
        HubError,
        mark(
            "{model} is neither in the box nor a path here, nor in the cache of the Hub, and "
            "HF_HUB_OFFLINE keeps the Hub from being asked; unset it to fetch the model."
        ),
    ),
    (
        {"ENOSPC", "EDQUOT"},
        CheckpointError,
        mark(
            "The disk became full while {model} was fetched; make room, or set HF_HOME to a "
            "folder on another disk, and try again: it goes on where it was."
        ),
    ),
    (
        {"EROFS", "ENOTDIR", "EACCES", "EPERM"},
        CheckpointError,
        mark(
            "The folder of the Hub's cache cannot be written, so {model} cannot be kept; set "
            "HF_HOME to a folder that can."
        ),
    ),
    (
        {"TimeoutException", "TimeoutError"},
        HubError,
        mark("The Hub did not answer in time for {model}; try again, it goes on where it was."),
    ),
    (
        {"ConnectError", "ProxyError", "UnsupportedProtocol", "InvalidURL"},
        HubError,
        mark(
            "{model} is neither in the box nor a path here, and the Hub cannot be reached: no "
            "network, or HF_ENDPOINT or a proxy is set wrongly. Check them, or open a folder."
        ),
    ),
    (
        {"TransportError", "ConnectionError"},
        HubError,
        mark(
            "The connection to the Hub broke off again and again while {model} was fetched; try "
            "again, it goes on where it was."
        ),
    ),
)


@contextmanager
def in_words(wanted: HubId) -> Iterator[None]:
    """Convert each error of the client inside ``with`` into a CheckpointError of one sentence."""
    try:
        yield
    except Exception as error:  # the client passes on errors of its own libraries
        if type(error).__module__.startswith("transformer_viz"):  # ours, or the caller's stop
            raise
        found = signs(error)
        rows = (row for row in REFUSALS if row[0] & found)
        _, kind, text = next(rows, (set(), HubError, UNREADABLE))
        words = say(
            text,
            model=wanted.repo,
            revision=repr(wanted.revision or "main"),
            status=status(error),
            token=TOKEN,
        )
        raise kind(words) from error


def signs(error: BaseException) -> set[str]:
    """Return the signs of an error: class names, HTTP status, errno and the two signs above.

    Classes are compared by name: the client changed its HTTP library more than once, but not the
    names.
    """
    chain = list(_chain(error))
    found = {kind.__name__ for one in chain for kind in type(one).__mro__}
    numbers = (one.errno for one in chain if isinstance(one, OSError) and one.errno)
    number = next(numbers, 0)
    if number not in (errno.EACCES, errno.EPERM) or isinstance(error, PermissionError):
        found.add(errno.errorcode.get(number, ""))  # a network may be forbidden too
    code = status(error)
    # The Hub answers 401 for an unknown model, and 404 to a known token; mirrors answer either.
    bad_token = "credentials" in str(getattr(error, "server_message", "") or "")
    unknown = "RepositoryNotFoundError" in found or code == 404
    if unknown or (code == 401 and not bad_token):
        found.add(UNKNOWN)
    return found if code is None else found | {str(code), ANSWERED}


def status(error: BaseException) -> int | None:
    """Return the HTTP status of an error; None if there was no response."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each once."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__
