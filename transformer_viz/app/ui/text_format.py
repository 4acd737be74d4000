"""Words on a page: which are new, what an error says, and how they are kept from being Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape

from ...core.errors import is_disk_full, visible
from ...core.trace_parts import Tokens
from ...i18n import join_words as in_order
from ...i18n import say

#: Where GitHub's Markdown, which looks at the text after escapes are gone, sees an address.
BY_ITSELF = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.I)
JOINER = "\u2060"
BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def changed_words(before: str, after: str) -> str:
    """The second sentence as HTML, words that the first one lacks at that place marked.

    Words that only disappeared leave a small mark where they stood.
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
    """Text that Streamlit's boxes and labels show as it is.

    They read Markdown, and a sentence or a link from outside may hold anything: a picture from
    another place would be fetched. What would become a link by itself, escaped or not, is held
    apart by a mark that is not seen.
    """
    apart = BY_ITSELF.sub(JOINER, text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-!:<>~$|&" else c for c in apart)


def spoken(error: BaseException) -> str:
    """What an error says, without the quotation marks that a KeyError adds.

    One of the system itself begins with a number, which says nothing to a reader.
    """
    if isinstance(error, OSError) and is_disk_full(error):
        return say("The disk of this server is full. Whoever runs it can make room.")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    said = str(error.args[0]) if error.args else type(error).__name__
    return "\n".join(map(visible, said.split("\n")))


def ending(text: str, most: int = 300) -> str:
    """The end of a long text, from the beginning of a word on; of a short one all of it."""
    if len(text) <= most:
        return text
    return "… " + text[-most:].partition(" ")[2]


def spelled_in_bytes(tokens: Tokens) -> tuple[str, ...]:
    """The characters of a sentence that its vocabulary has no piece for, each once."""
    labels = zip(tokens.pieces, tokens.labels, strict=True)
    found = (label.split(" ")[0] for piece, label in labels if BYTE.fullmatch(piece))
    return tuple(dict.fromkeys(found))


def first_few(words: Sequence[str], most: int = 8) -> str:
    """Some words one after another, as Streamlit's boxes show them."""
    shown = escape_markdown(in_order(words[:most]))
    left = len(words) - most
    return say("{words} and {count} more", words=shown, count=left) if left > 0 else shown
