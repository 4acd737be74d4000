"""Adapter folders as the peft library saves them: what was learned, and which model it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from .errors import CheckpointError
from .reading import read_config, read_weights, refuse_non_finite

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
PREFIX = "base_model.model."  # what peft puts before the names of the model that it wraps


@dataclass(frozen=True, eq=False)
class Adapter:
    """What an adapter folder holds: the words of its config, and its tensors by the name of the
    part of the model that they belong to."""

    path: Path
    words: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().parent.name

    @property
    def kind(self) -> str:
        """What peft calls this sort of adapter: ``LORA``, ``IA3``."""
        return str(self.words.get("peft_type", "")).upper()


def weights_of(folder: Path) -> Path | None:
    """The file of an adapter's weights in a folder; None in a folder that holds no adapter."""
    if not (folder / CONFIG).is_file():
        return None
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def is_adapter(path: Path) -> bool:
    """Whether a weights file is that of an adapter."""
    return path.name in WEIGHTS and (path.parent / CONFIG).is_file()


def read_adapter(path: Path, allow_nonfinite: bool = False) -> Adapter:
    """The adapter whose weights stand in a file.

    Raises:
        CheckpointError: a file that is unsafe or damaged, or numbers that are not finite.
    """
    weights = read_weights(path)
    for name, tensor in weights.tensors.items() if not allow_nonfinite else ():
        refuse_non_finite(name, tensor, path)
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in weights.tensors.items()}
    return Adapter(path, read_config(path.parent / CONFIG), tensors)


def base_of(path: Path, given: object) -> str | Path:
    """Where the model of an adapter stands: a folder, a file, or a name in the box.

    Args:
        path: the adapter's weights.
        given: what the user named; None for what the adapter's config names (as it stands, in the
            adapter's folder, or beside it) or its folder holds; False for its folder alone, where
            a config may not lead elsewhere.

    Raises:
        CheckpointError: there is none; says which model the adapter is for.
    """
    if isinstance(given, str | Path):
        return given
    folder = path.parent
    if (folder / "config.json").is_file():
        return folder
    named = str(read_config(folder / CONFIG).get("base_model_name_or_path") or "")
    if named and given is not False:
        beside = folder.resolve().parent / Path(named).name
        for place in (Path(named), folder / named, beside):
            if place != folder and _is_model(place):
                return place
    raise CheckpointError(
        f"{folder.resolve().name} holds an adapter and not the model that it changes"
        f"{f' ({named})' if named else ''}; give the folder of that model: base=FOLDER, on the "
        "command line --set base=FOLDER."
    )


def _is_model(place: Path) -> bool:
    try:
        return (place / "config.json").is_file()
    except (OSError, ValueError):  # a name of the Hub may be no path here
        return False
