"""The one place where a name that is no path becomes a folder: called before a path is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..common.bundled import LABS, available
from ..files.errors import CheckpointError
from .ids import HubId, parsed, with_revision
from .plan import download, plan
from .refusals import HubError
from .repository import COMMIT
from .snapshots import cached
from .telling import Terminal

BASE = "base"  # the override that names the model below an adapter


def local(
    thing: str | os.PathLike[str],
    overrides: Mapping[str, Any],
    *,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> tuple[str | os.PathLike[str], dict[str, Any]]:
    """A name or path as it is, or the folder to which a model of the Hub was fetched.

    An override ``base`` may be an id too. A model that is not a name in the box nor a path, and
    has the form of an id, is asked for at the Hub; where that cannot be reached, the cache of
    earlier transfers serves.

    Raises:
        CheckpointMissing: no such model or revision.
        CheckpointError: it may not be read, cannot be opened, or has no room here; or a revision
            was given of something that is not on the Hub.
        HubError: no network, and nothing in the cache.
    """
    words, wanted = dict(overrides), hub_id(thing)
    if not isinstance(allow_pickle, bool):
        raise CheckpointError(f"allow_pickle is true or false; got {allow_pickle!r}.")
    if wanted is None:
        if revision is not None:
            raise CheckpointError(
                f"revision={revision!r} is for a model of the Hub (owner/name), and "
                f"{str(thing)!r} is none; leave revision out."
            )
    else:
        wanted = with_revision(wanted, revision)
        folder, below = _fetched(wanted, allow_pickle, with_base=not words.get(BASE))
        thing = str(folder)
        if below is not None:
            words[BASE] = str(below)
    base = words.get(BASE)
    named = hub_id(base) if isinstance(base, str) else None
    if named is not None:
        words[BASE] = str(_fetched(named, allow_pickle, with_base=False)[0])
    return thing, words


def hub_id(thing: object) -> HubId | None:
    """The id that a name is; None for a name in the box, for a path that is there, for no id."""
    if not isinstance(thing, str):
        return None
    wanted = parsed(thing)
    if wanted is None or is_of_the_box(thing) or Path(thing).exists():
        return None
    return wanted


def is_of_the_box(text: str) -> bool:
    """Whether a name begins with one of the box: then it is a snapshot of it, there or not."""
    return text.partition("/")[0] in (LABS, *available())


def _fetched(wanted: HubId, allow_pickle: bool, with_base: bool) -> tuple[Path, Path | None]:
    """The folders of a model and of the one below it; a commit in the cache needs no question."""
    there = cached(wanted, allow_pickle)
    fixed = wanted.revision is not None and COMMIT.fullmatch(wanted.revision)
    if there is not None and fixed and (there / "config.json").is_file():
        return there, None
    try:
        found = plan(wanted, allow_pickle=allow_pickle, with_base=with_base)
        terminal = Terminal(found)
        terminal.begin()
        try:
            return download(found, terminal.step)
        finally:
            terminal.end()
    except HubError:
        if there is None:
            raise
        return there, None
