"""Frequent words as single pieces, added to a trained unigram vocabulary.

The training of a unigram model sometimes keeps "because" but not its form with the space before it,
and it never joins a word to an apostrophe. The added pieces are scored by their frequency in the
text, and replace the least likely pieces.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # precedes the first piece of a word
WORD = re.compile(r"[^\W\d_]+")
SHORT_FORM = re.compile(r"(?<=[A-Za-z])(n't)\b|(?<=[A-Za-z])('(?:s|m|re|ll|ve|d|t))\b")
BETTER = 0.2  # nats by which a whole word is more likely than its parts


def frequent(pairs: list[tuple[str, str]], most: int) -> dict[str, int]:
    """Return the ``most`` frequent words of each side and English short forms, with counts."""
    found: dict[str, int] = {}
    for side in zip(*pairs, strict=True):
        counts = Counter(word for text in side for word in WORD.findall(text))
        for word, count in counts.most_common(most):
            found[SPACE + word] = max(count, found.get(SPACE + word, 0))
    short = Counter(a or b for english, _ in pairs for a, b in SHORT_FORM.findall(english))
    return found | dict(short)


def with_whole_words(model: bytes, pairs: list[tuple[str, str]], most: int) -> bytes:
    """Return the sentencepiece model with the frequent words of both sides, of equal size."""
    if not most:
        return model
    proto: Any = vars(sentencepiece_model_pb2)["ModelProto"]()
    proto.ParseFromString(model)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    scores = {piece.piece: piece.score for piece in proto.pieces}
    wanted = frequent(pairs, most)
    total = sum(len(ids) for side in zip(*pairs, strict=True) for ids in pieces.encode(list(side)))
    added = {}
    for word, count in wanted.items():
        parts = pieces.encode(word.replace(SPACE, ""), out_type=str) if word[0] == SPACE else [word]
        if word in scores or (word[0] == SPACE and len(parts) == 1):
            continue
        cut = sum(scores.get(part, -20.0) for part in parts) if word[0] == SPACE else -math.inf
        added[word] = max(math.log(count / total), cut + BETTER)
    normal = type(proto).SentencePiece.NORMAL
    loose = [  # single letters and wanted words must stay
        number
        for number, piece in enumerate(proto.pieces)
        if piece.type == normal and len(piece.piece.strip(SPACE)) > 1 and piece.piece not in wanted
    ]
    loose.sort(key=lambda number: (proto.pieces[number].score, -number))
    likely = sorted(added.items(), key=lambda item: (-item[1], item[0]))
    for number, (word, score) in zip(loose, likely, strict=False):
        proto.pieces[number].piece, proto.pieces[number].score = word, score
    return bytes(proto.SerializeToString())
