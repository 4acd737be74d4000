"""Weights below a folder that holds none itself: the output of a training run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

DEEPEST = 4  # nested folders: lightning_logs/version_0/checkpoints
MOST_FOLDERS = 500
MOST_ENTRIES = 2000  # of one folder
SHOWN = 4  # places in a sentence


def weights_below(folder: Path, holds: Callable[[Path], list[Path]]) -> list[str]:
    """Return the paths below a folder that ``load`` accepts, relative to it, in natural order.

    Args:
        folder: Folder to search; links to folders are not followed.
        holds: Returns the weights files of one folder. A folder with one file is listed itself,
            else
            each file.
    """
    found: list[str] = []
    waiting, seen = [(folder, 0)], 0
    while waiting and seen < MOST_FOLDERS:
        place, deep = waiting.pop(0)
        seen += 1
        for inner in _folders(place) if deep < DEEPEST else ():
            try:
                files = holds(inner)
            except OSError:  # no permission to read
                continue
            named = [inner] if len(files) == 1 else files
            found += [path.relative_to(folder).as_posix() for path in named]
            waiting.append((inner, deep + 1))
    return sorted(found, key=_natural)


def name_places(folder: Path, places: list[str]) -> str:
    """Return the sentence on a folder whose weights are below it."""
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    shown = ", ".join([*places[: SHOWN - 1], places[-1]] if more else places)
    return (
        f"The folder {folder} holds no weights itself; below it are {shown}{more}. Give one of "
        f"them, such as {folder / places[-1]}."
    )


def _folders(place: Path) -> list[Path]:
    try:
        entries = [path for _, path in zip(range(MOST_ENTRIES), place.iterdir(), strict=False)]
        return sorted(
            path
            for path in entries
            if path.is_dir() and not path.is_symlink() and path.name[:1] != "."
        )
    except OSError:
        return []


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``checkpoint-20`` before ``checkpoint-100``."""
    return [
        (int(part[:18]), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", text)
    ]
