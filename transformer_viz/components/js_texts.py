"""Texts of the scripts, sent with the data in the user's language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from ..i18n import ENGLISH, catalogue, spoken_language
from .bundle import scripts, text

#: ``tell("...")``, including long texts in parts: ``tell("..." + "...")``.
TELL = re.compile(r'\btell\(\s*((?:"(?:[^"\\]|\\.)*"\s*\+\s*)*"(?:[^"\\]|\\.)*")')
PART = re.compile(r'"(?:[^"\\]|\\.)*"')

_taught: ContextVar[bool] = ContextVar("taught", default=False)


@cache
def browser_texts() -> frozenset[str]:
    """Return the English texts of all scripts: the first argument of ``tell("...")``."""
    sources = map(text, scripts())
    return frozenset(_whole(found) for source in sources for found in TELL.findall(source))


def _whole(literals: str) -> str:
    return "".join(json.loads(part) for part in PART.findall(literals))


def browser_words() -> dict[str, Any]:
    """Return the header fields for `tell.js`: language and texts; empty for English.

    Texts are ``{"texts": English to the language}``.
    """
    language = spoken_language()
    if language == ENGLISH:
        return {}
    texts: dict[str, Any] = {"lang": language}
    return texts if _taught.get() else texts | {"texts": _texts(language)}


@contextmanager
def taught() -> Iterator[None]:
    """Omit texts from headers within this context, for a browser that already has them."""
    before = _taught.set(True)
    try:
        yield
    finally:
        _taught.reset(before)


@cache
def _texts(language: str) -> dict[str, str]:
    found = catalogue(language)
    return {english: found[english] for english in sorted(browser_texts()) if english in found}
