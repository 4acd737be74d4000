"""Languages of the interface: English in the code, each other one in a JSON file of this folder.

``say("text")`` returns a text in the current language. The English text is the key, so a text
missing from a language is shown in English. A further language is one file: ``xx.json``, with
``"language"`` for its own name and a translation for each English text of ``zh.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Real
from pathlib import Path
from string import Formatter
from typing import Any

HERE = Path(__file__).parent
ENGLISH = "en"
NAME = "language"  # key of a language's own name in its file


def mark(text: str) -> str:
    """Return the text unchanged, marked for translation; for constants translated later."""
    return text


#: Thousands separator; the decimal point is the same in all languages, as in pictures.
THOUSAND = mark("1,000")
#: Number with a percent sign; German has a narrow space before the sign.
PERCENT = mark("1%")

#: Letters written from right to left, and marks that isolate text from its surroundings.
RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
ISOLATE, ISOLATE_END = "\u2068", "\u2069"

_present: ContextVar[str] = ContextVar("language", default=ENGLISH)


def say(text: str, /, **values: Any) -> str:
    """Return a text in the current language, with ``values`` inserted for its ``{names}``.

    The first argument is a literal, or was marked with :func:`mark`. A test reads both from the
    source and compares them with the texts of every language.
    """
    ours = catalogue(_present.get())
    found = ours.get(text, text)
    return _Numbers(ours).vformat(found, (), values) if values else found


def numeral(number: Any, spec: str) -> str:
    """Return a number in the format of the current language, for a cell or a label.

    Args:
        number: The number.
        spec: Format specification after the colon, such as ``,`` or ``.0%``.
    """
    return _Numbers(catalogue(_present.get())).format_field(number, spec)


class _Numbers(Formatter):
    """Formatter of thousands (``{count:,}``), percent (``{share:.0%}``) and minus by language."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._mark = texts.get(THOUSAND, THOUSAND)[1]
        self._percent = texts.get(PERCENT, PERCENT)[1:]

    def format_field(self, value: Any, format_spec: str) -> str:
        written: str = super().format_field(value, format_spec)
        if isinstance(value, str) and RIGHT_TO_LEFT.search(written):
            # Otherwise a number after such a word is drawn on its other side, next to another word.
            return f"{ISOLATE}{written}{ISOLATE_END}"
        if "," in format_spec:
            written = written.replace(",", self._mark)
        if written.startswith("-") and isinstance(value, Real):
            written = f"−{written[1:]}"  # as in pictures
        if format_spec.endswith("%"):
            written = written.removesuffix("%") + self._percent
        return written


def join_words(words: Iterable[str]) -> str:
    """Return words joined with the separator of the current language."""
    return say(", ").join(words)


def speak(language: str) -> None:
    """Set the language of this thread; an unknown one is English."""
    _present.set(language if language in languages() else ENGLISH)


def spoken_language() -> str:
    """Return the code of the current language, such as ``en``."""
    return _present.get()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Use a language inside ``with``."""
    before = _present.set(language if language in languages() else ENGLISH)
    try:
        yield
    finally:
        _present.reset(before)


@cache
def languages() -> dict[str, str]:
    """Return the available languages: code to its own name, English first."""
    others = {path.stem: catalogue(path.stem)[NAME] for path in sorted(HERE.glob("*.json"))}
    return {ENGLISH: "English", **others}


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return the translations of a language by English text; empty for English."""
    path = HERE / f"{language}.json"
    if language == ENGLISH or not path.is_file():
        return {}
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return {text: ours for text, ours in found.items() if ours}  # empty: not translated yet
