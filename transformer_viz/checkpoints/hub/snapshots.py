"""Models of the Hub that lie in the client's cache already. Asks nobody."""

from __future__ import annotations

from pathlib import Path

from .ids import HubId
from .repository import COMMIT
from .selection import weight_files
from .transfer import storage

MAIN = "main"


def cached(wanted: HubId, allow_pickle: bool = False) -> Path | None:
    """The folder of a model that lies in the cache with all its weights; None where none does."""
    folder = storage(wanted.repo)
    commit = wanted.revision or MAIN
    if not COMMIT.fullmatch(commit):
        try:
            commit = (folder / "refs" / commit).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
    place = folder / "snapshots" / commit
    if not COMMIT.fullmatch(commit) or not place.is_dir():
        return None
    there = {path.name for path in place.iterdir() if path.is_file()}
    return place if weight_files(there, allow_pickle) else None


def note(wanted: HubId, commit: str) -> None:
    """Note at which commit a branch or tag is, as the client does; called when all is there."""
    name = wanted.revision or MAIN
    if COMMIT.fullmatch(name):
        return
    path = storage(wanted.repo) / "refs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(commit, encoding="ascii")
    new.replace(path)


def id_of(folder: Path) -> str:
    """The id of the model whose snapshot a folder is; empty for any other folder."""
    home = folder.parent
    inside = home.name == "snapshots" and home.parent.name.startswith("models--")
    return home.parent.name.removeprefix("models--").replace("--", "/") if inside else ""
