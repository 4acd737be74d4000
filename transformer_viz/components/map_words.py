"""The words along the sides of a long map, which a browser fetches once and keeps."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from ..core.trace import Trace
from ..metrics.attention.thumbnails import sentences
from ..metrics.attention.word_merging import axis, joined, produced_axis
from .blob import pack
from .ruler import row_sentence, rulers

NOWHERE = -1  # the word of a row that is none of the text


def words_name(trace: Trace, block: str) -> str:
    """What the words of a map are told from others by."""
    rows, columns = rulers(trace, block)
    said = "\n".join((rows.sentence, columns.sentence, *rows.labels, "", *columns.labels))
    return sha256(said.encode()).hexdigest()[:24]


def words_data(trace: Trace, block: str) -> bytes:
    """The words of a map as bytes for the browser: labels, and which word each belongs to."""
    words, arrays = side_words(trace, block)
    return pack({"part": "words", **words}, **arrays)


def side_words(trace: Trace, block: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What stands along the sides of a map token by token, and the whole words of the text.

    Returns:
        ``row_labels`` and ``column_labels``, one a token, and ``spelled``, the words that the
        pieces make; ``row_words`` and ``column_words`` int32 say which of these a row or a column
        belongs to, -1 where a row produces what the text does not have there.
    """
    rows, columns = rulers(trace, block)
    queries, keys = sentences(trace, block)
    across = axis(keys)
    down = axis(queries)
    if row_sentence(trace, block) == "produced" and trace.produced is not None:
        down = produced_axis(trace.produced, queries)
    # A row bears the word that follows its own, so one more may stand at the end.
    same = down.words[:-1] in (across.words[:-1], across.words[1:])
    parts: dict[int, list[str]] = {}
    for word, label in zip(across.words, across.labels, strict=True):
        parts.setdefault(word, []).append(label)
    if same and down.words[-1] not in parts:
        parts[down.words[-1]] = [down.labels[-1]]
    places = {word: place for place, word in enumerate(parts)}
    found = {
        "row_labels": rows.labels,
        "column_labels": columns.labels,
        "spelled": [joined(labels) for labels in parts.values()],
    }
    above = [places[word] for word in down.words] if same else [NOWHERE] * len(down)
    return found, {
        "row_words": np.array(above, np.int32),
        "column_words": np.array([places[word] for word in across.words], np.int32),
    }
