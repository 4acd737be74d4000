"""The languages of the interface: English in the code, every other one in a file of its own here.

``say("text")`` gives a text in the present language. The English text itself is its name, so a
text that a language lacks is read in English. A third language is one file: ``xx.json``, with
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
NAME = "language"  # in a file: what a language calls itself


def mark(text: str) -> str:
    """The same text, noted for translation: for constants that are said later."""
    return text


#: How thousands are parted; the point before tenths is the same in all languages, as in pictures.
THOUSAND = mark("1,000")
#: How a percent sign follows its number; in German behind a narrow space.
PERCENT = mark("1%")

#: Letters that are written from right to left, and what sets words apart from their surroundings.
RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
ISOLATE, ISOLATE_END = "\u2068", "\u2069"

_present: ContextVar[str] = ContextVar("language", default=ENGLISH)


def say(text: str, /, **values: Any) -> str:
    """A text in the present language, with ``values`` in the places of its ``{names}``.

    The first argument is a literal, or was marked with :func:`mark` where it stands: a test reads
    both from the source and compares them with what every language has.
    """
    ours = catalogue(_present.get())
    found = ours.get(text, text)
    return _Numbers(ours).vformat(found, (), values) if values else found


def numeral(number: Any, spec: str) -> str:
    """A number as the present language writes it, for a cell or a label that is no sentence.

    Args:
        number: the number.
        spec: as behind the colon of a format, such as ``,`` or ``.0%``.
    """
    return _Numbers(catalogue(_present.get())).format_field(number, spec)


class _Numbers(Formatter):
    """Writes thousands (``{count:,}``), percent (``{share:.0%}``) and minus as a language does."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._mark = texts.get(THOUSAND, THOUSAND)[1]
        self._percent = texts.get(PERCENT, PERCENT)[1:]

    def format_field(self, value: Any, format_spec: str) -> str:
        written: str = super().format_field(value, format_spec)
        if isinstance(value, str) and RIGHT_TO_LEFT.search(written):
            # Else a number behind such a word is drawn on its other side, at another word.
            return f"{ISOLATE}{written}{ISOLATE_END}"
        if "," in format_spec:
            written = written.replace(",", self._mark)
        if written.startswith("-") and isinstance(value, Real):
            written = f"−{written[1:]}"  # as pictures write it
        if format_spec.endswith("%"):
            written = written.removesuffix("%") + self._percent
        return written


def join_words(words: Iterable[str]) -> str:
    """Words one after another, parted as the present language parts them."""
    return say(", ").join(words)


def speak(language: str) -> None:
    """Use a language in this thread from now on; an unknown one is English."""
    _present.set(language if language in languages() else ENGLISH)


def spoken_language() -> str:
    """The present language's code, such as ``en``."""
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
    """The languages there are: code to its own name, English first."""
    others = {path.stem: catalogue(path.stem)[NAME] for path in sorted(HERE.glob("*.json"))}
    return {ENGLISH: "English", **others}


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """English texts to those of a language; empty for English itself."""
    path = HERE / f"{language}.json"
    if language == ENGLISH or not path.is_file():
        return {}
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return {text: ours for text, ours in found.items() if ours}  # an empty one is still to come
