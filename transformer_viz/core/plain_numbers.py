"""Checks for numbers from external input that every part of the program can represent."""

from __future__ import annotations

from typing import Any

MAX_FLOAT = 3e38  # about the largest float32
MAX_WHOLE = 2**53  # every JSON reader reads whole numbers up to here exactly


def finite(value: Any) -> bool:
    """Return True if a value is a number within float32."""
    # the comparison is false for NaN, and takes whole numbers of any length
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT
    )


def whole(value: Any) -> bool:
    """Return True if a value is a whole number from 0 that every JSON reader reads exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE


def wholes(values: Any) -> bool:
    """Return True if a value is a list or tuple of such whole numbers."""
    return isinstance(values, list | tuple) and all(whole(value) for value in values)
