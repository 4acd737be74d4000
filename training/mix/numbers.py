"""Numbers and clock times that change together on both sides of a pair."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

Random = np.random.Generator
NUMBER = re.compile(r"(?<![\w.,:/-])(\d{1,4})(?![\w/-]|[.,:]\d)")
CLOCK = re.compile(r"(?<![\w.,:])(\d{1,2})([:.])([0-5]\d)(?![\w]|[.,:]\d)")


def another_number(old: int, random: Random) -> int:
    """Return a number of the same range: hours, days, years stay such; 0 and 1 do not change."""
    for low, high in ((0, 1), (2, 12), (13, 28), (29, 99), (100, 999)):
        if old <= high:
            return old if high == 1 else int(random.integers(low, high + 1))
    return int(random.integers(1900, 2030) if 1500 <= old <= 2100 else random.integers(1000, 9999))


def vary_numbers(english: str, german: str, random: Random) -> tuple[str, str]:
    """Return the pair with other numbers, if both sides hold the same ones."""
    here = Counter(NUMBER.findall(english))
    if here and here == Counter(NUMBER.findall(german)):
        new = {old: str(another_number(int(old), random)) for old in sorted(here)}
        english = NUMBER.sub(lambda found: new[found[1]], english)
        german = NUMBER.sub(lambda found: new[found[1]], german)
    return vary_clocks(english, german, random)


def vary_clocks(english: str, german: str, random: Random) -> tuple[str, str]:
    """Return the pair with other times of day; each side keeps its separator."""
    here = {(hour, minute) for hour, _, minute in CLOCK.findall(english)}
    if not here or here != {(hour, minute) for hour, _, minute in CLOCK.findall(german)}:
        return english, german
    new = {}
    for old in sorted(here):
        hour = random.integers(1, 13) if int(old[0]) < 13 else random.integers(13, 24)
        new[old] = f"{hour}", f"{5 * random.integers(12):02}"

    def put(found: re.Match[str]) -> str:
        hour, minute = new[found[1], found[3]]
        return f"{hour}{found[2]}{minute}"

    return CLOCK.sub(put, english), CLOCK.sub(put, german)
