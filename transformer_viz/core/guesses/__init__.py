"""Guessed config values: how they are recorded, marked and replaced.

May import i18n and the errors of core.
"""

from .mark import (
    COLUMN,
    KEY,
    Record,
    guess_advice,
    guess_entry,
    guess_html,
    guess_mark,
    guess_note,
    guess_values,
    guesses_in,
    library_note,
    with_mark,
)

__all__ = [
    "COLUMN",
    "KEY",
    "Record",
    "guess_advice",
    "guess_entry",
    "guess_html",
    "guess_mark",
    "guess_note",
    "guess_values",
    "guesses_in",
    "library_note",
    "with_mark",
]
