"""What fetching a model of the Hub would bring, and its refusal before anything large comes."""

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
from .selection import (
    ADAPTER_CONFIG,
    MAX_SIDE,
    is_adapter,
    refuse_kind,
    require_weights,
    side_files,
)
from .snapshots import note
from .transfer import arrived, fetch, storage

RESERVE = 2**26  # bytes of the disk that are left free
MAX_CONFIG = 2**20  # bytes of config.json
UNITS = ((10**9, "GB", 1), (10**6, "MB", 0), (10**3, "kB", 0))
#: Told bytes that are done and bytes in all; may raise, to stop.
Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """What is to be fetched of one model, and of the model below it where it is an adapter."""

    source: Repository
    files: tuple[HubFile, ...]
    token: bool | None = None
    base: Plan | None = None

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files) + (self.base.size if self.base else 0)

    @property
    def count(self) -> int:
        """How many files."""
        return len(self.files) + (self.base.count if self.base else 0)

    @property
    def here(self) -> int:
        """Bytes of them that lie in the cache already."""
        mine = sum(arrived(self.source, file) for file in self.files)
        return mine + (self.base.here if self.base else 0)

    @property
    def left(self) -> int:
        """Bytes that are still to come."""
        return self.size - self.here

    @property
    def sentence(self) -> str:
        """What it is, how large, and how much room there is."""
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
    """Look at a model of the Hub and decide which of its files are needed.

    Of its files only config.json is fetched here.

    Args:
        wanted: the model.
        allow_pickle: whether pickled weights may be taken where there are no others.
        token: None is the client's own, False none.
        with_base: of an adapter, the model that its config names too.
        allowed: raises for a model that may not be fetched, and gives the token for one that may.

    Raises:
        CheckpointMissing: no such model or revision, or one without weights.
        CheckpointError: it cannot be opened, as its config tells; or it may not be read.
        HubError: no network, or an answer that is none.
    """
    if allowed is not None:
        token = allowed(wanted)
    source = look(wanted, token)
    names = [name for name in source.files if "/" not in name]
    refuse_kind(wanted.repo, names)
    for name in (CONFIG, ADAPTER_CONFIG):
        if name in names and source.files[name].size > MAX_CONFIG:
            raise CheckpointError(
                say(
                    "{file} of {model} has {size}, too much for a config; it is not opened.",
                    file=name,
                    model=wanted.repo,
                    size=in_units(source.files[name].size),
                )
            )
    if CONFIG in names:
        _refuse_config(_config(source, CONFIG, token))
    weights = require_weights(wanted.repo, list(source.files), allow_pickle)
    sides = [name for name in side_files(names) if source.files[name].size <= MAX_SIDE]
    files = tuple(source.files[name] for name in (*sides, *weights))
    below = None
    if with_base and is_adapter(names) and CONFIG not in names:
        named = _base_of(source, token)
        below = plan(
            named, allow_pickle=allow_pickle, token=token, with_base=False, allowed=allowed
        )
    return Plan(source, files, token, below)


def download(wanted: Plan, step: Step) -> tuple[Path, Path | None]:
    """Fetch what a plan names: the folder of the model, and that of the model below an adapter.

    Args:
        wanted: the plan.
        step: is told bytes that are here and bytes in all; what it raises stops the transfer, and
            the next one goes on from there.

    Raises:
        CheckpointError: too little room, or a full disk; says what to do.
        HubError: the network or the Hub failed; what came is kept.
    """
    require_room(wanted)
    done, total = wanted.here, wanted.size

    def tell(more: int) -> None:
        nonlocal done
        done += more
        step(max(0, min(done, total)), total)

    below = None if wanted.base is None else _download(wanted.base, tell)
    folder = _download(wanted, tell)
    step(total, total)
    return folder, below


def _download(wanted: Plan, on_progress: Callable[[int], None]) -> Path:
    source = wanted.source
    with in_words(source.id):
        for file in wanted.files:
            on_progress(0)
            fetch(source, file, wanted.token, on_progress)
        note(source.id, source.commit)
    return storage(source.id.repo) / "snapshots" / source.commit


def require_room(wanted: Plan) -> None:
    """Refuse what the disk cannot hold, before it is full.

    Raises:
        CheckpointError: says how much is needed, how much is free, and what to do.
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
    """Bytes that are free on the disk of the cache."""
    place = storage("x").parent
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def in_units(size: int) -> str:
    """A number of bytes as a reader takes it: 1.4 GB, 312 MB, 9 kB."""
    for unit, name, digits in UNITS:
        if size >= unit:
            return f"{size / unit:.{digits}f} {name}"
    return f"{size} B"


def _config(source: Repository, name: str, token: bool | None) -> dict[str, object]:
    with in_words(source.id):
        path = fetch(source, source.files[name], token, lambda more: None)
    return read_json(path, MAX_CONFIG)


def _base_of(source: Repository, token: bool | None) -> HubId:
    """The model of the Hub that an adapter was trained on.

    Raises:
        CheckpointError: its config names none; says how to name one.
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
    """Refuse what the config alone rules out, as opening the folder would."""
    from ..hugging_face.config import refuse, require_known
    from ..hugging_face.layout import is_librarys
    from ..hugging_face.library import library
    from ..hugging_face.quantized import refuse_quantized

    if config.get("auto_map") and not is_librarys(config):
        config = config | {"model_type": ""}
        refuse(config)
    if not is_librarys(config):
        return
    refuse(config)
    refuse_quantized(config)
    with library() as transformers:
        require_known(transformers, str(config["model_type"]))
