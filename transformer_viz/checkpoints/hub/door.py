"""Folders of models that are named by an id of the Hub; called before a path is opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..common.bundled import CONFIG, LABS, available
from ..files.errors import CheckpointError
from .ids import HubId, parsed, with_revision
from .plan import download, plan
from .refusals import HubError
from .repository import COMMIT
from .snapshots import cached

BASE = "base"  # the override that names the model below an adapter


def local(
    thing: str | os.PathLike[str],
    overrides: Mapping[str, Any],
    *,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> tuple[str | os.PathLike[str], dict[str, Any]]:
    """Return a name or path as it is, or the folder to which a model of the Hub was downloaded.

    An override ``base`` may be an id too. An id is what has the form of one and is neither a
    bundled model nor a path. If the Hub cannot be reached, the cache of earlier downloads serves.

    Raises:
        CheckpointMissing: there is no such model or revision.
        CheckpointError: it may not be read, cannot be opened, or has no room here; or a revision
            was given of something that is not on the Hub.
        HubError: no network, and nothing in the cache.
    """
    options, wanted = dict(overrides), hub_id(thing)
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
        thing, below = _fetched(wanted, allow_pickle, with_base=not options.get(BASE))
        if below is not None:
            options[BASE] = str(below)
    named = hub_id(options.get(BASE))
    if named is not None:
        options[BASE] = str(_fetched(named, allow_pickle, with_base=False)[0])
    return thing if wanted is None else str(thing), options


def hub_id(thing: object) -> HubId | None:
    """Return the id that a name is; None for a bundled model, an existing path, or no id."""
    wanted = parsed(thing) if isinstance(thing, str) else None
    if wanted is None or is_of_the_box(str(thing)) or Path(str(thing)).exists():
        return None
    return wanted


def is_of_the_box(text: str) -> bool:
    """Return whether a name begins with a bundled model: then it is a snapshot of it."""
    return text.partition("/")[0] in (LABS, *available())


def _fetched(wanted: HubId, allow_pickle: bool, with_base: bool) -> tuple[Path, Path | None]:
    """Return the folders of a model and of the one below; a cached commit asks nobody."""
    from huggingface_hub import constants
    from tqdm import tqdm

    there = cached(wanted, allow_pickle)
    fixed = wanted.revision is not None and COMMIT.fullmatch(wanted.revision)
    if there is not None and fixed and (there / CONFIG).is_file():
        return there, None
    try:
        found = plan(wanted, allow_pickle=allow_pickle, with_base=with_base)
        # Not the client's own bar: opening a model of the library turns those off for a while.
        shown = bool(found.left) and not constants.HF_HUB_DISABLE_PROGRESS_BARS
        if shown:
            sys.stderr.write(f"{found.sentence}\n")
        with tqdm(
            total=found.size,
            initial=found.here,
            unit="B",
            unit_scale=True,
            mininterval=1 if sys.stderr.isatty() else 10,  # seconds; a log gets few lines
            disable=not shown,
        ) as bar:
            return download(found, lambda done, total: bar.update(done - bar.n))
    except HubError:
        if there is None:
            raise
        return there, None
