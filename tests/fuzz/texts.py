"""Random sentences and links: every plane of Unicode, markup, escapes, and odd values."""

from __future__ import annotations

from random import Random
from urllib.parse import parse_qsl, quote

from tests.support.payloads import PAYLOADS

PIECES = (
    *("The animal", "didn't", "cross", "the street", " ", "  ", "\t", "\n", "\r\n", "\x00"),
    *("\x1b[31m", "<0x41>", "</s>", "<unk>", "▁", "##s", "\u200d", "\u202e", "\u2066", "\ufeff"),
    *("\u0301" * 9, "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "ﷺ", "ﬁ", "İ", "ß", "你好", "عربي", "ไทย"),
    *("क्षि", "\ud800", "\udfff", "\U0010ffff"),
)
PLANES = ((0, 0x7F), (0x80, 0x2FF), (0x300, 0xFFF), (0x1000, 0xFFFF), (0x10000, 0x10FFFF))


def sentence(draw: Random) -> str:
    """Up to some eighty characters of anything."""
    parts = []
    for _ in range(draw.choice((0, 1, 2, 4, 8, 12))):
        kind = draw.randrange(4)
        if kind == 0:
            low, high = draw.choice(PLANES)
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 6))))
        elif kind == 1:
            parts.append(draw.choice(PAYLOADS).text[:60])
        else:
            parts.append(draw.choice(PIECES))
    return draw.choice(("", " ")).join(parts)


def query(seed: bytes, draw: Random) -> dict[str, str]:
    """The keys of a link, some of them with other values or of other names."""
    found = dict(parse_qsl(seed.decode("utf-8", "replace"), keep_blank_values=True))
    for _ in range(draw.choice((1, 1, 2, 4))):
        name = draw.choice(sorted(found) or ["text"])
        kind = draw.randrange(5)
        if kind == 0:
            found.pop(name, None)
        elif kind == 1:
            found[sentence(draw)[:20]] = found.get(name, "")
        elif kind == 2:
            found[name] = draw.choice(sorted(found.values()) or [""])
        elif kind == 3:
            text = list(found.get(name, ""))
            for _ in range(draw.randint(1, 3)):
                place = draw.randrange(len(text) + 1)
                text[place : place + draw.randrange(3)] = draw.choice(ENDS)
            found[name] = "".join(text)
        else:
            found[name] = sentence(draw)
    return found


ENDS = ("0", "-1", "9" * 20, "1e309", "nan", ".", ",", "{", "[", '"', "z.", "%", "é", "\x00", "²")


def packed(words: dict[str, str]) -> bytes:
    """Keys as they stand behind the question mark of an address."""
    pairs = (f"{quote(k, errors='replace')}={quote(v, errors='replace')}" for k, v in words.items())
    return "&".join(pairs).encode()
