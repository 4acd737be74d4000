"""Pairs of sentences that differ after "it", with a fixed German text up to the pronoun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.interventions import Intervention
from ...i18n import mark, say
from ...metrics.output.pronouns import IT, Place, places
from ..session.scene import Scene
from ..ui import layout
from ..ui.text_format import escape_markdown
from . import jobs
from .bench import Bench

OWN = "own"
#: Example pairs, used if the sentence has no "it": the beginning, two endings, and a title.
EXAMPLES = {
    "street": (
        "The animal didn't cross the street because it",
        "was too tired.",
        "was too wide.",
        mark("animal and street"),
    ),
    "piano": (
        "The piano didn't fit through the door because it",
        "was too wide.",
        "was too narrow.",
        mark("piano and door"),
    ),
}


@dataclass(frozen=True)
class SentencePair:
    """Two sentences ``start + rest``, and the position of the pronoun in their German text.

    Attributes:
        start: The common beginning, up to "it".
        rests: The two endings.
        number: Index of this "it" in the sentence, from 0.
        said: The German text, generated or typed.
        place: Position of the pronoun, at which the German text is cut off.
    """

    start: str
    rests: tuple[str, str]
    number: int
    said: str
    place: Place

    @property
    def sentences(self) -> tuple[str, str]:
        """Both sentences in full."""
        first, second = (f"{self.start} {rest}" for rest in self.rests)
        return first, second

    @property
    def named(self) -> tuple[str, str]:
        """Both sentences from "it" on, as short names."""
        it = self.start.rpartition(" ")[2]
        first, second = (f"{it} {rest}" for rest in self.rests)
        return first, second

    @property
    def held(self) -> tuple[jobs.HeldWords, ...]:
        """Source, fixed target and candidate words of each sentence."""
        return tuple((text, self.place.before, self.place.words) for text in self.sentences)


def chosen(bench: Bench) -> SentencePair:
    """Draw the controls; return the chosen pair with the German text of the scene's model.

    Raises:
        ValueError: Both sentences are equal, or the translation has no er, sie or es.
    """
    text = " ".join(bench.scene.question.text.split())
    parts = _parts(text)
    with layout.row("bottom", gap="medium"):
        own = {OWN: say("your sentence")} if parts else {}
        names = own | {name: say(example[3]) for name, example in EXAMPLES.items()}
        which = bench.choose("pair", say("pair of sentences"), names, next(iter(names)))
        start, rests, number = _written(bench, which, parts)
    if not parts:
        bench.quiet(say("Your sentence has no “it”, so these pairs are not about it."))
    if rests[0] == rests[1]:
        raise ValueError(
            say(
                "Both sentences end in “{words}” now. Type another end of the second one, so that "
                "“it” stands for something else there.",
                words=rests[0].rstrip("."),
            )
        )
    return _with_german(bench, start, rests, number, which == OWN)


def _parts(text: str) -> list[tuple[str, str]]:
    """Return the text up to and after each "it"; skip an "it" without words after it."""
    cut = [(text[: found.end()], text[found.end() :].strip()) for found in IT.finditer(text)]
    return [(start, rest) for start, rest in cut if rest and any(c.isalpha() for c in rest)]


def _written(
    bench: Bench, which: str, parts: Sequence[tuple[str, str]]
) -> tuple[str, tuple[str, str], int]:
    """Return the common beginning, both endings, and the index of "it"."""
    if which != OWN:
        start, first, second, _ = EXAMPLES[which]
        return start, (first, second), 0
    number = 0
    if len(parts) > 1:
        options = {str(n): f"… {_last(start)} {rest}" for n, (start, rest) in enumerate(parts)}
        number = int(bench.pick("it", say("which “it”"), options, str(len(parts) - 1)))
    start, first = parts[number]
    known = next((one[2] for one in EXAMPLES.values() if one[:2] == (start, first)), first)
    label = say("the second sentence: … {word} …", word=escape_markdown(_last(start)))
    return start, (first, bench.write("second", label, known, width=300)), number


def _last(start: str) -> str:
    """Return the last two words of a text."""
    return " ".join(start.split()[-2:])


def _with_german(
    bench: Bench, start: str, rests: tuple[str, str], number: int, own: bool
) -> SentencePair:
    typed = bench.scene.question.target if own else ""
    said, found = "", list[Place]()
    for rest in rests:
        said = typed or _translated(bench, f"{start} {rest}")
        found = places(said)
        if found:
            break
    if not found:
        raise ValueError(
            say(
                "The translation “{text}” has none of er, sie and es, the German words for “it”, "
                "so there is no place to look at. Choose another pair, or a model that translates "
                "into German.",
                text=said,
            )
        )
    place = len(found) - 1
    if len(found) > 1:
        options = {str(n): f"… {_last(one.before)} ▢{one.behind}" for n, one in enumerate(found)}
        place = int(bench.pick("place", say("which pronoun"), options, str(place), width=340))
    return SentencePair(start, rests, number, said, found[place])


def _translated(bench: Bench, text: str) -> str:
    question = bench.scene.question
    text, _ = bench.ask(
        question.model,
        jobs.translated,
        text,
        question.beam,
        Intervention().to_json(),
        says=say("Translating ..."),
    )
    return text


def lacks(scene: Scene) -> str | None:
    """Return a reason if the model cannot run a pair, else None."""
    kind = scene.kind
    if kind.translates and kind.takes == "text" and kind.spelled and kind.writes:
        return None
    return say(
        "This lab needs a model that translates English into German, and this one does not; "
        "choose en-de."
    )
