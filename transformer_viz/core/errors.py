"""Which of all that Python raises is a fault, and which only steers a run or ends the process."""

from __future__ import annotations

import errno
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_IN_RUST = tuple(f"(os error {number})" for number in FULL)  # safetensors keeps no number
JOINERS = "\u200c\u200d"


class TooLongError(ValueError):
    """A text of more tokens than there is room for. ``most`` tokens of it would do."""

    def __init__(self, sentence: str, most: int = 0) -> None:
        super().__init__(sentence)
        self.most = most


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic of native code (pyo3), whose class is known by its name alone.

    A panic is no ``Exception``, so ``except Exception`` lets it pass.
    """
    return type(error).__name__ == "PanicException"


def is_fault(error: BaseException) -> bool:
    """Whether something went wrong: an ``Exception``, or a panic of native code."""
    return isinstance(error, Exception) or is_panic(error)


def is_card_full(error: BaseException) -> bool:
    """Whether a graphics card had no memory left (torch's error, known by its name alone)."""
    return type(error).__name__ == "OutOfMemoryError"


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a disk took no more, as the error or one that it came from tells."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if type(error).__name__ == "SafetensorError" and str(error).endswith(FULL_IN_RUST):
            return True
        error = error.__cause__ or error.__context__
    return False


def short(value: object, most: int = 60) -> str:
    """What came, as an error quotes it: a long value only by its beginning."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def visible(text: str) -> str:
    """Return a text on one line, with what cannot be seen or written as escapes.

    These are a terminal's commands, marks that turn the direction of writing and halves of
    characters (lone surrogates). Joiners stay: scripts and emoji are written with them.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in JOINERS else ascii(c)[1:-1] for c in text)


def writable(text: str) -> str:
    """Return a text that can be written: halves of characters (lone surrogates) as escapes.

    Names of files that are no UTF-8 hold them, and JSON's ``"\\ud800"``.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def whole(text: str) -> bool:
    """Whether a text can be written as it is."""
    return writable(text) == text


def visible_words(value: Any) -> Any:
    """Return plain data with all texts in it `visible`, names in dictionaries too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_words(name): visible_words(one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(visible_words, value))
    return value
