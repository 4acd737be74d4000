"""RESULTS.md: one section a benchmark, each with the day, the machine, the figures and budgets.

A benchmark that is run alone replaces its own section and leaves the others as they were.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Results

Written by `make bench` and `make soak`; do not edit. Budgets are ratios within one run where they
can be, so that they hold on any machine; seconds are those of the machine named.
"""
PACKAGES = ("torch", "transformers", "streamlit", "plotly", "numpy")
Row = tuple[str, ...]


@dataclass(frozen=True)
class Budget:
    """A promise and what was measured; smaller is better."""

    what: str
    got: float
    limit: float
    unit: str = ""

    @property
    def kept(self) -> bool:
        return self.got <= self.limit

    @property
    def line(self) -> str:
        word = "kept" if self.kept else "**missed**"
        return f"- {self.what}: {self.got:.3g}{self.unit}, budget {self.limit:g}{self.unit}: {word}"


@dataclass(frozen=True)
class Section:
    """What one benchmark found. ``table`` begins with its header; ``notes`` say how it was done."""

    title: str
    notes: str
    table: list[Row]
    budgets: list[Budget]

    @property
    def text(self) -> str:
        parts = [f"## {self.title}", f"{date.today()}, {machine()}.", self.notes]
        parts.append("\n".join(b.line for b in self.budgets))
        parts.append(markdown(self.table))
        return "\n\n".join(part for part in parts if part) + "\n"


def markdown(table: list[Row]) -> str:
    """Rows as a Markdown table; the first one is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]]) if table else ""


def machine() -> str:
    """The machine in general words, and the versions that matter."""
    cores, load = os.cpu_count(), os.getloadavg()[0]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{platform.system()} on {platform.machine()}, {cores} cores, load {load:.1f} at the end; "
        f"Python {platform.python_version()}, {versions}"
    )


def write(section: Section, path: Path = RESULTS) -> None:
    """Put a section into the results, in place of its earlier self."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r"^## (.+)\n(?:(?!## ).*\n?)*", old, flags=re.MULTILINE)
    texts = re.split(r"^(?=## )", old, flags=re.MULTILINE)[1:]
    sections = dict(zip(found, texts, strict=True))
    sections[section.title] = section.text
    body = "\n".join(text.rstrip() + "\n" for text in sections.values())
    path.write_text(f"{HEAD}\n{body}", encoding="utf-8")
