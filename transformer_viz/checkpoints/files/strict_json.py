"""Strict JSON parser for untrusted files: bounded numbers, no duplicate keys, bounded nesting."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from .errors import CheckpointError

MAX_WHOLE = 2**63  # whole numbers stay below this
MAX_DIGITS = 100  # of any number
MAX_DEPTH = 64  # nested brackets


def read_json(path: Path, most: int) -> dict[str, Any]:
    """Return the object in a JSON file of at most ``most`` bytes.

    Raises:
        CheckpointError: The file is too large, not JSON, not an object, has a key twice, or a
            number
            that is not finite or too long.
    """
    try:
        size = path.stat().st_size
        if size > most:
            raise CheckpointError(f"{path.name} has {size:,} bytes, and {most:,} are the most.")
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path.name} cannot be read ({error.strerror}); check its permissions."
        ) from error
    return parse(content, path.name)


def parse(content: bytes, name: str) -> dict[str, Any]:
    """Return the object in JSON bytes; ``name`` names the file in errors."""
    try:
        text = content.decode("utf-8-sig")
        words = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_whole,
        )
        if _depth(words) > MAX_DEPTH:
            raise RecursionError
    except RecursionError as error:
        raise CheckpointError(
            f"{name} nests more than {MAX_DEPTH} brackets in brackets. Mend or remove it."
        ) from error
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        if isinstance(error, UnicodeDecodeError):
            reason = f"byte {error.start} is no UTF-8"
        raise CheckpointError(f"{name} is not JSON: {reason}. Mend or remove it.") from error
    if not isinstance(words, dict):
        kind = "nothing (null)" if words is None else f"a {type(words).__name__}"
        raise CheckpointError(f"{name} holds {kind}; expected a JSON object.")
    return words


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    words = dict(pairs)
    if len(words) < len(pairs):
        word = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the word {word[:80]!r} stands in it twice")
    return words


def _constant(word: str) -> Any:
    raise ValueError(f"it holds {word}, which is no finite number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text[:40]}, which is no finite number")
    return number


def _whole(text: str) -> int:
    if len(text) < 19:
        return int(text)
    if len(text) > MAX_DIGITS or not -MAX_WHOLE < int(text) < MAX_WHOLE:
        raise ValueError(f"it holds the whole number {text[:40]}, which is too large")
    return int(text)


def _depth(value: Any) -> int:
    """Return the depth of nested brackets; counting stops beyond the allowed depth."""
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict | list):
                inner.extend(item.values() if isinstance(item, dict) else item)
        depth, level = depth + bool(any(isinstance(i, dict | list) for i in level)), inner
    return depth
