"""Whether values that came from outside are numbers that every part of the program can hold."""

from __future__ import annotations

from typing import Any

MAX_FLOAT = 3e38  # about what a float32 can hold
MAX_WHOLE = 2**53  # whole numbers up to here are the same in every JSON reader


def finite(value: Any) -> bool:
    """Whether a value is a number that a float32 can hold."""
    # the comparison is false for NaN, and takes whole numbers of any length
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT
    )


def whole(value: Any) -> bool:
    """Whether a value is a whole number from 0 that every JSON reader reads alike."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE


def wholes(values: Any) -> bool:
    """Whether a value is a list of such whole numbers."""
    return isinstance(values, list | tuple) and all(whole(value) for value in values)
