"""Counters, gauges and histograms, and their text in the exposition format of Prometheus (0.0.4).

Only what is needed of it: the app brings no client library along.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper bounds
MOST = 200  # label sets of one family; what comes after them is counted as "other"
FAMILY = re.compile(r"^# HELP (\S+) ")

Labels = tuple[str, ...]


@dataclass
class Family:
    """Numbers of one name. ``labels`` names what they are told apart by."""

    name: str
    about: str
    labels: Labels = ()
    kind = "untyped"
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    values: dict[Labels, float] = field(default_factory=dict)

    def text(self) -> str:
        """Its lines: what it is, of which kind, and one for each number."""
        with self.lock:
            lines = list(self._lines())
        return "\n".join([head(self.name, self.kind, self.about), *lines]) + "\n"

    def _lines(self) -> Iterable[str]:
        values = self.values if self.labels else {(): 0.0} | self.values
        return (sample(self.name, self.labels, *one) for one in values.items())

    def _known(self, labels: Labels, values: Mapping[Labels, object]) -> Labels:
        """The label set to count under: a family never grows without bound."""
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} is told apart by {self.labels}; got {labels}.")
        full = labels not in values and len(values) >= MOST
        return ("other",) * len(labels) if full else labels


class Counter(Family):
    """Something that happened, how often."""

    kind = "counter"

    def add(self, *labels: str, more: float = 1) -> None:
        """Count one (or ``more``)."""
        with self.lock:
            labels = self._known(labels, self.values)
            self.values[labels] = self.values.get(labels, 0) + more


class Gauge(Family):
    """Something that goes up and down."""

    kind = "gauge"

    def add(self, more: float, *labels: str) -> None:
        """Change it by so much."""
        with self.lock:
            self.values[labels] = self.values.get(labels, 0) + more


@dataclass
class Seen:
    """Counts below each upper bound and beyond the last, and the sum of what was seen."""

    counts: list[int]
    total: float = 0.0


@dataclass
class Histogram(Family):
    """Seconds that something took, counted below upper bounds."""

    bounds: Sequence[float] = SECONDS
    seen: dict[Labels, Seen] = field(default_factory=dict)
    kind = "histogram"

    def observe(self, seconds: float, *labels: str) -> None:
        """Count something that took so many seconds."""
        with self.lock:
            labels = self._known(labels, self.seen)
            one = self.seen.setdefault(labels, Seen([0] * (len(self.bounds) + 1)))
            one.counts[bisect_left(self.bounds, seconds)] += 1
            one.total += seconds

    def _lines(self) -> Iterable[str]:
        none = {} if self.labels else {(): Seen([0] * (len(self.bounds) + 1))}
        for labels, one in (none | self.seen).items():
            below = 0
            for bound, count in zip((*self.bounds, float("inf")), one.counts, strict=True):
                below += count
                names, values = (*self.labels, "le"), (*labels, number(bound))
                yield sample(f"{self.name}_bucket", names, values, below)
            yield sample(f"{self.name}_sum", self.labels, labels, one.total)
            yield sample(f"{self.name}_count", self.labels, labels, below)


@dataclass
class Asked(Family):
    """Numbers that are asked for when somebody looks: ``ask`` gives them by their labels."""

    ask: Callable[[], Mapping[Labels, float]] = dict
    kind = "gauge"

    def _lines(self) -> Iterable[str]:
        return (sample(self.name, self.labels, *one) for one in self.ask().items())


def head(name: str, kind: str, about: str) -> str:
    """The two lines before the numbers of a family."""
    words = about.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {words}\n# TYPE {name} {kind}"


def sample(name: str, labels: Sequence[str], values: Sequence[str], value: float) -> str:
    """One number with its labels."""
    pairs = ",".join(f'{one}="{_quoted(said)}"' for one, said in zip(labels, values, strict=True))
    return f"{name}{'{' + pairs + '}' if pairs else ''} {number(value)}"


def number(value: float) -> str:
    """A number as the format writes it."""
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def joined(texts: Mapping[str, str], label: str = "worker") -> str:
    """The texts of several processes as one: each number bears the name of its process.

    Args:
        texts: what each process answered, by its name.
        label: what that name is called.
    """
    heads: dict[str, dict[str, None]] = {}  # lines in their order, each once
    numbers: dict[str, list[str]] = {}
    for process, text in texts.items():
        family = ""
        for line in text.splitlines():
            found = FAMILY.match(line)
            family = found[1] if found else family
            if line.startswith("#"):
                heads.setdefault(family, {})[line] = None
            else:
                numbers.setdefault(family, []).append(_labelled(line, label, process))
    return "".join(f"{line}\n" for one in heads for line in (*heads[one], *numbers.get(one, ())))


def _labelled(line: str, label: str, value: str) -> str:
    said = f'{label}="{_quoted(value)}"'
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{said},{rest}"
    name, _, rest = line.partition(" ")
    return f"{name}{{{said}}} {rest}"
