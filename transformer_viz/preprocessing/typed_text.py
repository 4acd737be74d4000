"""Replacement of typographic characters by equivalents in the vocabulary.

Used for the bundled models only, whose vocabularies lack them. The tokenizer of a user's checkpoint
is unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from .tokenizers import SentencePieceText

UNKNOWN = "<unk>"
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
#: Replacements of typed characters; the first one in the vocabulary is used.
ALIKE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("’‘‚‛ʼʹˈ′´`＇‹›", ("'",)),
    **dict.fromkeys("“”„‟″«»〝〞＂", ('"',)),
    **dict.fromkeys("‐‑⁃﹣−", ("-",)),
    **dict.fromkeys("‒–—―─", ("–", "-")),
    **dict.fromkeys("…⋯", ("...",)),
    **dict.fromkeys("⁄∕", ("/",)),
    **dict.fromkeys("。｡", (".",)),
    **dict.fromkeys("、", (",",)),
    **dict.fromkeys("×✕", ("x",)),
    "æ": ("ae",),
    "Æ": ("Ae",),
    "œ": ("oe",),
    "Œ": ("Oe",),
    # Invisible characters: a soft hyphen, line break positions, writing directions.
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff\u200e\u200f\u202a\u202b\u202c\u202d\u202e", ("",)),
    **dict.fromkeys("\u2066\u2067\u2068\u2069", ("",)),
}
CLOSING, OPENING = "”", "“"  # if the first is missing, the second is replaced too


class TypedText(SentencePieceText):
    """Sentencepiece model that replaces characters missing from its vocabulary."""

    def read_as(self, text: str) -> dict[str, str]:
        """Return the replacements of characters in the text."""
        return dict(part for part in self._parts(text) if part[0] != part[1])

    @property
    def plain(self) -> SentencePieceText:
        """Tokenizer of the same vocabulary without replacements, as in training."""
        return SentencePieceText(self._processor, bos_id=self.bos_id, eos_id=self.eos_id)

    def lost(self, text: str) -> tuple[str, ...]:
        """Return labels of dropped characters, without those that `read_as` replaces."""
        return super().lost("".join(typed for typed, read in self._parts(text) if typed == read))

    def _encode(self, text: str) -> list[int]:
        return super()._encode("".join(read for _, read in self._parts(text)))

    def _parts(self, text: str) -> list[tuple[str, str]]:
        """Return each character, with its combining accents, and its replacement."""
        paired = CLOSING in text and self._lacks(CLOSING)
        return [
            (one, '"' if paired and one == OPENING else self._read(one)) for one in clusters(text)
        ]

    def _read(self, typed: str) -> str:
        if (typed.isascii() and typed.isalnum()) or not self._lacks(typed):
            return typed
        return next((one for one in candidates(typed) if not self._lacks(one)), typed)

    @property
    def _lacks(self) -> Callable[[str], bool]:
        """Cached function that returns True if a text becomes bytes or an unknown token."""
        found = self.__dict__.get("lacking")
        if found is None:
            found = self.__dict__["lacking"] = cache(self._is_lacking)
        known: Callable[[str], bool] = found
        return known

    def _is_lacking(self, text: str) -> bool:
        ids = super()._encode(text)
        return any(BYTE.fullmatch(self.pieces[i]) or self.pieces[i] == UNKNOWN for i in ids)


def clusters(text: str) -> list[str]:
    """Split a text into characters, each with its combining accents."""
    found: list[str] = []
    for one in text:
        if found and unicodedata.combining(one):
            found[-1] += one
        else:
            found.append(one)
    return found


def candidates(typed: str) -> list[str]:
    """Return the replacements of a character, the closest first."""
    one = unicodedata.normalize("NFC", typed)
    plain = unicodedata.normalize("NFKC", typed)
    whole = "".join(ALIKE.get(part, (part,))[0] for part in plain)
    return [*ALIKE.get(typed, ()), one, plain, whole.strip() or whole]
