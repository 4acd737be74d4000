"""From pieces to whole words, and without special tokens: the same map, read more easily.

Both change what a picture shows, never what a model did; each result says what was done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ...core.trace import Trace
from ...core.trace_parts import Produced, Tokens
from ...i18n import say
from ...preprocessing.tokenizers import numbered

BEFORE_MARK = re.compile(r" ([.,;:!?…])")  # a mark stands close to the word before it
REPEATED = re.compile(r" \(\d+\)$")  # labels number a word that occurs again: "the (2)"
SPACE = "␣"
PART = re.compile(r" (\d)/\d$")  # and the bytes of one character: "🙂 1/4"
ENDS = {"<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[PAD]"}  # a last row may produce what none read


@dataclass(frozen=True)
class Axis:
    """The tokens along one side of a map: one label, word number and special mark a token."""

    labels: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Regrouped:
    """A map after regrouping: ``weights`` [..., query, key], its axes, and what was done."""

    weights: np.ndarray
    queries: Axis
    keys: Axis
    note: str


def axis(tokens: Tokens) -> Axis:
    """The axis that a sentence makes."""
    return Axis(tokens.labels, tokens.words, tokens.special)


def produced_by_row(trace: Trace) -> Produced | None:
    """Return what is produced where each row of the last stack says one of it.

    None for a class and for the ends of an answer, which are said of the whole input: then rows
    bear the words that they read.
    """
    said = trace.produced
    whole = trace.marks_answer or (trace.logits is not None and trace.logits.ndim == 1)
    return None if said is None or whole else said


def produced_axis(produced: Produced, target: Tokens) -> Axis:
    """The axis of the rows of a decoder: row t is named after the token that it produces.

    Row t reads input t, so its token is input t + 1; the last row's token was never read, and
    stands as a word of its own. Where a run is asked about other words than it read, every token
    stands alone. A piece is special where the target has it as special, or by its usual name.
    """
    marked = {p for p, special in zip(target.pieces, target.special, strict=True) if special}
    special = tuple(piece in marked | ENDS for piece in produced.pieces)
    if produced.ids and produced.ids[:-1] == target.ids[1:]:
        words = (*target.words[1:], max(target.words, default=0) + 1)
    else:
        words = tuple(range(len(produced.ids)))
    return Axis(produced.labels, words, special)


def merge_words(weights: np.ndarray, queries: Axis, keys: Axis) -> Regrouped:
    """Whole words instead of pieces: columns of a word are summed, its rows averaged.

    The weight that goes to a word is the sum over its pieces, and a word looks as its pieces do on
    average (Clark et al. 2019, "What Does BERT Look At?", section 4.1), so rows keep their sum.

    Args:
        weights: ``[..., query, key]``.

    Returns:
        Weights ``[..., query word, key word]`` of the input's type.

    Raises:
        ValueError: the axes do not fit the weights; states both sizes.
    """
    _check(weights, queries, keys)
    rows, columns = _membership(queries), _membership(keys)
    rows = rows / rows.sum(axis=1, keepdims=True)
    merged = (rows @ weights.astype(np.float64) @ columns.T).astype(weights.dtype)
    changed = merged.shape != weights.shape
    note = say("Pieces are merged to words: columns summed, rows averaged.") if changed else ""
    return Regrouped(merged, _words(queries), _words(keys), note)


def without_special(weights: np.ndarray, queries: Axis, keys: Axis) -> Regrouped:
    """Ordinary tokens only: special rows and columns go, and each row is divided by what is left.

    A row that looked at special tokens only stays zero. Where no column goes, rows stay as they
    were, also those that an edit left short of 1.

    Args:
        weights: ``[..., query, key]``.

    Returns:
        Weights ``[..., ordinary query, ordinary key]`` of the input's type.

    Raises:
        ValueError: the axes do not fit the weights; states both sizes.
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
    """Which token belongs to which word: ``[word, token]`` of 0 and 1, words in reading order."""
    place = {word: i for i, word in enumerate(dict.fromkeys(side.words))}
    table = np.zeros((len(place), len(side)))
    table[[place[word] for word in side.words], np.arange(len(side))] = 1
    return table


def _words(side: Axis) -> Axis:
    """The axis of whole words, repeated ones numbered."""
    parts: dict[int, list[int]] = {}
    for token, word in enumerate(side.words):
        parts.setdefault(word, []).append(token)
    names = tuple(joined([side.labels[token] for token in tokens]) for tokens in parts.values())
    special = tuple(all(side.special[token] for token in tokens) for tokens in parts.values())
    return Axis(numbered(names), tuple(range(len(names))), special)


def joined(labels: list[str]) -> str:
    """The word that pieces make; a character of several bytes stands once."""
    text = ""
    for label in labels:
        plain = REPEATED.sub("", label)
        part = PART.search(plain)
        if part is None or part[1] == "1":
            shown = PART.sub("", plain)
            text += shown.removeprefix("◌") if text else shown  # an accent has its letter now
    return text.removeprefix(SPACE) or text  # a piece that is a blank alone begins a word


def _ordinary(side: Axis) -> list[int]:
    return [token for token, special in enumerate(side.special) if not special]


def _pick(side: Axis, kept: list[int]) -> Axis:
    return Axis(
        tuple(side.labels[token] for token in kept),
        tuple(side.words[token] for token in kept),
        tuple(side.special[token] for token in kept),
    )


def sentence_of(tokens: Tokens) -> str:
    """Return the words of a sentence, without marks and without the numbers of repeated ones."""
    words: dict[int, str] = {}
    for label, word, special in zip(tokens.labels, tokens.words, tokens.special, strict=True):
        if not special:
            words[word] = words.get(word, "") + REPEATED.sub("", label)
    return BEFORE_MARK.sub(r"\1", " ".join(words.values()))
