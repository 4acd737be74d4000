"""English sentences that a page in another language still shows, read out of the test runner."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

from google.protobuf.json_format import MessageToDict
from streamlit.testing.v1 import AppTest

from tests.support.component_stage import decoded

#: The words of an element that a visitor reads.
READ = {"label", "help", "placeholder", "body", "options", "caption", "alt", "text", "title"}
#: The words of a header of ours, and of a figure, that a visitor reads.
OURS = {
    *("title", "said", "numbers", "direction", "note", "caption", "html", "help", "spoken"),
    *("name", "formula", "why", "problem", "notes", "sinks", "ticktext", "text", "alt"),
}
UNREAD = re.compile(r"<(style|script|pre)\b.*?</\1>|https?://\S+|`[^`]*`", re.DOTALL)
SPOKEN = re.compile(r'\b(?:aria-label|title|alt)="([^"]*)"')
LATIN = {"de"}  # languages written in the letters of English
#: Words without which an English sentence hardly gets along, and that German does not have.
PLAIN = re.compile(
    r"\b(the|of|and|with|which|is|are|this|that|its?|from|by|not|for|has|have|be|been|what|how|"
    r"where|when|than|then|their|they|you|your|one|two|no|each|every|other|words?|heads?|looks?|"
    r"to|into|only|more|less|without|between|shows|changed?)\b",
    re.IGNORECASE,
)
PROSE = re.compile(r"[A-Za-z][a-z']*(?:,? [a-z']+){2,}")  # three words of English in a row


def texts_of(app: AppTest) -> Iterator[str]:
    """Every text of a page, those of our pictures and of the figures too."""
    for element in _elements(app._tree):
        yield from _strings(MessageToDict(element), READ)
    for one in app.get("bidi_component"):
        data = decoded(one.proto.bytes)[0] if one.proto.bytes else json.loads(one.proto.json)
        yield from _strings({k: v for k, v in data.items() if k != "texts"}, OURS)
    for one in app.get("plotly_chart"):
        yield from _strings(json.loads(one.proto.spec), OURS)


def prose(text: str, known: str, language: str = "zh") -> list[str]:
    """The runs of English words in a text that are not a part of what is known.

    Args:
        text: with or without HTML.
        known: what may stay English.
        language: that of the text; where it is written in English letters, a run of words is
            English by the little words in it.
    """
    attributes = " | ".join(SPOKEN.findall(text))
    plain = unescape(re.sub(r"<[^>]*>", " | ", UNREAD.sub(" | ", text)) + " | " + attributes)
    runs = [run for run in PROSE.findall(plain.replace("\\", "")) if run not in known]
    if language not in LATIN:
        return runs
    return [run for run in runs if PLAIN.search(run)]


def _elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        if hasattr(child, "children"):
            yield from _elements(child)
        elif getattr(child, "proto", None) is not None and child.type != "arrow_data_frame":
            yield child.proto


def _strings(value: Any, names: set[str], name: str = "") -> Iterator[str]:
    """The texts of a tree of plain values that stand under one of the names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, names, key)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, names, name)
    elif isinstance(value, str) and name in names:
        yield value
