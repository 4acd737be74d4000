"""Names that a user gives to the weights of a file, and checks of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.errors import visible
from ...i18n import join_words, say
from .table_lines import star_layers

if TYPE_CHECKING:
    from ...checkpoints.naming.name_proposals import NameProposal

NAMED = 3  # names listed in a message


@dataclass
class NameChoice:
    """Current table of names of one model.

    Attributes:
        about: The model's name and its files.
        proposal: The proposed names.
        options: Names of the layout.
        names: Current name of each weight; None leaves it out.
        shown: The same when the table was last built; edits are relative to it.
        together: True if equal weights of all layers share a row.
        turn: Number of times the table was built.
    """

    about: tuple[Any, ...]
    proposal: NameProposal
    options: tuple[str, ...]
    names: dict[str, str | None]
    shown: dict[str, str | None] = field(default_factory=dict)
    together: bool = False
    turn: int = 0

    @property
    def renames(self) -> bool:
        """True if the proposal renames any weight."""
        return any(row.proposed not in (None, row.key) for row in self.proposal.rows)

    def build(self) -> None:
        """Build the table anew from the current names."""
        self.shown, self.turn = dict(self.names), self.turn + 1


def faults(choice: NameChoice) -> Iterable[str]:
    """Yield a message for each error that makes the table unusable."""
    given = Counter(name for name in choice.names.values() if name)
    twice = [name for name, count in given.items() if count > 1]
    if twice:
        both = [key for key, name in choice.names.items() if name == twice[0]]
        yield say(
            "{first} and {second} have one name, {name}. Give one of them another name, or none.",
            first=visible(both[0]),
            second=visible(both[1]),
            name=visible(twice[0]),
        )
    options = set(choice.options)
    strange = [name for name in given if name not in options]
    if strange:
        yield say(
            "{name} is no name of {layout}. Choose one from the list.",
            name=visible(strange[0])[:200],
            layout=choice.proposal.layout,
        )
    if not given:
        yield say("No weight has a name. Give at least one of them a name.")


def remarks(choice: NameChoice) -> Iterable[str]:
    """Yield how much is mapped, and what is missing or left out."""
    rows = choice.proposal.rows
    named = sum(name is not None for name in choice.names.values())
    yield say("{count} of {whole} weights have a name.", count=named, whole=len(rows))
    by_order = [
        row.key for row in rows if row.why == "order" and choice.names[row.key] == row.proposed
    ]
    if len(by_order) == 1:
        yield say("1 name was given by order alone; check it: {weight}.", weight=_some(by_order))
    elif by_order:
        yield say(
            "{count} names were given by order alone; check these first: {weights}.",
            count=len(by_order),
            weights=_some(by_order),
        )
    left = [row.key for row in rows if choice.names[row.key] is None and not row.computed]
    if len(left) == 1:
        yield say("1 weight has no name and is left out: {weight}.", weight=_some(left))
    elif left:
        yield say(
            "{count} weights have no name and are left out: {weights}.",
            count=len(left),
            weights=_some(left),
        )
    missing = _missing(choice)
    if missing:
        yield say(
            "No weight has the names {names}, which the layout may need.", names=_some(missing)
        )


def _missing(choice: NameChoice) -> list[str]:
    """Return unused names of the layout that are required or were proposed."""
    given = set(choice.names.values())
    proposed = [row.proposed for row in choice.proposal.rows if row.proposed]
    return [name for name in (*choice.proposal.missing, *proposed) if name not in given]


def _some(names: list[str]) -> str:
    """Return the first names for a message; those of alike layers count once."""
    alike = list(dict.fromkeys(map(star_layers, names))) if len(names) > NAMED else names
    first = [visible(name)[:80] for name in alike[:NAMED]]
    if len(alike) <= NAMED:
        return join_words(first)
    return say("{words} and {count} more", words=join_words(first), count=len(alike) - NAMED)
