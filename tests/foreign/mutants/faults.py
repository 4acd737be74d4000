"""The list of faults, and a Python in which one of them stands in the probe's source."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE.parents[2] / "transformer_viz"
CAPTURE = PACKAGE / "capture"
LISTS = ("probe.toml", "handlers.toml")
FAULT = "TRANSFORMER_VIZ_FAULT"  # names a fault in the environment


@dataclass(frozen=True)
class Fault:
    """One line of a file below `capture`, or of ``core/``, that is wrong; what that ``breaks``."""

    name: str
    file: str
    old: str
    new: str
    breaks: str

    @property
    def module(self) -> str:
        """The full name of the module that the file is."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def path(self) -> Path:
        """Where the file stands."""
        return (PACKAGE if self.file.startswith("core/") else CAPTURE) / self.file

    def source(self) -> str:
        """The file with the fault in it.

        Raises:
            ValueError: the old text does not stand there exactly once.
        """
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(
                f"The fault {self.name!r} changes {self.old!r}, which stands in {self.file} "
                f"{text.count(self.old)} times; write its old text anew."
            )
        return text.replace(self.old, self.new)


@cache
def faults() -> tuple[Fault, ...]:
    """All faults, file by file."""
    files = {}
    for name in LISTS:
        files |= tomllib.loads((HERE / name).read_text(encoding="utf-8"))
    return tuple(
        Fault(name, file, *texts) for file, some in files.items() for name, texts in some.items()
    )


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from other text than its file holds; nothing is written or kept."""

    def __init__(self, name: str, path: str, text: str):
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> Any:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module, with a fault in it."""

    def __init__(self, fault: Fault):
        self.fault, self.text = fault, fault.source()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.fault.module:
            return None
        loader = Loader(name, str(self.fault.path), self.text)
        return importlib.util.spec_from_loader(name, loader)


def put(fault: Fault | None) -> None:
    """Let the package be imported anew in this process, with a fault in it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformer_viz"]:
        del sys.modules[name]
    if fault is not None:
        sys.meta_path.insert(0, Finder(fault))
