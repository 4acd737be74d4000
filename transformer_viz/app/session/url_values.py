"""Serialization of link values: readers that convert a text to a value, and their inverse.

A reader raises ValueError with a message that continues the name of the key.
"""

from __future__ import annotations

from collections.abc import Callable

from ...i18n import say

BEAMS = range(1, 9)
LISTED = 300  # places or heads in one key
QUOTED = 100  # characters of a quoted value in a message
WRITTEN = 400  # characters of a lab's settings


def quoted(text: str) -> str:
    """Return a link's value for a message: with escapes for invisible characters, and shortened."""
    whole = repr(shortened(text))
    return whole if len(whole) <= QUOTED else f"{whole[:QUOTED]}…'"


def one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(
                say(
                    "is {text}; it can be {allowed}",
                    text=quoted(text),
                    allowed=", ".join(allowed),
                )
            )
        return text

    return read


def number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise ValueError(say("is {text}; it must be a whole number from 0", text=quoted(text)))
    return int(text)


def beam(text: str) -> int:
    if text not in map(str, BEAMS):
        raise ValueError(
            say(
                "is {text}; it can be {least} to {most}",
                text=quoted(text),
                least=BEAMS[0],
                most=BEAMS[-1],
            )
        )
    return int(text)


def _parts(text: str) -> list[str]:
    parts = text.split(",") if text else []
    if len(parts) > LISTED:
        raise ValueError(
            say("names {count:,} places; it may name {most}", count=len(parts), most=LISTED)
        )
    return parts


def places(text: str) -> tuple[int, ...]:
    return tuple(sorted({number(part) for part in _parts(text)}))


def listed(places: tuple[int, ...]) -> str:
    return ",".join(map(str, places))


def switch(text: str) -> bool:
    return one_of("on", "off")(text) == "on"


def amount(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= most:
            raise ValueError(
                say(
                    "is {text}; it must be a number from {least:g} to {most:g}",
                    text=quoted(text),
                    least=least,
                    most=most,
                )
            )
        return float(f"{value:g}")  # rounded as in a link

    return read


def short(text: str) -> str:
    if len(text) > WRITTEN:
        raise ValueError(
            say("has {count:,} characters; it may have {most}", count=len(text), most=WRITTEN)
        )
    return text


def _numbered(text: str, apart: str) -> tuple[int, int]:
    first, found, second = text.partition(apart)
    if not found:
        raise ValueError(
            say(
                "is {text}; it must be numbers such as {example}",
                text=quoted(text),
                example=f"1{apart}3",
            )
        )
    return number(first), number(second)


def map_of(text: str) -> str:
    """Return a layer, or a head as layer.head; empty for all of them."""
    if text and "." in text:
        return "{}.{}".format(*_numbered(text, "."))
    return str(number(text)) if text else ""


def heads(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(dict.fromkeys(_numbered(part, ".") for part in _parts(text)))


def listed_heads(heads: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{layer}.{head}" for layer, head in heads)


def region(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    rows, found, columns = text.partition(",")
    if not found:
        raise ValueError(
            say(
                "is {text}; it must be rows and columns such as 1-3,0-4",
                text=quoted(text),
            )
        )
    return _numbered(rows, "-"), _numbered(columns, "-")


def listed_region(zoom: tuple[tuple[int, int], tuple[int, int]]) -> str:
    return ",".join(f"{first}-{last}" for first, last in zoom)


def shortened(text: str) -> str:
    """Return at most 60 characters of a value, for a message."""
    return text if len(text) <= 60 else text[:57] + "..."
