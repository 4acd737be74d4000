"""Merging of pieces to words, and removal of special tokens, for easier reading of a map.

Both change only the picture, not the model; each result has a note on the change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ...core.trace import Trace
from ...core.trace_parts import Produced, Tokens
from ...i18n import say
from ...preprocessing.tokenizers import numbered

BEFORE_MARK = re.compile(r" ([.,;:!?…])")  # punctuation follows the word without a blank
REPEATED = re.compile(r" \(\d+\)$")  # suffix of repeated words: "the (2)"
SPACE = "␣"
PART = re.compile(r" (\d)/\d$")  # suffix of a character's bytes: "🙂 1/4"
ENDS = {"<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[PAD]"}  # predicted, not read


@dataclass(frozen=True)
class Axis:
    """Tokens along one side of a map, each with label, word number and special flag."""

    labels: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Regrouped:
    """Regrouped map: ``weights`` [..., query, key], its axes, and a note on the change."""

    weights: np.ndarray
    queries: Axis
    keys: Axis
    note: str


def axis(tokens: Tokens) -> Axis:
    """Return the axis of a sentence."""
    return Axis(tokens.labels, tokens.words, tokens.special)


def produced_by_row(trace: Trace) -> Produced | None:
    """Return the predictions if each row of the last stack makes one.

    None for a class and for the ends of an answer, which belong to the whole input: then rows are
    labelled with the tokens that they read.
    """
    said = trace.produced
    whole = trace.marks_answer or (trace.logits is not None and trace.logits.ndim == 1)
    return None if said is None or whole else said


def produced_axis(produced: Produced, target: Tokens) -> Axis:
    """Return the axis of a decoder's rows: row t is labelled with the token that it predicts.

    Row t reads input t, so its token is input t + 1. The last row's token was never read, and is a
    separate word. If a run reports other tokens than it read, every token is a separate word. A
    piece is special if it is in the target, or by its usual name.
    """
    marked = {p for p, special in zip(target.pieces, target.special, strict=True) if special}
    special = tuple(piece in marked | ENDS for piece in produced.pieces)
    if produced.ids and produced.ids[:-1] == target.ids[1:]:
        words = (*target.words[1:], max(target.words, default=0) + 1)
    else:
        words = tuple(range(len(produced.ids)))
    return Axis(produced.labels, words, special)


def merge_words(weights: np.ndarray, queries: Axis, keys: Axis) -> Regrouped:
    """Merge pieces to words: columns of a word are summed, its rows averaged.

    The weight on a word is the sum over its pieces, and the weight from a word the mean (Clark et
    al. 2019, "What Does BERT Look At?", section 4.1), so rows keep their sum.

    Args:
        weights: ``[..., query, key]``.
        queries: Axis of the rows.
        keys: Axis of the columns.

    Returns:
        Weights ``[..., query word, key word]`` of the input's type.

    Raises:
        ValueError: The axes do not fit the weights.
    """
    _check(weights, queries, keys)
    rows, columns = _membership(queries), _membership(keys)
    rows = rows / rows.sum(axis=1, keepdims=True)
    merged = (rows @ weights.astype(np.float64) @ columns.T).astype(weights.dtype)
    changed = merged.shape != weights.shape
    note = say("Pieces are merged to words: columns summed, rows averaged.") if changed else ""
    return Regrouped(merged, _words(queries), _words(keys), note)


def without_special(weights: np.ndarray, queries: Axis, keys: Axis) -> Regrouped:
    """Remove special rows and columns, and renormalize each row.

    A row that looked only at special tokens stays zero. If no column is removed, rows stay
    unchanged, even if an edit made them sum to less than 1.

    Args:
        weights: ``[..., query, key]``.
        queries: Axis of the rows.
        keys: Axis of the columns.

    Returns:
        Weights ``[..., ordinary query, ordinary key]`` of the input's type.

    Raises:
        ValueError: The axes do not fit the weights.
    """
    _check(weights, queries, keys)
    rows, columns = _ordinary(queries), _ordinary(keys)
    kept = weights[..., rows, :][..., columns].astype(np.float64)
    note = say("Special tokens are hidden.") if len(rows) < len(queries) else ""
    if len(columns) < len(keys):
        left = kept.sum(axis=-1, keepdims=True)
        kept = np.divide(kept, left, out=np.zeros_like(kept), where=left > 0)
        note = say("Special tokens are hidden; each row is divided by what is left of it.")
        note += _emptied(int((left == 0).sum()))
    return Regrouped(kept.astype(weights.dtype), _pick(queries, rows), _pick(keys, columns), note)


def _emptied(rows: int) -> str:
    if not rows:
        return ""
    if rows == 1:
        return " " + say("1 row looked at special tokens only: zero.")
    return " " + say("{count} rows looked at special tokens only: zero.", count=rows)


def _check(weights: np.ndarray, queries: Axis, keys: Axis) -> None:
    if weights.shape[-2:] != (len(queries), len(keys)):
        raise ValueError(
            f"Weights end in {weights.shape[-2:]} (query, key), but the axes name {len(queries)} "
            f"queries and {len(keys)} keys; take the axes of the sentences that this map joins."
        )


def _membership(side: Axis) -> np.ndarray:
    """Return the tokens of each word: ``[word, token]`` of 0 and 1, words in reading order."""
    place = {word: i for i, word in enumerate(dict.fromkeys(side.words))}
    table = np.zeros((len(place), len(side)))
    table[[place[word] for word in side.words], np.arange(len(side))] = 1
    return table


def _words(side: Axis) -> Axis:
    """Return the axis of whole words, repeated ones numbered."""
    parts: dict[int, list[int]] = {}
    for token, word in enumerate(side.words):
        parts.setdefault(word, []).append(token)
    names = tuple(joined([side.labels[token] for token in tokens]) for tokens in parts.values())
    special = tuple(all(side.special[token] for token in tokens) for tokens in parts.values())
    return Axis(numbered(names), tuple(range(len(names))), special)


def joined(labels: list[str]) -> str:
    """Return the word made of pieces; a character of several bytes appears once."""
    text = ""
    for label in labels:
        plain = REPEATED.sub("", label)
        part = PART.search(plain)
        if part is None or part[1] == "1":
            shown = PART.sub("", plain)
            text += shown.removeprefix("◌") if text else shown  # an accent has its letter now
    return text.removeprefix(SPACE) or text  # a piece that is only a blank starts a word


def _ordinary(side: Axis) -> list[int]:
    return [token for token, special in enumerate(side.special) if not special]


def _pick(side: Axis, kept: list[int]) -> Axis:
    return Axis(
        tuple(side.labels[token] for token in kept),
        tuple(side.words[token] for token in kept),
        tuple(side.special[token] for token in kept),
    )


def sentence_of(tokens: Tokens) -> str:
    """Return the words of a sentence, without special tokens and repetition numbers."""
    words: dict[int, str] = {}
    for label, word, special in zip(tokens.labels, tokens.words, tokens.special, strict=True):
        if not special:
            words[word] = words.get(word, "") + REPEATED.sub("", label)
    return BEFORE_MARK.sub(r"\1", " ".join(words.values()))
