"""Shares of read, varied, joined and generated text in a pass."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Composition of a pass's text from the files; shares are from 0 to 1.

    Attributes:
        updates: Updates of a pass.
        times: Number of readings of a file (its name without ``.tsv``) in a pass.
        stories: Files whose neighbouring lines belong together.
        held_back: Files whose every 40th line is never learned from.
        names: Share of the pairs with exchanged names.
        numbers: Share of the pairs with exchanged numbers.
        joined: Share of the rows of two to four sentences.
        rough: Share of the rows without capital letters or final mark.
        capitals: Share of the rough rows that are in capitals.
        phrases: Share of generated everyday sentences.
        agreement: Share of generated agreement pairs.
        agreement_late: The same once the learning rate falls.
        other_cuts: Share of the rows whose source is cut into other pieces than usual.
    """

    updates: int
    times: dict[str, int] = field(default_factory=dict)
    stories: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    names: float = 0.35
    numbers: float = 0.3
    joined: float = 0.22
    rough: float = 0.08
    capitals: float = 0.0
    phrases: float = 0.02
    agreement: float = 0.09
    agreement_late: float = 0.035
    other_cuts: float = 0.0
