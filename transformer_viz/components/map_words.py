"""The words along the sides of a long map, which a browser fetches once and keeps."""

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
    """What the words of a map are told from others by."""
    rows, columns = rulers(trace, block)
    said = "\n".join((rows.sentence, columns.sentence, *rows.labels, "", *columns.labels))
    return sha256(said.encode()).hexdigest()[:24]


def words_data(trace: Trace, block: str) -> bytes:
    """The words of a map as bytes for the browser: labels, and which word each belongs to."""
    return pack({"part": "words", **side_words(trace, block)})


def side_words(trace: Trace, block: str) -> dict[str, Any]:
    """What stands along the sides of a map token by token, and the whole words that they make.

    Returns:
        ``row_labels`` and ``column_labels``, one a token; ``spelled``, the words that the pieces
        make; ``row_words`` and ``column_words``, which of these a row or a column belongs to. Where
        both sides are of one text, a word is the same on both.
    """
    rows, columns = rulers(trace, block)
    queries, keys = sentences(trace, block)
    across, down = axis(keys), axis(queries)
    said = produced_by_row(trace)
    if row_sentence(trace, block) == "produced" and said is not None:
        down = produced_axis(said, queries)
    # A row bears the word that follows its own, so one more may stand at the end.
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
