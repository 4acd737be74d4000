"""Which of all that Python raises is a fault, and which only steers a run or ends the process."""

from __future__ import annotations


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


def short(value: object, most: int = 60) -> str:
    """What came, as an error quotes it: a long value only by its beginning."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def visible(text: str) -> str:
    """A text on one line, what cannot be seen (a terminal's commands among it) as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
