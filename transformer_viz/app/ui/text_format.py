"""Text on a page: marked changes, error messages, and escaped Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape

from ...core.errors import is_disk_full, visible
from ...core.trace_parts import Tokens
from ...i18n import join_words as in_order
from ...i18n import say

#: Positions where GitHub's Markdown, which ignores escapes here, finds an address.
BY_ITSELF = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.I)
JOINER = "\u2060"
BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def changed_words(before: str, after: str) -> str:
    """Return the second sentence as HTML, with words marked that the first one lacks there.

    Deleted words leave a small mark.
    """
    was, now = before.split(), after.split()
    shown = []
    for kind, _, _, start, end in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        text = escape(" ".join(now[start:end]))
        if kind == "equal":
            shown.append(text)
        elif kind == "delete":
            title = say("words left out here")
            shown.append(f'<span class="tv-new" title="{title}">…</span>')
        else:
            shown.append(f'<span class="tv-new">{text}</span>')
    return " ".join(shown)


def escape_markdown(text: str) -> str:
    """Return a text that Streamlit's boxes and labels show literally.

    They read Markdown, and foreign text may contain anything: an image from another site would be
    loaded. Text that would become a link, escaped or not, is separated by an invisible character.
    """
    apart = BY_ITSELF.sub(JOINER, text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-!:<>~$|&" else c for c in apart)


def spoken(error: BaseException) -> str:
    """Return the message of an error, without the quotation marks that a KeyError adds.

    System errors lose their number.
    """
    if isinstance(error, OSError) and is_disk_full(error):
        return say("The disk of this server is full. Whoever runs it can make room.")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    said = str(error.args[0]) if error.args else type(error).__name__
    return "\n".join(map(visible, said.split("\n")))


def ending(text: str, most: int = 300) -> str:
    """Return the end of a long text, from the beginning of a word; a short one is unchanged."""
    if len(text) <= most:
        return text
    return "… " + text[-most:].partition(" ")[2]


def spelled_in_bytes(tokens: Tokens) -> tuple[str, ...]:
    """Return the characters of a sentence without a piece in its vocabulary, each once."""
    labels = zip(tokens.pieces, tokens.labels, strict=True)
    found = (label.split(" ")[0] for piece, label in labels if BYTE.fullmatch(piece))
    return tuple(dict.fromkeys(found))


def first_few(words: Sequence[str], most: int = 8) -> str:
    """Return the first words, joined and escaped for Streamlit's boxes."""
    shown = escape_markdown(in_order(words[:most]))
    left = len(words) - most
    return say("{words} and {count} more", words=shown, count=left) if left > 0 else shown
