"""What a lesson is made of: stations, the runs they speak of, questions, exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.interventions import Intervention
from ..core.sites import MAPS, Site
from ..core.trace import Trace
from ..core.trace_parts import Attention
from ..i18n import mark

PREDICT = mark("Predict first; the numbers come then.")
READ = mark("Read it off the page, then choose.")


class NotHere(ValueError):
    """A question that this sentence or model cannot be asked; the message says why, and a way."""


@dataclass(frozen=True)
class Spot:
    """The place in a run that a station speaks of: a head, one row of its map, one column."""

    map_name: str
    layer: int = 0
    head: int = 0
    row: int = 0
    key: int = 0

    @property
    def label(self) -> str:
        """The head's name: ``L0 H3``."""
        return f"L{self.layer} H{self.head}"

    @property
    def selectors(self) -> dict[str, Any]:
        """The selectors of an edit of this head."""
        stack, block = MAPS[self.map_name]
        return {"stack": stack, "block": block, "layer": self.layer, "head": self.head}


@dataclass(frozen=True)
class Hidden:
    """A word of the output and how many nats it loses while ``count`` source words are hidden.

    ``losses`` by who named the words: a method of `tv.explain`, or ``random`` for the mean of
    random ones.
    """

    word: str
    count: int
    losses: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Seen:
    """What a question is answered from: runs of the very model, on the very sentence.

    ``clean`` holds the weights of every layer of the spot's block; ``changed`` are runs under the
    station's experiments, held to the same words; ``vectors`` is the spot's layer with q and k;
    ``said`` is what the model wrote for each of the station's sayings; ``text`` is the sentence as
    it was typed, ``mixed`` the same words in another order. ``costs`` is what the removal of each
    head costs on this sentence, in nats per token, where the station asks for it; ``hidden`` what
    hiding words did, where it asks for that and the sentence has enough of them.
    """

    text: str
    spot: Spot
    clean: Trace
    vectors: Attention | None = None
    changed: tuple[Trace, ...] = ()
    said: tuple[str, ...] = ()
    mixed: str = ""
    hidden: Hidden | None = None
    costs: Mapping[Site, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """Something to calculate by hand on the worksheet: what to do, a table, and how it comes out.

    ``rows`` are lines of cells, the first one the heads of the columns; an empty cell is to be
    filled in.
    """

    task: str
    rows: tuple[tuple[str, ...], ...]
    solution: str


@dataclass(frozen=True)
class Ask:
    """A question to predict: its options, which one is right in this run, and why, in numbers.

    ``hint`` is one sentence for who was wrong at first: it helps on without giving away the option.
    ``lab`` is the lab that goes on where the reason ends, by its name in the link; ``row``
    the output word that the page Why this word goes on with.
    """

    question: str
    options: tuple[str, ...]
    right: int
    why: str
    hint: str
    exercise: Exercise | None = None
    lab: str = ""
    row: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.right < len(self.options) or len(set(self.options)) < len(self.options):
            raise ValueError(
                f"A question needs options of which each stands once, and one of them right; got "
                f"{self.options} and {self.right}."
            )


@dataclass(frozen=True)
class Notes:
    """For the teacher: what to say, what to ask, and what pupils often get wrong."""

    say: str
    ask: str
    beware: str


@dataclass(frozen=True)
class Saying:
    """Something for the model to write: under these edits, of the sentence or its mixed words."""

    edits: Intervention = field(default_factory=Intervention)
    mixed: bool = False


Experiments = Callable[[Seen], tuple[Intervention, ...]]


def _nothing(seen: Seen) -> tuple[Intervention, ...]:
    return ()


@dataclass(frozen=True)
class Station:
    """One stop of the lesson: a page in the right state, a short text, a question, notes.

    Texts are English and marked for translation; terms of the glossary stand in square brackets.
    ``page`` is the page's address, ``maps`` the maps of which it needs one (the first one that a
    model has is taken). ``find`` chooses the spot, ``state`` what of the link the page is opened
    with, ``ask`` makes the question; ``experiments`` are edits to run first, ``sayings`` what the
    model is to write; ``vectors`` whether q and k are needed; ``stage`` the kind of the step at
    which Step inside opens; ``free`` whether it is about what the model writes by itself, also
    where a translation was typed; ``translates`` whether only a translator can show it; ``first``
    what is said before an option is chosen; ``looks`` whether nothing is to be changed yet, so that
    the controls stay folded; ``pieces`` whether the sentence's pieces are what is asked about, so
    that a class sees them too; ``deed`` the name of a button that does the first experiment;
    ``ranked`` whether all heads are ranked by their removal on the sentence; ``hides`` the row
    whose word is asked about while source words are hidden.
    """

    name: str
    title: str
    page: str
    minutes: int
    aim: str
    text: str
    do: str
    notes: Notes
    maps: tuple[str, ...]
    find: Callable[[Trace, str], Spot]
    state: Callable[[Spot], dict[str, Any]]
    ask: Callable[[Seen], Ask]
    experiments: Experiments = _nothing
    sayings: tuple[Saying, ...] = ()
    vectors: bool = False
    stage: str = ""
    free: bool = False
    translates: bool = False
    first: str = PREDICT
    looks: bool = False
    pieces: bool = False
    deed: str = ""
    hides: Callable[[Trace], int] | None = None
    ranked: bool = False

    def map_name(self, maps: tuple[str, ...]) -> str | None:
        """The map that this station speaks of in a model with these maps; None: it has none."""
        return next((name for name in self.maps if name in maps), None)
