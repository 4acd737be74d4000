"""What the scripts say, so that data can bring it along in the visitor's language."""

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

#: ``tell("...")``, where a long text may be written in parts: ``tell("..." + "...")``.
TELL = re.compile(r'\btell\(\s*((?:"(?:[^"\\]|\\.)*"\s*\+\s*)*"(?:[^"\\]|\\.)*")')
PART = re.compile(r'"(?:[^"\\]|\\.)*"')

_taught: ContextVar[bool] = ContextVar("taught", default=False)


@cache
def browser_texts() -> frozenset[str]:
    """The English texts of all scripts: what stands first in ``tell("...")``."""
    sources = map(text, scripts())
    return frozenset(_whole(found) for source in sources for found in TELL.findall(source))


def _whole(literals: str) -> str:
    return "".join(json.loads(part) for part in PART.findall(literals))


def browser_words() -> dict[str, Any]:
    """What a header adds for `tell.js`: nothing in English, else the language, and its texts as
    ``{"texts": English to ours}``."""
    language = spoken_language()
    if language == ENGLISH:
        return {}
    texts: dict[str, Any] = {"lang": language}
    return texts if _taught.get() else texts | {"texts": _texts(language)}


@contextmanager
def taught() -> Iterator[None]:
    """Inside, headers bring no texts along: the browser that they go to has learnt them."""
    before = _taught.set(True)
    try:
        yield
    finally:
        _taught.reset(before)


@cache
def _texts(language: str) -> dict[str, str]:
    found = catalogue(language)
    return {english: found[english] for english in sorted(browser_texts()) if english in found}
