"""Two sentences side by side: which words are new."""

from __future__ import annotations

from difflib import SequenceMatcher
from html import escape


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
            shown.append('<span class="tv-new" title="words left out here">…</span>')
        else:
            shown.append(f'<span class="tv-new">{text}</span>')
    return " ".join(shown)
