"""Names that changed inside a module: the old ones still open, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module in which names changed (PEP 562).

    Args:
        module: the module's ``__name__``.
        names: of each old name the new one, which the module holds.
    """

    def fetch(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is {names[name]} now; the old name goes with the next minor release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return fetch
