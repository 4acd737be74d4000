"""Type checks for data classes read from a file."""

from __future__ import annotations

import dataclasses
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

#: Accepted types of a number: JSON does not distinguish 1 and 1.0.
WIDER: dict[type, tuple[type, ...]] = {float: (float, int)}
CHECKED = (int, float, str, bool, NoneType)


def require_types(thing: Any) -> None:
    """Raise if a field of a data class is not of its type; only plain types are checked.

    Checks ``tuple[X, ...]``, ``dict[K, V]``, ``X | None`` and nested data classes recursively.

    Raises:
        TypeError: A field has another type. The message names the field.
    """
    for name, kind in _fields(thing.__class__):
        if not _fits(getattr(thing, name), kind):
            raise TypeError(f"{type(thing).__name__}.{name}")


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(kind))


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(key, inner[0]) and _fits(one, inner[1]) for key, one in value.items()
        )
    if kind in CHECKED:
        is_truth = isinstance(value, bool)
        return isinstance(value, WIDER.get(kind, kind)) and (not is_truth or kind is bool)
    if dataclasses.is_dataclass(kind) and dataclasses.is_dataclass(value):
        require_types(value)
    return isinstance(value, kind) if isinstance(kind, type) else True
