"""Models of the Hugging Face Hub in the app: which a visitor may have, and where they lie.

Names are as in :mod:`.model_names`: ``hub:owner/name@revision``. Asking the Hub and fetching are
slow and belong into a :class:`.task.Task`; all else here looks at this disk only.
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

#: Ids that the Hub showed to a stranger in this process: only these of its cache are for visitors.
_shown: set[str] = set()
_one_at_a_time = threading.Lock()


class NotFetched(ValueError):
    """A model of the Hub that is not on this machine yet, and may be fetched."""


def name_of(text: str) -> str:
    """The name of the model whose id a visitor typed.

    Raises:
        ValueError: no id, or one that this server does not open; says why and what to do.
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
    """A name from a link as we keep it: an id that is no name in the box is one of the Hub."""
    place, words = parted(name)
    wanted = parsed(place)
    if wanted is None or is_of_the_box(place):
        return name
    return named(HUB + place, words)


def id_of(name: str) -> HubId | None:
    """The id of a model of the Hub; None for any other name."""
    place = parted(name)[0]
    return parsed(place.removeprefix(HUB)) if place.startswith(HUB) else None


def require_allowed(wanted: HubId) -> bool | None:
    """Refuse a model that visitors may not have; else the token for it: None the owner's.

    A stranger is nobody to the Hub, or the owner's private models would be everybody's.

    Raises:
        ValueError: says who decides.
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
    """The folder of a model of the Hub that lies on this machine.

    Raises:
        NotFetched: it lies not here, or has to be asked for first.
        ValueError: this server does not open it; says why.
    """
    from ...checkpoints.hub.snapshots import cached

    wanted = id_of(name)
    if wanted is None:
        wanted = parsed(name_of(parted(name)[0].removeprefix(HUB)))  # says so
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
    """The folder of the model below an adapter of the Hub; None where it is no adapter.

    Raises:
        ValueError: it is not here any more, or may not be opened.
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
    """Ask the Hub what fetching a model would bring.

    Raises:
        ValueError: it may not be had, cannot be opened, or is not there; says why and what to do.
    """
    from ...checkpoints.hub.plan import plan

    return plan(wanted, allowed=require_allowed)


def fetch(wanted: Plan, task: Task) -> None:
    """Fetch a model, one after the other; what came of a stopped transfer is kept.

    Raises:
        ValueError: a full disk, no network, a changed file; says what to do.
        Abandoned: nobody waits for it any more.
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
    """Whether the owner lets visitors have this model as the owner would."""
    return not reach.reason() or _is_listed(wanted)


def _is_listed(wanted: HubId) -> bool:
    return wanted.repo.lower() in (name.lower() for name in _listed())


def _listed() -> tuple[str, ...]:
    return tuple(name.strip() for name in settings.HUB_LIST.text.split(",") if name.strip())
