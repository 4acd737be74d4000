"""Plan of a download from the Hub, its checks before any large transfer, and the download."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...i18n import say
from ..common.bundled import CONFIG
from ..files.errors import CheckpointError
from ..files.strict_json import read_json
from .ids import HubId, parsed
from .refusals import in_words
from .repository import HubFile, Repository, look
from .selection import ADAPTER_CONFIG, MAX_SIDE, is_adapter, require_weights, side_files
from .snapshots import note, storage
from .transfer import Tell, arrived, fetch

RESERVE = 2**26  # bytes of the disk that are left free
MAX_CONFIG = 2**20  # bytes of config.json
UNITS = ((10**9, "GB", 1), (10**6, "MB", 0), (10**3, "kB", 0))
#: Called with the bytes present and the total; may raise, to stop.
Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """Files of one model to download, and those of the base model of an adapter."""

    source: Repository
    files: tuple[HubFile, ...]
    token: bool | None = None
    base: Plan | None = None

    @property
    def models(self) -> tuple[Plan, ...]:
        """Plan of the model, and that of its base."""
        return (self,) if self.base is None else (self, self.base)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for model in self.models for file in model.files)

    @property
    def count(self) -> int:
        """Number of files."""
        return sum(len(model.files) for model in self.models)

    @property
    def here(self) -> int:
        """Bytes that are in the cache already."""
        return sum(arrived(model.source, file) for model in self.models for file in model.files)

    @property
    def left(self) -> int:
        """Bytes that are still missing."""
        return self.size - self.here

    @property
    def sentence(self) -> str:
        """Summary of the download: files, size, and the free space on the disk."""
        words = say(
            "{model}: {size} in {count} files, of which {left} are still to come; {free} are free "
            "on the disk.",
            model=self.source.id,
            size=in_units(self.size),
            count=self.count,
            left=in_units(self.left),
            free=in_units(free_bytes()),
        )
        if self.base is None:
            return words
        under = say("It is an adapter, and {model} comes with it.", model=self.base.source.id)
        return f"{words} {under}"


def plan(
    wanted: HubId,
    *,
    allow_pickle: bool = False,
    token: bool | None = None,
    with_base: bool = True,
    allowed: Callable[[HubId], bool | None] | None = None,
) -> Plan:
    """Read the file list of a Hub model and choose its files; only the config is fetched.

    Args:
        wanted: The model.
        allow_pickle: Take pickled weights if there are no others.
        token: None for the client's own, False for none.
        with_base: Include the base model that an adapter's config names.
        allowed: Raises for a model that may not be fetched, else returns the token for it.

    Raises:
        CheckpointMissing: There is no such model or revision, or it has no weights.
        CheckpointError: Its config rules it out, or it may not be read.
        HubError: There is no network, or the response cannot be read.
    """
    if allowed is not None:
        token = allowed(wanted)
    source = look(wanted, token)
    names = [name for name in source.files if "/" not in name]
    configs = {name: source.files[name] for name in (CONFIG, ADAPTER_CONFIG) if name in names}
    for name, file in configs.items():
        if file.size > MAX_CONFIG:
            raise CheckpointError(
                say(
                    "{file} of {model} has {size}, too much for a config; it is not opened.",
                    file=name,
                    model=wanted.repo,
                    size=in_units(file.size),
                )
            )
    if CONFIG in configs:
        _refuse_config(_config(source, CONFIG, token))
    weights = require_weights(wanted.repo, list(source.files), allow_pickle)
    sides = [name for name in side_files(names) if source.files[name].size <= MAX_SIDE]
    files = tuple(source.files[name] for name in (*sides, *weights))
    below = None
    if with_base and is_adapter(names) and CONFIG not in configs:
        named = _base_of(source, token)
        below = plan(
            named, allow_pickle=allow_pickle, token=token, with_base=False, allowed=allowed
        )
    return Plan(source, files, token, below)


def download(wanted: Plan, step: Step) -> tuple[Path, Path | None]:
    """Download a plan's files; return the folder of the model and that of its base.

    Args:
        wanted: The plan.
        step: Called with the bytes present and the total. An exception it raises stops the
            download; the next one resumes it.

    Raises:
        CheckpointError: The disk has too little space, or is full; states what to do.
        HubError: The network or the Hub failed; received bytes are kept.
    """
    require_room(wanted)
    done, total = wanted.here, wanted.size

    def on_progress(more: int) -> None:
        nonlocal done
        done += more
        step(max(0, min(done, total)), total)

    below = None if wanted.base is None else _download(wanted.base, on_progress)
    folder = _download(wanted, on_progress)
    step(total, total)
    return folder, below


def _download(wanted: Plan, on_progress: Tell) -> Path:
    source = wanted.source
    with in_words(source.id):
        for file in wanted.files:
            on_progress(0)
            fetch(source, file, wanted.token, on_progress)
        note(source.id, source.commit)
    return storage(source.id.repo) / "snapshots" / source.commit


def require_room(wanted: Plan) -> None:
    """Refuse a download that does not fit on the disk.

    Raises:
        CheckpointError: States the needed and the free space, and what to do.
    """
    left, free = wanted.left, free_bytes()
    if left and left + RESERVE > free:
        raise CheckpointError(
            say(
                "{model} needs {left} more on the disk, and {free} are free; make room, or set "
                "HF_HOME to a folder on another disk.",
                model=wanted.source.id.repo,
                left=in_units(left),
                free=in_units(free),
            )
        )


def free_bytes() -> int:
    """Return the free bytes on the disk of the cache."""
    place = storage("x").parent
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


def in_units(size: int) -> str:
    """Return a number of bytes as text: 1.4 GB, 312 MB, 9 kB."""
    for unit, name, digits in UNITS:
        if size >= unit:
            return f"{size / unit:.{digits}f} {name}"
    return f"{size} B"


def _config(source: Repository, name: str, token: bool | None) -> dict[str, object]:
    with in_words(source.id):
        path = fetch(source, source.files[name], token, lambda more: None)
    return read_json(path, MAX_CONFIG)


def _base_of(source: Repository, token: bool | None) -> HubId:
    """Return the Hub model that an adapter was trained on.

    Raises:
        CheckpointError: Its config names none; states how to name one.
    """
    given = _config(source, ADAPTER_CONFIG, token).get("base_model_name_or_path")
    named = parsed(given) if isinstance(given, str) else None
    if named is None:
        raise CheckpointError(
            say(
                "{model} is an adapter, and its config names no model of the Hub; name the one "
                "that it was trained on, an id or a folder: in Python base=..., on the command "
                "line --set base=...",
                model=source.id.repo,
            )
        )
    return named


def _refuse_config(config: dict[str, object]) -> None:
    """Refuse a model that its config alone rules out, as opening the folder would."""
    from ..hugging_face.config import refuse, require_known
    from ..hugging_face.layout import is_librarys
    from ..hugging_face.library import library
    from ..hugging_face.quantized import refuse_quantized

    if not is_librarys(config):
        if config.get("auto_map"):
            refuse(config | {"model_type": ""})
        return
    refuse(config)
    refuse_quantized(config)
    with library() as transformers:
        require_known(transformers, str(config["model_type"]))
