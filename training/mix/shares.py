"""How much of a pass is read, varied, joined and generated."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How the text of a pass is made from the files; shares are of 0 to 1.

    ``times``: how often a file (its name without ``.tsv``) is read in a pass; ``stories``:
    files whose neighbouring lines belong together; ``held_back``: files of which each 40th line
    is never learned from. ``names`` and ``numbers`` are the shares of the pairs in which these
    are exchanged, ``joined`` that of the rows of two to four sentences, ``rough`` that of the
    rows without large letters or last mark, ``capitals`` how many of these are in capitals,
    ``phrases`` and ``agreement`` those of generated pairs; ``agreement_late`` holds once the
    learning rate falls. ``other_cuts`` is the share of the rows whose source side is cut into
    other pieces than usual. ``updates`` are those of a pass.
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
