"""Which version of a package is here: a library's older versions do less."""

from __future__ import annotations

from importlib.metadata import version


def at_most(package: str, newest: str) -> bool:
    """Whether a package is of this version or older; ``5.20`` holds for 5.20.2 too."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(".")[:2]]

    return numbers(version(package)) <= numbers(newest)
