"""Local folders of models that are named by a Hub id; called before a path is opened."""

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

BASE = "base"  # override that names the base model of an adapter


def local(
    thing: str | os.PathLike[str],
    overrides: Mapping[str, Any],
    *,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> tuple[str | os.PathLike[str], dict[str, Any]]:
    """Return a name or path unchanged, or the folder of a model downloaded from the Hub.

    An override ``base`` may be an id too. An id has the form of one and is neither a bundled model
    nor a path. If the Hub cannot be reached, the cache of earlier downloads is used.

    Raises:
        CheckpointMissing: There is no such model or revision.
        CheckpointError: The model may not be read, cannot be opened or does not fit on the disk, or
            a
            revision was given without a Hub id.
        HubError: There is no network, and nothing in the cache.
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
    """Return the Hub id of a name; None for a bundled model, an existing path, or no id."""
    wanted = parsed(thing) if isinstance(thing, str) else None
    if wanted is None or is_of_the_box(str(thing)) or Path(str(thing)).exists():
        return None
    return wanted


def is_of_the_box(text: str) -> bool:
    """Return True if a name begins with a bundled model; it is then a snapshot of it."""
    return text.partition("/")[0] in (LABS, *available())


def _fetched(wanted: HubId, allow_pickle: bool, with_base: bool) -> tuple[Path, Path | None]:
    """Return the folders of a model and of its base; a cached commit needs no request."""
    from huggingface_hub import constants
    from tqdm import tqdm

    there = cached(wanted, allow_pickle)
    fixed = wanted.revision is not None and COMMIT.fullmatch(wanted.revision)
    if there is not None and fixed and (there / CONFIG).is_file():
        return there, None
    try:
        found = plan(wanted, allow_pickle=allow_pickle, with_base=with_base)
        # Not the client's own bar: opening a library model turns those off for a while.
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
