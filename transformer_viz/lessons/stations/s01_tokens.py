"""Station 1: tokens and embeddings."""

from __future__ import annotations

from typing import Any

from ...core.trace import Trace
from ...i18n import mark, say
from ..find_spot import some_word
from ..lesson_types import READ, Ask, Notes, Seen, Spot, Station
from ..number_format import dotted, quoted


def _find(trace: Trace, block: str) -> Spot:
    return Spot(block, row=some_word(trace, "encoder" if block == "encoder" else "decoder"))


def _state(spot: Spot) -> dict[str, Any]:
    return {"block": spot.map_name, "layer": 0, "head": 0, "token": spot.row, "step": 0}


def _ask(seen: Seen) -> Ask:
    tokens = seen.clean.source
    words, count = len(seen.text.split()), len(tokens)
    letters = sum(not c.isspace() for c in seen.text)
    numbers = sorted({words, count, letters, *(() if words != count else (count + 3,))})
    marks = [p for p, special in zip(tokens.pieces, tokens.special, strict=True) if special]
    told = {"count": count, "tokens": dotted(tokens.labels)}
    if marks:
        why = say(
            "It reads {count} tokens: {tokens}. Punctuation is a token of its own; some words are "
            "cut into pieces, where counting found it best, not grammar; marks such as {mark} "
            "count too.",
            mark=marks[-1],
            **told,
        )
    else:
        why = say(
            "It reads {count} tokens: {tokens}. Punctuation is a token of its own; some words are "
            "cut into pieces, where counting found it best, not grammar.",
            **told,
        )
    return Ask(
        _question(words),
        tuple(str(number) for number in numbers),
        numbers.index(count),
        why,
        say(
            "Count the pieces of your sentence below, one by one, up to the last one, {last}.",
            last=quoted(tokens.labels[-1]),
        ),
    )


def _question(words: int) -> str:
    if words == 1:
        return say("Your sentence is one word. How many tokens does the model read?")
    return say(
        "Your sentence has {words} words, counted by its spaces. How many tokens does the model "
        "read?",
        words=words,
    )


STATION = Station(
    name="tokens",
    title=mark("Words become numbers"),
    page="step-inside",
    minutes=5,
    aim=mark("Why a model reads pieces of words, and what it turns them into."),
    text=mark(
        "A [model] cannot read letters. It cuts the sentence into pieces, called [tokens|token], "
        "and looks each one up in a table: there it finds a long row of numbers, the token's "
        "[embedding]. Below are these numbers for one word of your sentence. All that follows is "
        "calculating with such rows."
    ),
    do=mark("Type a sentence of your own. Look at how it is cut into pieces."),
    notes=Notes(
        say=mark(
            "Let the class choose the sentence: 8 to 14 words, with one rare word in it. The whole "
            "hour uses it. Nothing in the table of embeddings was written by hand; training found "
            "the numbers."
        ),
        ask=mark("Why not one number for each letter? And why not one for each word there is?"),
        beware=mark(
            "Pupils often think that a token is a word, or that its numbers have names such as "
            "“animal” or “plural”. A single number seldom means anything by itself."
        ),
    ),
    maps=("encoder", "decoder"),
    find=_find,
    state=_state,
    ask=_ask,
    first=READ,
    looks=True,
    pieces=True,
)
