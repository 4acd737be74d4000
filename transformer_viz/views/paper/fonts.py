"""Font lookup by character, and install advice for missing characters.

DejaVu Sans comes with matplotlib and is preferred. For any other character the fonts of the
computer are searched by the characters that they contain, whatever their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from unicodedata import category, name

from matplotlib import font_manager
from matplotlib.font_manager import FontPath, FontProperties, findfont, fontManager, get_font

from ...i18n import ENGLISH, join_words, languages, say

BASE = "DejaVu Sans"
#: Families that are preferred to others, where the computer has them.
PREFERRED = ("Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Arial Unicode MS", "Noto Emoji")
#: matplotlib's font of boxes: it has every character and draws none.
LAST_RESORT = "Last Resort"
NORMAL = range(300, 501)  # weights of type that is neither light nor bold
FEW = 3  # characters that a sentence names
#: Prefixes of Unicode's names for East Asian characters.
EAST_ASIA = (
    *("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI"),
    *("FULLWIDTH", "HALFWIDTH"),
)
EMOJI = 0x1F000  # first code point of the pictograph blocks


@cache
def family_of(sign: str) -> str:
    """Return the font family that draws a character; empty if no installed font does."""
    if category(sign)[0] in "CZ" or _draws(_face(BASE), sign):
        return BASE  # blanks and controls need no outline
    drawing = (family for family, path in _others() if _draws(path, sign))
    return next((family for family in drawing if _draws(_face(family), sign)), "")


def families(text: str) -> list[str]:
    """Return the families that a text needs, in order of first use."""
    asked = (family_of(sign) for sign in text)
    return list(dict.fromkeys([BASE, *filter(None, asked), "sans-serif"]))


def missing(texts: Iterable[str]) -> str:
    """Return the distinct characters of some texts that no installed font draws."""
    return "".join(sign for sign in dict.fromkeys("".join(texts)) if not family_of(sign))


def readable(language: str) -> str:
    """Return a language, or English if no installed font can draw the language's own name."""
    return ENGLISH if missing(languages().get(language, "")) else language


def advice(signs: str, language: str = ENGLISH) -> list[str]:
    """Return install advice, one sentence each for the language and for missing characters.

    Args:
        signs: Result of `missing` for the texts of the figure.
        language: The requested language.
    """
    said = []
    if letters := missing(languages().get(language, "")):
        said.append(
            say(
                "No font of the computer that drew this has the letters of the chosen language, "
                "so its words are English. Install one there; on Debian: apt install {packages}.",
                packages=_packages(letters),
            )
        )
    if signs:
        more = " …" if len(signs) > FEW else ""
        said.append(
            say(
                "No font of the computer that drew this has {signs}, which may stand here as "
                "empty boxes. Install one there; on Debian: apt install {packages}.",
                signs=join_words(f"U+{ord(sign):04X}" for sign in signs[:FEW]) + more,
                packages=_packages(signs),
            )
        )
    return said


def _packages(signs: str) -> str:
    return " ".join(dict.fromkeys(_package(sign) for sign in signs))


def _package(sign: str) -> str:
    """Return the Debian package with outlines of a character; colour emoji have none."""
    if name(sign, "").startswith(EAST_ASIA):
        return "fonts-noto-cjk"
    return "fonts-symbola" if ord(sign) >= EMOJI or category(sign) == "So" else "fonts-noto-core"


@cache
def _others() -> tuple[tuple[str, FontPath], ...]:
    """Return every other family with a file in normal type: preferred ones, then by file size.

    A large file holds many characters, so that a word is rarely drawn from two fonts.
    """
    _add_new_fonts()
    usual = {
        entry.name: FontPath(entry.fname, entry.index)
        for entry in fontManager.ttflist
        if entry.style == "normal"
        and entry.weight in NORMAL
        and not entry.name.startswith(LAST_RESORT)
    }
    rank = {family: number for number, family in enumerate(PREFERRED)}
    return tuple(
        sorted(
            usual.items(),
            key=lambda one: (rank.get(one[0], len(rank)), -os.path.getsize(one[1]), one[0]),
        )
    )


def _face(family: str) -> FontPath:
    """Return the file that matplotlib uses for a family."""
    return findfont(FontProperties(family=[family]))


def _add_new_fonts() -> None:
    """Add fonts that were installed after matplotlib wrote its font list."""
    known = {os.path.realpath(entry.fname) for entry in fontManager.ttflist}
    for path in sorted(font_manager.findSystemFonts()):
        if os.path.realpath(path) not in known:
            with suppress(Exception):  # a file that cannot be read is no usable font
                fontManager.addfont(path)


def _draws(path: FontPath, sign: str) -> bool:
    """Return True if a font has a character as an outline; bitmap colour fonts have none."""
    font = get_font(path)
    if not font.get_char_index(ord(sign)):
        return False
    font.load_char(ord(sign))
    return len(font.get_path()[0]) > 0
