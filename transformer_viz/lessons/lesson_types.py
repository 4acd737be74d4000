"""Data types of a lesson: stations, their runs, questions, exercises."""

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
    """Raised if a sentence or model does not suit a question; the message suggests a remedy."""


@dataclass(frozen=True)
class Spot:
    """The site in a run that a station is about: a head, one row of its map, one column."""

    map_name: str
    layer: int = 0
    head: int = 0
    row: int = 0
    key: int = 0

    @property
    def label(self) -> str:
        """Name of the head: ``L0 H3``."""
        return f"L{self.layer} H{self.head}"

    @property
    def selectors(self) -> dict[str, Any]:
        """Selectors of an edit of this head."""
        stack, block = MAPS[self.map_name]
        return {"stack": stack, "block": block, "layer": self.layer, "head": self.head}


@dataclass(frozen=True)
class Hidden:
    """Loss of one output word in nats while ``count`` source words are hidden.

    ``losses`` are by method of `tv.explain`, or ``random`` for the mean of random words.
    """

    word: str
    count: int
    losses: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Seen:
    """Runs that answer a question: of this model, on this sentence.

    Attributes:
        text: The typed sentence.
        spot: The spot of the station.
        clean: Clean run with the weights of every layer of the spot's block.
        vectors: The spot's layer with q and k.
        changed: Runs with the station's experiments, on the same target tokens.
        said: Output of the model for each of the station's sayings.
        mixed: The same words in another order.
        hidden: Effect of hiding words, if the station requests it and the sentence has enough.
        costs: Cost of removing each head on this sentence, in nats per token, if requested.
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
    """Calculation by hand for the worksheet: a task, a table, and the solution.

    ``rows`` are lines of cells, the first one the headers of the columns; empty cells are to be
    filled in.
    """

    task: str
    rows: tuple[tuple[str, ...], ...]
    solution: str


@dataclass(frozen=True)
class Ask:
    """Question to predict: its options, the right one in this run, and the reason in numbers.

    Attributes:
        question, options, right, why: Question, options, index of the right option, and reason.
        hint: Sentence after a wrong answer that does not reveal the option.
        exercise: Exercise for the worksheet, if any.
        lab: Name of a lab that continues the topic, as in its link.
        row: The output word that the page Why this word continues with.
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
    """Notes for the teacher: what to explain, what to ask, and common errors of pupils."""

    say: str
    ask: str
    beware: str


@dataclass(frozen=True)
class Saying:
    """Output to generate: with these edits, from the sentence or its mixed words."""

    edits: Intervention = field(default_factory=Intervention)
    mixed: bool = False


Experiments = Callable[[Seen], tuple[Intervention, ...]]


def _nothing(seen: Seen) -> tuple[Intervention, ...]:
    return ()


@dataclass(frozen=True)
class Station:
    """Station of the lesson: a page in the right state, a short text, a question, notes.

    Texts are English and marked for translation; glossary terms are in square brackets.

    Attributes:
        page: Address of the page.
        maps: Maps of which the station needs one; the first that a model has is used.
        find: Chooses the spot.
        state: Returns the URL state of the page.
        ask: Builds the question.
        experiments: Edits to run first.
        sayings: Outputs to generate.
        vectors: True if q and k are needed.
        stage: Kind of the step at which Step inside opens.
        free: True if it is about free decoding, even if a translation was typed.
        translates: True if only a translator can show it.
        first: Text before an option is chosen.
        looks: True if nothing is edited yet, so that the controls stay folded.
        pieces: True if the question is about the sentence's pieces, so that a class sees them too.
        deed: Label of a button that runs the first experiment.
        hides: Returns the row whose word is measured while source words are hidden.
        ranked: True if all heads are ranked by removal on the sentence.
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
        """Return the map of this station in a model with these maps; None if it has none."""
        return next((name for name in self.maps if name in maps), None)
