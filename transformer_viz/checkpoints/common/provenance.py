"""Where each word of a config came from, and how sure it is.

A word is taken, in this order, from the user's override, the file, a file beside it, what the
shapes of the weights or the code base itself settle, calibration on sample text, and last a
convention. The last two are guesses, and are marked as such wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...i18n import mark

#: Every origin, in the order in which they are asked, with what it means to a reader.
ORIGINS = {
    "override": mark("you said so"),
    "file": mark("the file says so"),
    "sidecar": mark("a file beside it says so"),
    "shapes": mark("read off the shapes of the weights"),
    "layout": mark("this code base always does it so"),
    "module": mark("the module in memory says so"),
    "calibration": mark("sample text is most probable with it"),
    "convention": mark("the usual choice"),
    "default": mark("not said; our own default"),
}
GUESSES = ("calibration", "convention")
#: Words that follow from another one: who settles that one settles them.
FOLLOWING = {"d_k": "heads", "d_v": "heads"}
#: Words that the weights settle whatever code wrote them: parts that are there or not.
PARTS = (
    *("encoder_layers", "decoder_layers", "source_vocab", "target_vocab"),
    *("gated", "embedding_norm", "attention_bias", "output_bias", "final_norm"),
)


def settling(guesses: Iterable[str]) -> tuple[str, ...]:
    """Return the guessed words that somebody has to say, without those that follow from others."""
    words = tuple(guesses)
    return tuple(word for word in words if FOLLOWING.get(word) not in words)


def resolve(
    overrides: Mapping[str, Any], *sources: tuple[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The value of each word from the first source that has it, and which source that was.

    Args:
        overrides: what the user said; wins over all others.
        sources: pairs of an origin (a key of `ORIGINS`) and the words it gives, best first.

    Returns:
        The words with their values, and the same words with their origins.
    """
    settings: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, given in (("override", overrides), *sources):
        for word, value in given.items():
            if word not in settings:
                settings[word], origins[word] = value, origin
    return settings, origins


GUESSED, ADVICE = "Guessed: ", ". Give what you trained with, as "


def doubt_layout(origins: Mapping[str, str], settled: Collection[str] = ()) -> dict[str, str]:
    """Return the origins of a file whose names were mapped, so that its code base is not known.

    What "this code base always does" is then the usual choice, a guess.

    Args:
        origins: as `resolve` gives them.
        settled: words that are certain all the same, beside `PARTS`.
    """
    known = dict.fromkeys(settled, "layout") | dict.fromkeys(PARTS, "shapes")
    return {
        word: known.get(word, "convention") if origin == "layout" else origin
        for word, origin in origins.items()
    }


def override_advice(guesses: Mapping[str, Any], pieces: Sequence[str] = ()) -> str:
    """Return the sentence that says how to give the values of guessed words.

    Args:
        guesses: the words with their values.
        pieces: the target's vocabulary, in which a guessed id of a special token has a name.
    """
    shown = [
        f"{word}={_short(value)}{token_name(word, value, pieces)}"
        for word, value in guesses.items()
    ]
    word = next((word for word in ("heads", "norm") if word in guesses), next(iter(guesses)))
    value = guesses[word]
    given = f"tv.load(..., {word}={value!r}) or --set {word}={_short(value)}."
    return f"{GUESSED}{', '.join(shown)}{ADVICE}{given}"


def guesses_of_note(note: str) -> str:
    """Return the guessed words and values that such a sentence lists; empty for any other note."""
    listed, advice, _ = note.partition(ADVICE)
    return listed.removeprefix(GUESSED) if advice and listed.startswith(GUESSED) else ""


def token_name(word: str, value: Any, pieces: Sequence[str]) -> str:
    """Return the token of a guessed id in brackets; empty for other words and without names."""
    known = word.endswith("_id") and isinstance(value, int) and 0 <= value < len(pieces)
    return f" ({pieces[value]!r})" if known and pieces[value] != str(value) else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
