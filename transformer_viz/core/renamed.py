"""Names that changed inside a module: the old ones still open, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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


def accept_old_keywords(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets a function still be called with keywords of older versions.

    Args:
        names: of each old keyword the new one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                new = names[old]
                if new in kwargs:
                    raise TypeError(f"Both {old}= and {new}= were given; give {new}=.")
                warnings.warn(
                    f"{old}= is {new}= now; the old one goes with the next minor release.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
