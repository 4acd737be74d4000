"""A place-holder for packages that others import and small models never call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The first cannot be loaded beside a PyTorch without GPU, the second logs what is trained.
ABSENT = ("torchvision", "wandb")


class Names(type):
    """A class that has every name, as an enumeration would."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Thing(metaclass=Names):
    """Whatever is imported from there; it cannot be made."""

    def __init__(self, *_: Any, **__: Any):
        raise RuntimeError(f"{type(self).__name__} is of a package that is not installed here")


class Empty(ModuleType):
    """A module that has every name."""

    __path__: Sequence[str] = ()
    __version__ = "0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Names(name, (Thing,), {})


class Finder(MetaPathFinder, Loader):
    """Finds all modules of the absent packages."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.split(".")[0] not in ABSENT:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def stand_in() -> None:
    """Let packages import what is absent."""
    sys.meta_path.append(Finder())
