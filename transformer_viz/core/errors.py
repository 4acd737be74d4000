"""Classification of exceptions, and error texts that are safe to print."""

from __future__ import annotations

import errno
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_IN_RUST = tuple(f"(os error {number})" for number in FULL)  # safetensors keeps no number
JOINERS = "\u200c\u200d"


class TooLongError(ValueError):
    """Text with more tokens than allowed. At most ``most`` tokens of it fit."""

    def __init__(self, sentence: str, most: int = 0) -> None:
        super().__init__(sentence)
        self.most = most


def is_panic(error: BaseException) -> bool:
    """Return True if an error is a panic of native code (pyo3), known only by its class name.

    A panic is not an ``Exception``, so ``except Exception`` does not catch it.
    """
    return type(error).__name__ == "PanicException"


def is_fault(error: BaseException) -> bool:
    """Return True for an ``Exception`` or a panic of native code."""
    return isinstance(error, Exception) or is_panic(error)


def is_card_full(error: BaseException) -> bool:
    """Return True if a GPU ran out of memory (torch's error, known only by its class name)."""
    return type(error).__name__ == "OutOfMemoryError"


def is_disk_full(error: BaseException | None) -> bool:
    """Return True if the error, or one of its causes, reports a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if type(error).__name__ == "SafetensorError" and str(error).endswith(FULL_IN_RUST):
            return True
        error = error.__cause__ or error.__context__
    return False


def short(value: object, most: int = 60) -> str:
    """Return the repr of a value for an error message, truncated to ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def visible(text: str) -> str:
    """Return a text on one line, with unprintable characters as escapes.

    These are terminal control codes, marks that change the writing direction, and lone surrogates.
    Joiners are kept: scripts and emoji are written with them.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in JOINERS else ascii(c)[1:-1] for c in text)


def writable(text: str) -> str:
    """Return a text that can be encoded: lone surrogates are escaped.

    File names that are not UTF-8 contain them, and JSON's ``"\\ud800"``.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def whole(text: str) -> bool:
    """Return True if a text can be encoded unchanged."""
    return writable(text) == text


def visible_words(value: Any) -> Any:
    """Return plain data with all texts `visible`, including keys of dictionaries."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_words(name): visible_words(one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(visible_words, value))
    return value
