"""Guessed config values: the mark shown with every result, and how to set the right value.

A manifest, a run card or a plan holds them under ``guesses``, by name and value. Without guesses
the entry is missing. `guess_mark` defines the only wording of the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Protocol

from ...i18n import say
from ..errors import visible

KEY = "guesses"


class Recorded(Protocol):
    """An object with a manifest, such as a trace."""

    @property
    def manifest(self) -> dict[str, Any]: ...


#: A run, its manifest, or a card; None is ignored.
Record = Recorded | Mapping[str, Any] | None
#: Last column of a CSV file whose numbers depend on guessed values.
COLUMN = "guessed"


def guess_entry(guesses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a manifest or a card for guessed values; empty without guesses."""
    return {KEY: dict(guesses)} if guesses else {}


def guesses_in(*records: Record) -> dict[str, Any]:
    """Return the guessed names of runs, manifests and cards with their values.

    A card of a comparison holds both sides under ``a`` and ``b``. If records disagree on a value,
    all values are joined: ``8 / 4``.
    """
    found: dict[str, Any] = {}
    for one in records:
        record = getattr(one, "manifest", one)
        if not isinstance(record, Mapping):
            continue
        for part in (record.get(KEY), *(_side(record, name) for name in ("a", "b"))):
            for word, value in part.items() if isinstance(part, Mapping) else ():
                name = visible(str(word))
                known = found.setdefault(name, value)
                if value != known and str(value) not in str(known).split(" / "):
                    found[name] = f"{known} / {value}"
    return found


def _side(record: Mapping[str, Any], name: str) -> Any:
    side = record.get(name)
    return side.get(KEY) if isinstance(side, Mapping) else None


def guess_mark(guesses: Iterable[str]) -> str:
    """Return the mark, ``guessed: heads, activation``; empty without guesses."""
    words = ", ".join(guesses)
    return say("guessed: {words}", words=words) if words else ""


def guess_advice(guesses: Mapping[str, Any]) -> str:
    """Return two sentences: the assumed values, and how to set them; empty without guesses."""
    if not guesses:
        return ""
    return say(
        "No file says {values}; a wrong value shows wrong maps. Say the right value: {python} in "
        "tv.load, {command} on the command line, or the form on the page Checkpoint.",
        values=guess_values(guesses),
        python=", ".join(f"{word}=" for word in guesses),
        command=" ".join(f"--set {word}=" for word in guesses),
    )


def guess_values(guesses: Mapping[str, Any]) -> str:
    """Return the guesses as text, ``heads=1, activation=relu``."""
    return ", ".join(f"{word}={visible(str(value))}" for word, value in guesses.items())


def library_note(*records: Record) -> tuple[str, ...]:
    """Return the last note of a result in Python: the mark, and the keyword that sets the value."""
    guesses = guesses_in(*records)
    if not guesses:
        return ()
    said = say(
        "No file says {values}; say the right value with {python} in tv.load.",
        values=guess_values(guesses),
        python=", ".join(f"{word}=" for word in guesses),
    )
    return (f"{guess_mark(guesses)}. {said}",)


def guess_note(*records: Record) -> str:
    """Return mark and advice for runs and cards; empty without guesses."""
    guesses = guesses_in(*records)
    return f"{guess_mark(guesses)}. {guess_advice(guesses)}" if guesses else ""


def with_mark(text: str, *records: Record) -> str:
    """Return a status or a short line followed by the mark: ``green; guessed: heads``."""
    return "; ".join(filter(None, (text, guess_mark(guesses_in(*records)))))


def guess_html(*records: Record) -> str:
    """Return the note as a paragraph of HTML, escaped; empty without guesses."""
    note = guess_note(*records)
    style = "margin:4px 0;font-size:14px;opacity:.85"
    return f'<p data-role="guess" style="{style}">{escape(note)}</p>' if note else ""
