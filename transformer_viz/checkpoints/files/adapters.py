"""Adapter folders as the peft library saves them: learned weights and the base model's name."""

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
PREFIX = "base_model.model."  # prefix that peft adds to the names of the wrapped model


@dataclass(frozen=True, eq=False)
class Adapter:
    """Content of an adapter folder: its config, and its tensors by name of the part that they
    change.
    """

    path: Path
    words: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.path.resolve().parent.name

    @property
    def kind(self) -> str:
        """Type of the adapter in peft: ``LORA``, ``IA3``."""
        return str(self.words.get("peft_type", "")).upper()


def weights_of(folder: Path) -> Path | None:
    """Return the weights file of an adapter in a folder; None for a folder without an adapter."""
    if not (folder / CONFIG).is_file():
        return None
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def is_adapter(path: Path) -> bool:
    """Return True if a weights file is that of an adapter."""
    return path.name in WEIGHTS and (path.parent / CONFIG).is_file()


def read_adapter(path: Path, allow_nonfinite: bool = False) -> Adapter:
    """Return the adapter with these weights.

    Raises:
        CheckpointError: The file is unsafe or damaged, or has numbers that are not finite.
    """
    weights = read_weights(path)
    for name, tensor in weights.tensors.items() if not allow_nonfinite else ():
        refuse_non_finite(name, tensor, path)
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in weights.tensors.items()}
    return Adapter(path, read_config(path.parent / CONFIG), tensors)


def base_of(path: Path, given: object) -> str | Path:
    """Return the base model of an adapter: a folder, a file, or the name of a bundled model.

    Args:
        path: Weights of the adapter.
        given: Base named by the user. None takes the model beside the adapter, or the one in its
            config
            (as written, in the adapter's folder, or beside it). False takes only a model in the
            adapter's folder, where a config may not lead elsewhere.

    Raises:
        CheckpointError: There is none; names the model that the adapter is for.
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
