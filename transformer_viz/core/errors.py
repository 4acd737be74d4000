"""Which of all that Python raises is a fault, and which only steers a run or ends the process."""

from __future__ import annotations

import errno

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_IN_RUST = tuple(f"(os error {number})" for number in FULL)  # safetensors keeps no number


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
    """A text on one line, what cannot be seen (a terminal's commands among it) as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
