"""Token labels along the sides of a long map, which a browser fetches once and caches."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from ..core.sites import MAPS
from ..core.trace import Trace
from ..metrics.attention.thumbnails import sentences
from ..metrics.attention.word_merging import axis, joined, produced_axis, produced_by_row
from .blob import pack
from .ruler import row_sentence, rulers


def words_name(trace: Trace, block: str) -> str:
    """Return a key that identifies the labels of a map."""
    rows, columns = rulers(trace, block)
    said = "\n".join((rows.sentence, columns.sentence, *rows.labels, "", *columns.labels))
    return sha256(said.encode()).hexdigest()[:24]


def words_data(trace: Trace, block: str) -> bytes:
    """Return the labels of a map as bytes for the browser, with the word of each token."""
    return pack({"part": "words", **side_words(trace, block)})


def side_words(trace: Trace, block: str) -> dict[str, Any]:
    """Return the labels along the sides of a map by token, and the words that they form.

    Returns:
        ``row_labels`` and ``column_labels``, one per token; ``spelled``, the words formed by the
        pieces; ``row_words`` and ``column_words``, the word of each row and column. If both sides
        are of one text, they share its words.
    """
    rows, columns = rulers(trace, block)
    queries, keys = sentences(trace, block)
    across, down = axis(keys), axis(queries)
    said = produced_by_row(trace)
    if row_sentence(trace, block) == "produced" and said is not None:
        down = produced_axis(said, queries)
    # A row's label is the next token, so one more may follow at the end.
    one_text = MAPS[block][1] == "self"
    same = one_text and down.words[:-1] in (across.words[:-1], across.words[1:])
    parts: dict[tuple[bool, int], list[str]] = {}
    for word, label in zip(across.words, across.labels, strict=True):
        parts.setdefault((True, word), []).append(label)
    known = set(across.words) if same else set()
    for word, label in zip(down.words, down.labels, strict=True):
        if word not in known:
            parts.setdefault((same, word), []).append(label)
    places = {word: place for place, word in enumerate(parts)}
    return {
        "row_labels": rows.labels,
        "column_labels": columns.labels,
        "spelled": [joined(labels) for labels in parts.values()],
        "row_words": [places[same, word] for word in down.words],
        "column_words": [places[True, word] for word in across.words],
    }
