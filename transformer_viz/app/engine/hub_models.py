"""Models of the Hugging Face Hub in the app: which ones users may open, and their folders.

Names are as in :mod:`.model_names`: ``hub:owner/name@revision``. Requests to the Hub and downloads
are slow and belong in a :class:`.task.Task`; everything else reads the local disk only.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ... import reach, settings
from ...checkpoints.hub.door import is_of_the_box
from ...checkpoints.hub.ids import FORM, HubId, parsed
from ...i18n import say
from .model_names import HUB, named, parted
from .task import Task

if TYPE_CHECKING:
    from ...checkpoints.hub.plan import Plan

#: Ids found on the Hub without a token in this process. Others in the cache stay closed to users.
_shown: set[str] = set()
_one_at_a_time = threading.Lock()


class NotFetched(ValueError):
    """A model of the Hub that is not downloaded yet, and may be."""


def name_of(text: str) -> str:
    """Return the name of the model with a typed id.

    Raises:
        ValueError: The text is no id, or this server does not open it; the message gives a remedy.
    """
    wanted = parsed(text)
    if wanted is None:
        raise ValueError(
            say(
                "{text} is no id of the Hub, which reads {form}, of letters, digits, '-', '_' and "
                "'.'.",
                text=repr(text[:80]),
                form=FORM,
            )
        )
    require_allowed(wanted)
    return HUB + str(wanted)


def internal(name: str) -> str:
    """Return the internal name of a model in a link; an id that is not bundled is a Hub id."""
    place, words = parted(name)
    wanted = parsed(place)
    if wanted is None or is_of_the_box(place):
        return name
    return named(HUB + place, words)


def id_of(name: str) -> HubId | None:
    """Return the id of a model of the Hub; None for any other name."""
    place = parted(name)[0]
    return parsed(place.removeprefix(HUB)) if place.startswith(HUB) else None


def require_allowed(wanted: HubId) -> bool | None:
    """Check that users may open a model. Return the token to use: None for the owner's, else False.

    Requests are anonymous by default; otherwise the owner's private models would be open to all.

    Raises:
        ValueError: The model is not allowed; the message names who decides.
    """
    mode = settings.HUB.text
    if mode == settings.OFF:
        raise ValueError(
            say("This server opens no models of the Hub; its owner allows them with --hub.")
        )
    if mode == settings.LISTED and not _is_listed(wanted):
        raise ValueError(
            say(
                "This server opens only some models of the Hub: {known}. Its owner decides.",
                known=", ".join(_listed()) or say("none"),
            )
        )
    return None if _is_trusted(wanted) else False


def folder(name: str) -> Path:
    """Return the local folder of a model of the Hub.

    Raises:
        NotFetched: It is not downloaded, or the Hub has to be asked first.
        ValueError: This server does not open it; the message gives the reason.
    """
    from ...checkpoints.hub.snapshots import cached

    wanted = id_of(name)
    if wanted is None:
        wanted = parsed(name_of(parted(name)[0].removeprefix(HUB)))  # raises the error
    assert wanted is not None
    require_allowed(wanted)
    found = cached(wanted) if _is_trusted(wanted) or str(wanted) in _shown else None
    if found is None:
        raise NotFetched(
            say(
                "{model} is a model of the Hub that is not on this server yet; the page Checkpoint "
                "says how large it is, and fetches it.",
                model=wanted,
            )
        )
    return found


def base(name: str) -> Path | None:
    """Return the folder of the base model of an adapter of the Hub; None if it is no adapter.

    Raises:
        ValueError: The base model is missing, or may not be opened.
    """
    from ...checkpoints.files.adapters import CONFIG, weights_of
    from ...checkpoints.files.reading import read_config

    place = folder(name)
    if weights_of(place) is None:
        return None
    said = read_config(place / CONFIG).get("base_model_name_or_path")
    below = parsed(said) if isinstance(said, str) else None
    return None if below is None else folder(HUB + str(below))


def look(wanted: HubId) -> Plan:
    """Return the download plan of a model, requested from the Hub.

    Raises:
        ValueError: The model is not allowed, unusable or missing; the message gives a remedy.
    """
    from ...checkpoints.hub.plan import plan

    return plan(wanted, allowed=require_allowed)


def fetch(wanted: Plan, task: Task) -> None:
    """Download a model, one at a time; the part that a stopped download has read is kept.

    Raises:
        ValueError: Full disk, no network, or a changed file; the message gives a remedy.
        Abandoned: The task was abandoned.
    """
    from ...checkpoints.hub.plan import download, in_units

    task.until(_taken, lambda: say("Waiting for another model to be fetched ..."))
    try:

        def step(done: int, total: int) -> None:
            task.words = say(
                "Fetching {model}: {done} of {total}",
                model=wanted.source.id,
                done=in_units(done),
                total=in_units(total),
            )
            task.step(done, total)

        download(wanted, step)
    finally:
        task.words = ""
        _one_at_a_time.release()
    for one in (wanted, wanted.base):
        if one is not None:
            _shown.add(str(one.source.id))


def _taken(seconds: float) -> bool:
    return _one_at_a_time.acquire(timeout=seconds) if seconds else _one_at_a_time.acquire(False)


def _is_trusted(wanted: HubId) -> bool:
    """Return True if users may open this model with the owner's access."""
    return not reach.reason() or _is_listed(wanted)


def _is_listed(wanted: HubId) -> bool:
    return wanted.repo.lower() in (name.lower() for name in _listed())


def _listed() -> tuple[str, ...]:
    return tuple(name.strip() for name in settings.HUB_LIST.text.split(",") if name.strip())
