"""Lazy package attributes, imported on first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str], kind: str = "names") -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose modules are imported on first use.

    Args:
        package: The package's ``__name__``.
        homes: Module of each name, as in ``".core.trace"``. A name that is no attribute of its
            module stands for the module itself.
        kind: Term for the names in the error message.
    """

    def fetch(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; its {kind} are {', '.join(homes)}.")
        module = import_module(homes[name], package)
        value = getattr(module, name, module)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
