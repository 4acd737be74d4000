"""Limits for a ``tokenizer.json``: steps and templates with bounded work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .regex_cost import is_cheap

MAX_GROWTH = 4096  # factor by which a text may grow in the steps
MAX_TEMPLATE = 64  # special tokens that a tokenizer may add around one text
MAX_PADDED = 2**16  # tokens to which it may pad one


def refuse_steps(path: Path) -> None:
    """Refuse a ``tokenizer.json`` that would fill the memory, or take hours, with a short text.

    Raises:
        ValueError: Names the step.
    """
    growth = 1
    whole = read_object(path)
    for step in _steps([whole.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")]):
        written = _regex(step)
        if written is not None and not is_cheap(written):
            raise ValueError(f"its pattern {written[:60]!r} may take very long on some texts")
        growth *= _growth(step)
        if growth > MAX_GROWTH:
            raise ValueError(f"its steps may make a text {MAX_GROWTH:,} times as long and more")
    added = sum(_added(step) for step in _steps(whole.get("post_processor")))
    if added > MAX_TEMPLATE:
        raise ValueError(
            f"it puts {added:,} special tokens around a text, and {MAX_TEMPLATE} are the most"
        )
    for step in _steps(whole.get("padding")):
        for word in ("Fixed", "pad_to_multiple_of"):  # its other numbers are ids, of any size
            value = step.get(word)
            if isinstance(value, int) and value > MAX_PADDED:
                raise ValueError(f"it pads to {value:,} tokens, and {MAX_PADDED:,} are the most")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a tokenizer file, with numbers of any size; empty without one."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a part of ``tokenizer.json``, at any depth."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from _steps(inner)


def _regex(step: dict[str, Any]) -> str | None:
    """Return the regular expression of one step, or None."""
    pattern = step.get("pattern")
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    return None if found is None else str(found)


def _growth(step: dict[str, Any]) -> int:
    """Return the factor by which a text may grow in one step."""
    written = step.get("content", step.get("prepend"))
    if step.get("type") in ("Replace", "Prepend") and isinstance(written, str):
        return max(1, len(written))
    return 2 if step.get("type") in ("ByteLevel", "Precompiled") else 1


def _added(step: dict[str, Any]) -> int:
    """Return the number of special tokens that one step may add around a text or a pair."""
    if step.get("type") != "TemplateProcessing":
        return 0
    known = step.get("special_tokens")
    tokens = known.values() if isinstance(known, dict) else ()
    widest = max(
        (len(token.get("ids", ())) for token in tokens if isinstance(token, dict)), default=1
    )
    sides = (step.get("single"), step.get("pair"))
    return max(len(side) if isinstance(side, list) else 0 for side in sides) * max(1, widest)
