"""Schema of a trace file: contents are checked before they are used in computations.

Trace files are untrusted. Sizes in them (rows, layers, sizes of a dtype) could exhaust memory
before any other check fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import whole

MOST_TEXT = 24_000_000  # characters of the JSON text
MOST_ARRAYS = 200_000
MAX_DEPTH = 64  # nested brackets
MAX_WHOLE = 2**63  # upper bound of whole numbers
MOST_PLACES = 100_000  # upper bound of layer and head numbers
MOST_ROWS = 2**24  # tokens of one text
MAX_AXES = 4
#: Number of axes by the first part of an array's name.
AXES = {
    **dict.fromkeys(("attention", "scores", "gradients"), 3),
    **dict.fromkeys(("norm", "residual", "heads", "gain", "bias"), 1),
    "thumbnail": 4,
    "hidden": 2,
}
#: Fields of the file, and the type of each.
WORDS: dict[str, type | tuple[type, ...]] = {
    "source": dict,
    "target": (dict, type(None)),
    "produced": (dict, type(None)),
    "sites": list,
    "intervention": str,
    "report": dict,
    "manifest": dict,
    "frames": dict,
    "thumbnails": list,
    "hiddens": dict,
    "positions": list,
    "gains": list,
}
NUMBERS = re.compile(r"(float|int|uint)(8|16|32|64)|bool")  # numpy dtypes without a size
TABLES = re.compile(r"([Ff]loat|U?[Ii]nt|uint)(8|16|32|64)|bool|boolean|object|category|str|string")


class FormError(ValueError):
    """A trace file violates its schema."""


def require_words(words: Mapping[str, Any]) -> None:
    """Raise if fields of a trace file violate the schema.

    Raises:
        FormError: The message names the field.
    """
    _require_plain(words)
    for word, kind in WORDS.items():
        if word in words and not isinstance(words[word], kind):
            raise FormError(f"{word!r} is a {type(words[word]).__name__}")
    for place in (*words.get("sites", ()), *words.get("tiles", ())):
        for word in ("layer", "head"):
            _require_whole(word, place.get(word), MOST_PLACES)
    for place in words.get("tiles", ()):
        for part in place["parts"]:
            for word in ("first_head", "first_row", "queries"):
                _require_whole(word, part.get(word), MOST_ROWS)
            if type(part.get("sinks", False)) is not bool:
                raise FormError(f"'sinks' is {str(part['sinks'])[:40]}")
    _require_image(words.get("manifest", {}).get("image"))
    for word in ("probability", "rank"):
        found = (words.get("produced") or {}).get(word, {"dtype": "float32"})
        if not NUMBERS.fullmatch(str(found["dtype"])):
            raise FormError(f"{word!r} is of type {str(found['dtype'])[:40]!r}")
    for name, table in words.get("frames", {}).items():
        for column, kind in table["dtypes"].items():
            if not TABLES.fullmatch(str(kind)):
                raise FormError(f"{name!r} has {str(column)[:40]!r} of type {str(kind)[:40]!r}")
        for row in table.get("runs", ()):
            if not isinstance(row, list) or type(row[-1]) is not int or row[-1] < 0:
                raise FormError(f"{name!r} has a run without rows")


def require_array(name: str, shape: Sequence[int]) -> None:
    """Raise if the axes of an array do not match its name.

    Raises:
        FormError: The message names the array.
    """
    wanted = AXES.get(name.partition(".")[0])
    blank = name.startswith("thumbnail.") and 0 in shape
    if len(shape) > MAX_AXES or wanted not in (None, len(shape)) or blank:
        raise FormError(f"{name[:60]!r} has the axes {[*shape][:8]}")


def require_places(table: Mapping[str, Any]) -> None:
    """Raise if layer or head numbers would need larger tables than the file.

    Raises:
        FormError: The message names the column.
    """
    for word in ("layer", "head"):
        for value in set(table.get(word, ())):
            if value == value and value is not None and not abs(value) < MOST_PLACES:
                raise FormError(f"{word!r} is {value}")


def _require_whole(word: str, value: Any, most: int) -> None:
    if value is not None and not (type(value) is int and 0 <= value < most):
        raise FormError(f"{word!r} is {str(value)[:40]}")


def _require_image(cut: Any) -> None:
    """Raise if an image has more patches than a text can have tokens."""
    if cut:
        rows, columns = cut["grid"]
        for word, value in (("prefix", cut["prefix"]), ("rows", rows), ("columns", columns)):
            if value is None:
                raise FormError(f"{word!r} is missing")
            _require_whole(word, value, MOST_PLACES)
        _require_whole("grid", rows * columns, MOST_ROWS)


def _require_plain(words: Any) -> None:
    """Raise on too deep nesting, too large numbers and lone surrogates; without recursion."""
    level, depth = [words], 0
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item)
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, int) and not -MAX_WHOLE <= item < MAX_WHOLE:
                raise FormError("a number is too large")
            elif isinstance(item, str) and not whole(item):
                raise FormError("a text holds half a character")
        level, depth = inner, depth + 1
        if depth > MAX_DEPTH:
            raise FormError(f"more than {MAX_DEPTH} brackets stand in brackets")
