"""Frequencies of a position table, measured from its numbers.

No formula is assumed. Pairs of dimensions are read as arrows in a plane. The table that the model
used shows if they rotate evenly from one position to the next, and how fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.given.facts import require_captured
from ...core.interventions import ScalePositions, ShufflePositions
from ...core.sites import MAPS, called
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import mark, say

EVEN = 0.01  # tolerance of an even rotation, relative to the arrow and to its path
STILL = 1e-10  # radians per position; less is rounding of a constant pair
FASTEST = 2 * np.pi  # wavelengths of the first and the last pair in Vaswani et al. 2017, in
SLOWEST = 10000 * 2 * np.pi  # positions; section 3.5 gives them as the ends of its progression


@dataclass(frozen=True)
class Wave:
    """Pair of dimensions that rotates with the position.

    Attributes:
        pair: Index of the pair.
        first: First dimension.
        second: Second dimension.
        turn: Angle from one position to the next in radians; negative from the second towards the
            first.
        start: Arrow at position 0, as first + i second.
        error: Largest deviation from an even rotation, relative to the arrow's length (0: exact).
    """

    pair: int
    first: int
    second: int
    turn: float
    start: complex
    error: float

    @property
    def frequency(self) -> float:
        """Radians per position, from 0 to pi; higher frequencies are aliased."""
        return abs(self.turn)

    @property
    def wavelength(self) -> float:
        """Positions per full rotation; infinite for a constant pair."""
        return 2 * np.pi / self.frequency if self.frequency else np.inf

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Return the pair's values at positions, also fractional ones: ``[position, 2]``."""
        arrows = self.start * np.exp(1j * self.turn * np.asarray(positions, np.float64))
        return np.stack([arrows.real, arrows.imag], axis=-1)


@dataclass(frozen=True, eq=False)
class Shift:
    """Rows shifted by ``shift`` positions: predicted by one rotation per pair, and actual.

    Attributes:
        shift: Number of positions.
        first: First dimension of each pair.
        second: Second dimension of each pair.
        predicted: ``[position, dimension]`` for the positions 0 to last - shift; NaN for a
            dimension without a pair.
        actual: The same for the actual rows.
        largest: Largest difference over all positions.
        relative: The same relative to the table's largest value.
    """

    shift: int
    first: np.ndarray
    second: np.ndarray
    predicted: np.ndarray
    actual: np.ndarray
    largest: float
    relative: float


# ---- what a trace has --------------------------------------------------------------------------


def position_rows(trace: Trace, name: str) -> np.ndarray:
    """Return the numbers that encode each position: ``[position, dimension]`` float64.

    An added table is returned unchanged. Rotary angles are returned as their cosines, then their
    sines, one column per pair of a query's or key's dimensions (Su et al. 2021, 3.2).

    Args:
        trace: The run.
        name: Key of ``trace.positions``.

    Raises:
        LookupError: The trace has no positions of this name.
        ValueError: A bias on scores has no row per position.
    """
    found = position_array(trace, name)
    if name.startswith("bias."):
        raise ValueError(
            say(
                "{name} is added to the scores of pairs of words. It has no row for each "
                "position, so no wavelengths, no similarity and no shift; its values can be shown.",
                name=position_label(name),
            )
        )
    return _arrows(found) if name.startswith("rotary.") else _checked(found)


def position_array(trace: Trace, name: str) -> np.ndarray:
    """Return the captured array of this name.

    Raises:
        LookupError: The trace has no positions of this name.
    """
    if name not in trace.positions:
        require_captured(trace, mark("positions"))
        have = ", ".join(sorted(trace.positions)) or say("none that could be found")
        raise LookupError(
            say("This run has no positions {name}; it has {known}.", name=repr(name), known=have)
        )
    return trace.positions[name]


def position_label(name: str) -> str:
    """Return the display name of a position array."""
    kind, _, rest = name.partition(".")
    if kind == "bias":
        block, _, layer = rest.rpartition(".")
        return say("The bias of {block} L{layer}", block=called(block), layer=layer)
    if kind == "rotary":
        return say("The {stack}'s turn of queries and keys", stack=called(rest))
    return say("The {stack}'s table", stack=called(rest))


def column_names(name: str, width: int) -> tuple[str, ...]:
    """Return the columns of `position_rows`: dimensions, or cosines and sines of pairs."""
    if name.startswith("rotary."):
        pairs = range(width // 2)
        cosines = (say("cosine {pair}", pair=pair) for pair in pairs)
        return (*cosines, *(say("sine {pair}", pair=pair) for pair in pairs))
    return tuple(say("dimension {number}", number=number) for number in range(width))


def pair_count(trace: Trace, name: str) -> int:
    """Return the number of pairs of dimensions; 0 for a bias.

    Raises:
        LookupError: The trace has no positions of this name.
    """
    if name.startswith("bias."):
        return 0
    return position_rows(trace, name).shape[1] // 2


def run_note(trace: Trace, name: str) -> str:
    """Return the caption suffix for edited positions (scaled or shuffled); else empty."""
    stack = name.partition(".")[2]
    changed = any(
        isinstance(edit, ScalePositions | ShufflePositions) and edit.stack in (None, stack)
        for edit in trace.intervention
    )
    return " · " + say("changed run") if changed else ""


def position_names(trace: Trace, name: str, count: int) -> tuple[str, ...]:
    """Return the positions with their tokens: ``0 The``, ``1 animal``.

    Only numbers if tokens and rows differ in number (patches of an image, vectors).
    """
    return _numbered(trace.words_of(name.split(".")[1]), count)


def bias_names(trace: Trace, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens along the queries and the keys of a bias ``[head, query, key]``."""
    stack, block = MAPS[name.split(".")[1]]
    query = trace.words_of(stack)
    key = trace.source if block == "cross" else query
    shape = position_array(trace, name).shape
    return _numbered(query, shape[-2]), _numbered(key, shape[-1])


def _numbered(tokens: Tokens, count: int) -> tuple[str, ...]:
    if len(tokens) != count:
        return tuple(map(str, range(count)))
    return tuple(f"{place} {label}" for place, label in enumerate(tokens.labels))


def _arrows(angles: np.ndarray) -> np.ndarray:
    """Return cosines, then sines, of angles ``[position, column]``, without duplicate columns."""
    angles = _checked(angles)
    half = angles.shape[1] // 2
    if angles.shape[1] == 2 * half:
        if np.array_equal(angles[:, :half], angles[:, half:]):
            angles = angles[:, :half]
        elif np.array_equal(angles[:, ::2], angles[:, 1::2]):
            angles = angles[:, ::2]
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


# ---- waves -------------------------------------------------------------------------------------


def waves(table: np.ndarray) -> tuple[Wave, ...]:
    """Return the rotation of each pair of dimensions, measured from ``[position, dimension]``.

    Raises:
        ValueError: Nothing rotates: a table of zeros, one position only, or uneven rotation as in a
            learned or a shuffled table.
    """
    found = measured(table)
    length = np.array([abs(wave.start) for wave in found])
    error = np.array([wave.error for wave in found])
    angle = np.array([wave.frequency for wave in found]) * (len(table) - 1)
    way = 2 * length * np.sin(np.minimum(angle, np.pi) / 2)
    if not way.any():
        raise ValueError(say("All positions have the same row: nothing turns."))
    # A pair that hardly moves is near any circle. So the joint deviation of all pairs must also be
    # smaller than their joint movement.
    if error.max() > EVEN or np.linalg.norm(error * length) > EVEN * np.linalg.norm(way):
        raise ValueError(
            say(
                "The pairs of dimensions of this table do not turn evenly from one position to "
                "the next, so they have no wavelength. Learned tables are like this, and shuffled "
                "ones."
            )
        )
    return found


def measured(table: np.ndarray) -> tuple[Wave, ...]:
    """Return every pair of dimensions with its best-fitting even rotation, good or bad.

    Dimensions are paired as neighbors (2i, 2i + 1) or across the halves (i, i + d/2). The better
    fit is used, neighbors if none fits. Rows of zeros are left out: some models use them for
    padding.

    Raises:
        ValueError: A table of zeros, or fewer than two positions.
    """
    table = _checked(table)
    rows = np.flatnonzero(table.any(axis=1))
    if not len(rows):
        raise ValueError(
            say("Every value of this table is zero: nothing is added, so nothing turns.")
        )
    if len(rows) < 2:
        raise ValueError(
            say("A turn needs at least two positions; this table has {count}.", count=len(rows))
        )
    fits = [(pairing, *_fit(table[rows], rows, *pairing)) for pairing in _pairings(table.shape[1])]
    best = min(fits, key=_typical)
    (first, second), turn, start, error = best if _typical(best) <= EVEN else fits[0]
    return tuple(
        Wave(pair, int(a), int(b), float(t), complex(s), float(e))
        for pair, (a, b, t, s, e) in enumerate(zip(first, second, turn, start, error, strict=True))
    )


def _pairings(width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return neighbors, then halves; an odd width leaves the last or middle dimension alone."""
    pairs = np.arange(width // 2)
    halves = [(pairs, pairs + half) for half in sorted({(width + 1) // 2, width // 2})]
    return [(2 * pairs, 2 * pairs + 1), *halves]


def _fit(
    table: np.ndarray, rows: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the even rotation of each pair: radians per position, arrow at 0, error; ``[pair]``.

    Neighboring rows give a rough angle. The remaining phase changes slowly, and a line through all
    of its angles gives the correction.
    """
    arrows = table[:, first] + 1j * table[:, second]
    beside = (np.diff(rows) == 1)[:, None]
    turn = np.angle((beside * arrows[:-1].conj() * arrows[1:]).sum(axis=0))
    left = np.unwrap(np.angle(arrows * _turned(rows, -turn)), axis=0)
    centred = rows - rows.mean()
    turn = turn + centred @ left / (centred @ centred)
    turn[np.abs(turn) < STILL] = 0
    start = (arrows * _turned(rows, -turn)).mean(axis=0)
    strays = np.abs(arrows - start * _turned(rows, turn)).max(axis=0)
    length = np.abs(start)
    error = np.divide(strays, length, out=np.full_like(length, np.inf), where=length > 0)
    return turn, start, error


def _typical(fit: tuple[Any, ...]) -> float:
    return float(np.median(fit[-1]))


def _turned(positions: np.ndarray, turn: np.ndarray) -> np.ndarray:
    return np.exp(1j * positions[:, None] * turn)


# ---- similarity and shift ----------------------------------------------------------------------


def similarity(table: np.ndarray) -> np.ndarray:
    """Return the cosine between the rows of two positions, ``[position, position]`` from -1 to 1.

    Rows of zeros have cosine 0. In a table of sines and cosines it depends on the distance only: it
    is the mean over pairs of cos(frequency x distance).
    """
    table = _checked(table)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
    return np.clip(unit @ unit.T, -1, 1)


def shift(table: np.ndarray, by: int) -> Shift:
    """Predict the row ``by`` positions later with one rotation per pair, and compare.

    For each pair of dimensions one rotation is fitted over all positions (least squares: the angle
    of the summed products) and applied to every row. For sines and cosines the result equals the
    table (Vaswani et al. 2017, section 3.5: a linear function for any fixed offset); for other
    tables it does not. Rows of zeros are left out of the comparison.

    Args:
        table: ``[position, dimension]``.
        by: Positions, from 0 to one less than there are.

    Raises:
        ValueError: A shift out of range, or a table that `measured` refuses.
    """
    table = _checked(table)
    last = len(table) - 1
    if not 0 <= by <= last:
        raise ValueError(
            say(
                "A shift by {by} leads out of this sentence; choose from 0 to {last}.",
                by=by,
                last=last,
            )
        )
    found = measured(table)
    first, second = (np.array([getattr(w, name) for w in found]) for name in ("first", "second"))
    arrows = table[:, first] + 1j * table[:, second]
    here, there = arrows[: len(table) - by], arrows[by:]
    turn = np.exp(1j * np.angle((here.conj() * there).sum(axis=0)))
    predicted, actual = (np.full((len(here), table.shape[1]), np.nan) for _ in range(2))
    predicted[:, first], predicted[:, second] = (here * turn).real, (here * turn).imag
    actual[:, first], actual[:, second] = there.real, there.imag
    both = here.any(axis=1) & there.any(axis=1)
    difference = np.abs(predicted - actual)[both]
    largest = float(np.nanmax(difference, initial=0))
    return Shift(by, first, second, predicted, actual, largest, largest / float(abs(table).max()))


def _checked(table: np.ndarray) -> np.ndarray:
    if table.ndim != 2 or len(table) < 1 or table.shape[1] < 2:
        raise ValueError(
            f"Positions need a table [position, dimension]; got an array of shape {table.shape}."
        )
    return table.astype(np.float64)
