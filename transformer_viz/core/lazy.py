"""Front doors that fetch a name when it is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str], kind: str = "names") -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names stand in modules that are not imported yet.

    Args:
        package: the package's ``__name__``.
        homes: of each name the module that holds it, as in ``".core.trace"``; a name that is no
            part of its module is the module itself.
        kind: what the error calls the names that there are.
    """

    def fetch(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; its {kind} are {', '.join(homes)}.")
        module = import_module(homes[name], package)
        value = getattr(module, name, module)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
