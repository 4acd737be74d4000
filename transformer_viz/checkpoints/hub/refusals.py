"""What the Hub's client raises, as one sentence each that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ...i18n import say
from ..files.errors import CheckpointError, CheckpointMissing
from .ids import HubId

TOKEN = "hf auth login, or HF_TOKEN"  # how the client is given one
FULL = (errno.ENOSPC, errno.EDQUOT)
UNREACHED = ("ConnectError", "ProxyError", "UnsupportedProtocol", "InvalidURL")


class HubError(CheckpointError):
    """The Hub could not be asked, or answered badly; what lies in the cache may still be opened."""


@contextmanager
def in_words(wanted: HubId) -> Iterator[None]:
    """Whatever the client raises inside comes out as a CheckpointError of one sentence."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # the client lets through what its own libraries raise
        if _is_ours(error):
            raise
        raise _refusal(error, wanted) from error


def _is_ours(error: Exception) -> bool:
    """Whether it was raised by whoever asked us to stop, and not by the client."""
    return type(error).__module__.startswith("transformer_viz")


def _refusal(error: Exception, wanted: HubId) -> CheckpointError:
    kinds = _kinds(error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    repo = wanted.repo
    if "GatedRepoError" in kinds:
        return CheckpointError(
            say(
                "{model} is gated: accept its conditions on its page of the Hub with your account, "
                "give a token of that account ({token}), and try again.",
                model=repo,
                token=TOKEN,
            )
        )
    if "DisabledRepoError" in kinds:
        return CheckpointError(
            say("{model} was disabled on the Hub; choose another model.", model=repo)
        )
    if "RevisionNotFoundError" in kinds:
        return CheckpointMissing(
            say(
                "{model} has no revision {revision} on the Hub; its page lists branches, tags and "
                "commits, and without one main is taken.",
                model=repo,
                revision=repr(wanted.revision or "main"),
            )
        )
    if unknown(error):
        return CheckpointMissing(
            say(
                "There is no model {model} here, neither in the box nor as a path nor on the Hub; "
                "check the spelling. If it is private, give a token that may read it ({token}).",
                model=repo,
                token=TOKEN,
            )
        )
    if status in (401, 403):
        return CheckpointError(
            say(
                "The Hub does not let us read {model} (error {status}); check the token, or give "
                "one that may ({token}).",
                model=repo,
                status=status,
                token=TOKEN,
            )
        )
    if status is not None:
        return HubError(
            say(
                "The Hub answers with error {status} for {model}; try again in some minutes. What "
                "came so far is kept.",
                model=repo,
                status=status,
            )
        )
    return _without_answer(error, kinds, repo)


def unknown(error: BaseException) -> bool:
    """Whether the Hub says that there is no such model: without a token, a private one neither.

    The Hub itself answers 401 then, and 404 to who has a token; mirrors do either.
    """
    answer = getattr(error, "response", None)
    if "GatedRepoError" in _kinds(error) or "RevisionNotFoundError" in _kinds(error):
        return False
    wrong = "credentials" in str(getattr(error, "server_message", "") or "")  # a bad token
    status = getattr(answer, "status_code", None)
    return (
        "RepositoryNotFoundError" in _kinds(error) or status == 404 or (status == 401 and not wrong)
    )


def _without_answer(error: Exception, kinds: set[str], repo: str) -> CheckpointError:
    """The sentence where no answer came, or none that could be read, or it could not be kept."""
    if "OfflineModeIsEnabled" in kinds:
        return HubError(
            say(
                "{model} is neither in the box nor a path here, nor in the cache of the Hub, and "
                "HF_HUB_OFFLINE keeps the Hub from being asked; unset it to fetch the model.",
                model=repo,
            )
        )
    number = next((e.errno for e in _chain(error) if isinstance(e, OSError) and e.errno), None)
    if number in FULL:
        return CheckpointError(
            say(
                "The disk became full while {model} was fetched; make room, or set HF_HOME to a "
                "folder on another disk, and try again: it goes on where it was.",
                model=repo,
            )
        )
    if isinstance(error, PermissionError) or number in (errno.EROFS, errno.ENOTDIR):
        return CheckpointError(
            say(
                "The folder of the Hub's cache cannot be written, so {model} cannot be kept; set "
                "HF_HOME to a folder that can.",
                model=repo,
            )
        )
    if any(word in kind for kind in kinds for word in ("Timeout", "TimeoutError")):
        return HubError(
            say(
                "The Hub did not answer in time for {model}; try again, it goes on where it was.",
                model=repo,
            )
        )
    if kinds & set(UNREACHED):
        return HubError(
            say(
                "{model} is neither in the box nor a path here, and the Hub cannot be reached: no "
                "network, or HF_ENDPOINT or a proxy is set wrongly. Check them, or open a folder.",
                model=repo,
            )
        )
    if kinds & {"TransportError", "ConnectionError"}:
        return HubError(
            say(
                "The connection to the Hub broke off again and again while {model} was fetched; "
                "try again, it goes on where it was.",
                model=repo,
            )
        )
    return HubError(
        say(
            "What answered for {model} does not speak like the Hub; check HF_ENDPOINT and the "
            "proxy, and try again.",
            model=repo,
        )
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from, each once."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def _kinds(error: BaseException) -> set[str]:
    """The names of the classes of an error and of what it came from.

    By name: the client's library for HTTP changed more than once, and its classes kept theirs.
    """
    return {kind.__name__ for one in _chain(error) for kind in type(one).__mro__}
