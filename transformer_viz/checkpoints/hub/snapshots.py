"""Hub models in the client's cache, read without a request to the Hub.

The client's own look-ups need a file name; here any file with weights counts.
"""

from __future__ import annotations

from pathlib import Path

from .ids import HubId
from .repository import COMMIT
from .selection import weight_files

MAIN = "main"


def storage(repo: str) -> Path:
    """Return the folder of a model in the client's cache, even if it does not exist."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def cached(wanted: HubId, allow_pickle: bool = False) -> Path | None:
    """Return the folder of a model that is in the cache with all its weights, else None."""
    folder, commit = storage(wanted.repo), wanted.revision or MAIN
    if not COMMIT.fullmatch(commit):
        try:
            commit = (folder / "refs" / commit).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
    place = folder / "snapshots" / commit
    if not COMMIT.fullmatch(commit) or not place.is_dir():
        return None
    names = {path.name for path in place.iterdir() if path.is_file()}
    return place if weight_files(names, allow_pickle) else None


def note(wanted: HubId, commit: str) -> None:
    """Record the commit of a branch or tag once all its files are there.

    The client would record it with the first file. A stopped transfer would then hide the older
    commit that is complete.
    """
    name = wanted.revision or MAIN
    if COMMIT.fullmatch(name):
        return
    path = storage(wanted.repo) / "refs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(commit, encoding="ascii")
    new.replace(path)


def id_of(folder: Path) -> str:
    """Return the id of the model whose snapshot a folder is; empty for any other folder."""
    home = folder.parent
    inside = home.name == "snapshots" and home.parent.name.startswith("models--")
    return home.parent.name.removeprefix("models--").replace("--", "/") if inside else ""
