"""What a hostile file is here: how it is made, and what must be said about it."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from tests.checkpoints.test_loader import BOTH, ramp_model


@dataclass(frozen=True)
class Case:
    """A file or folder that ``make`` puts below a folder, and a pattern of its refusal.

    ``make`` gets the folder and the path of a canary, which appears if anything in the file is
    run, and gives the path to open. ``heavy`` cases are opened in a process of their own, whose
    memory is measured.
    """

    name: str
    make: Callable[[Path, Path], Path]
    message: str
    heavy: bool = False


class Call:
    """Pickles as a call: whoever opens the file carelessly makes it."""

    def __init__(self, function: Any, *args: Any):
        self.reduced = (function, args)

    def __reduce__(self) -> Any:
        return self.reduced


class Filled(Call):
    """Pickles as a call whose result is then filled with a state, whatever it is."""

    def __init__(self, function: Any, args: tuple[Any, ...], state: Any):
        self.reduced = (function, args, state)


def shell(canary: Path) -> Any:
    """A pickle that would have the shell make the canary."""
    return Call(os.system, f"touch {canary}")


def state(**changes: Any) -> dict[str, Any]:
    """The weights of a tiny sound model, some replaced, added, or (None) left out."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    whole = dict(ramp_model().state_dict()) | named
    return {name: value for name, value in whole.items() if value is not None}


def folder_of(folder: Path, weights: Any = None, **words: Any) -> Path:
    """A folder with a weights file and the words of a tiny model, some of them changed."""
    folder.mkdir(exist_ok=True)
    torch.save(state() if weights is None else weights, folder / "w.pt")
    (folder / "config.json").write_text(json.dumps({"layout": "transformer_viz"} | BOTH | words))
    return folder


def saved(content: Any, name: str = "w.pt", **options: Any) -> Callable[[Path, Path], Path]:
    """A maker of a file of torch.save; content may be a function of the canary."""

    def make(folder: Path, canary: Path) -> Path:
        torch.save(
            content(canary) if isinstance(content, FunctionType) else content,
            folder / name,
            **options,
        )
        return folder / name

    return make


def written(content: bytes, name: str = "w.pt") -> Callable[[Path, Path], Path]:
    """A maker of a file with these bytes."""

    def make(folder: Path, canary: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def pickled(body: bytes, records: dict[str, bytes] | None = None) -> Callable[[Path, Path], Path]:
    """A maker of a zip as torch.save writes it, around a pickle written by hand."""

    def make(folder: Path, canary: Path) -> Path:
        with zipfile.ZipFile(folder / "w.pt", "w") as archive:
            archive.writestr("w/data.pkl", b"\x80\x02" + body)
            archive.writestr("w/version", b"3\n")
            for name, content in (records or {}).items():
                archive.writestr(f"w/{name}", content)
        return folder / "w.pt"

    return make


def configured(text: str | bytes) -> Callable[[Path, Path], Path]:
    """A maker of a sound weights file beside a config.json with this text."""

    def make(folder: Path, canary: Path) -> Path:
        folder_of(folder)
        content = text if isinstance(text, bytes) else text.encode()
        (folder / "config.json").write_bytes(content)
        return folder

    return make


def worded(**words: Any) -> Callable[[Path, Path], Path]:
    """A maker of a sound weights file beside a config.json with some words changed."""
    return lambda folder, canary: folder_of(folder, **words)


def weighted(**changes: Any) -> Callable[[Path, Path], Path]:
    """A maker of a sound config.json beside weights of which some are changed."""
    return lambda folder, canary: folder_of(folder, state(**changes))


def header(entries: Any, data: bytes = b"", padding: int = 0) -> bytes:
    """The bytes of a safetensors file with this header (a text, or what becomes JSON)."""
    text = (entries if isinstance(entries, str) else json.dumps(entries)).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + data


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a zip with these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()
