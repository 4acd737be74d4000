"""Texts with terms in square brackets, as HTML with explanations, or as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from ..i18n import say
from .glossary import GLOSSARY

TERM = re.compile(r"\[([^\]|]+)(?:\|([^\]]+))?\]")


def terms(text: str) -> tuple[str, ...]:
    """Return the glossary terms of a text, in order.

    ``[value]`` is the term of this name; ``[words shown|value]`` displays other words for it.
    """
    return tuple(found[2] or found[1] for found in TERM.finditer(text))


def without_terms(text: str) -> str:
    """Return a text without the markup of its terms."""
    return TERM.sub(lambda found: found[1], text)


def marked(text: str) -> str:
    """Return a text as HTML with the definition of each term on hover or keyboard focus.

    Raises:
        KeyError: A term that the glossary lacks.
    """
    return _html(text, _term)


def explained(text: str) -> str:
    """Return the same for a text with external content: brackets around no term stay.

    A model's tokens may look like that, such as ``[MASK]``.
    """
    return _html(text, lambda shown, name: _term(shown, name) if name in GLOSSARY else None)


def _html(text: str, term: Callable[[str, str], str | None]) -> str:
    parts, end = [], 0
    for found in TERM.finditer(text):
        made = term(found[1], found[2] or found[1])
        parts += [escape(text[end : found.start()]), escape(found[0]) if made is None else made]
        end = found.end()
    return "".join([*parts, escape(text[end:])])


def _term(shown: str, name: str) -> str:
    meaning = escape(say(GLOSSARY[name][1]))
    return (
        f'<span class="tv-term" tabindex="0">{escape(shown)}'
        f'<span class="tv-tip" role="tooltip">{meaning}</span></span>'
    )
