"""A strict reader of Prometheus' text format (exposition format 0.0.4), by its published grammar.

Nothing of ours is used: it is the witness of what the server writes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
ENDINGS = ("_bucket", "_sum", "_count")


@dataclass
class Read:
    """One family: its kind, and its numbers by name and labels."""

    kind: str = ""
    about: str = ""
    numbers: dict[tuple[str, frozenset[str]], float] = field(default_factory=dict)

    def of(self, **labels: str) -> float:
        """The number with exactly these labels, of a family without endings."""
        (found,) = (
            value
            for (_, known), value in self.numbers.items()
            if known == {f'{name}="{said}"' for name, said in labels.items()}
        )
        return found


def read(text: str) -> dict[str, Read]:
    """All families.

    Raises:
        ValueError: the text breaks a rule of the format; says which line.
    """
    if not text.endswith("\n"):
        raise ValueError("The last line must end with a line feed.")
    families: dict[str, Read] = {}
    now = ""
    for line in text.removesuffix("\n").split("\n"):
        if found := HELP.fullmatch(line):
            now = found[1]
            if now in families:
                raise ValueError(f"A second family of this name: {line}")
            families[now] = Read(about=found[2])
        elif found := TYPE.fullmatch(line):
            if found[1] != now or families[now].kind or families[now].numbers:
                raise ValueError(f"TYPE must follow its HELP and stand before numbers: {line}")
            families[now].kind = found[2]
        elif found := SAMPLE.fullmatch(line):
            _number(families, now, found, line)
        else:
            raise ValueError(f"No line of the format: {line}")
    for name, family in families.items():
        if family.kind == "histogram":
            _histogram(name, family)
    return families


def _number(families: dict[str, Read], now: str, found: re.Match[str], line: str) -> None:
    family = families.get(now, Read())
    names = [now + end for end in ENDINGS] if family.kind == "histogram" else [now]
    if found[1] not in names:
        raise ValueError(f"A number outside of its family: {line}")
    labels = re.findall(LABEL, found[2] or "")
    if len({label.partition("=")[0] for label in labels}) != len(labels):
        raise ValueError(f"A label twice: {line}")
    key = (found[1], frozenset(labels))
    if key in family.numbers:
        raise ValueError(f"The same number twice: {line}")
    family.numbers[key] = float(found[3])
    if family.kind == "counter" and not family.numbers[key] >= 0:
        raise ValueError(f"A counter below zero: {line}")


def _histogram(name: str, family: Read) -> None:
    """Buckets are cumulative, the last one is +Inf and counts all."""
    rows: dict[frozenset[str], list[tuple[float, float]]] = {}
    for (which, labels), value in family.numbers.items():
        if which.endswith("_bucket"):
            (bound,) = (one for one in labels if one.startswith('le="'))
            rows.setdefault(labels - {bound}, []).append((float(bound[4:-1]), value))
    for labels, buckets in rows.items():
        bounds, counts = zip(*buckets, strict=True)
        if list(bounds) != sorted(set(bounds)) or bounds[-1] != math.inf:
            raise ValueError(f"{name} has buckets out of order: {bounds}")
        if list(counts) != sorted(counts):
            raise ValueError(f"{name} has buckets that are not cumulative: {counts}")
        if family.numbers[name + "_count", labels] != counts[-1]:
            raise ValueError(f"{name}_count is not its last bucket.")
        if (name + "_sum", labels) not in family.numbers:
            raise ValueError(f"{name} has no sum.")
