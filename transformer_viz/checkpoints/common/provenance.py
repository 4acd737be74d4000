"""Origin of each option of a config, and its certainty.

Sources by priority: the user's override, the file, a file beside it, the shapes of the weights or
the code base itself, calibration, convention. The last two are guesses and are marked as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...i18n import mark

#: All origins in the order in which they are tried, with their text for the user.
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
#: Options that follow from another one; settling that one settles them.
FOLLOWING = {"d_k": "heads", "d_v": "heads"}
#: Options that the weights settle for any code base: parts that exist or not.
PARTS = (
    *("encoder_layers", "decoder_layers", "source_vocab", "target_vocab"),
    *("gated", "embedding_norm", "attention_bias", "output_bias", "final_norm"),
)


def settling(guesses: Iterable[str]) -> tuple[str, ...]:
    """Return the guessed options that a user has to settle, without those that follow."""
    words = tuple(guesses)
    return tuple(word for word in words if FOLLOWING.get(word) not in words)


def resolve(
    overrides: Mapping[str, Any], *sources: tuple[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return each option's value from the first source that has it, and the origin of each.

    Args:
        overrides: Options of the user; they win over all others.
        sources: Pairs of an origin (a key of `ORIGINS`) and its options, best first.

    Returns:
        The options with their values, and the same options with their origins.
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
    """Return the origins for a file with mapped names, whose code base is not known.

    The origin "this code base always does" becomes the usual choice, a guess.

    Args:
        origins: As returned by `resolve`.
        settled: Options that are certain nevertheless, beside `PARTS`.
    """
    known = dict.fromkeys(settled, "layout") | dict.fromkeys(PARTS, "shapes")
    return {
        word: known.get(word, "convention") if origin == "layout" else origin
        for word, origin in origins.items()
    }


def override_advice(guesses: Mapping[str, Any], pieces: Sequence[str] = ()) -> str:
    """Return the sentence that states how to give the values of guessed options.

    Args:
        guesses: The options with their values.
        pieces: Target vocabulary, which names the guessed id of a special token.
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
    """Return the guessed options and values listed in such a sentence; empty for any other note."""
    listed, advice, _ = note.partition(ADVICE)
    return listed.removeprefix(GUESSED) if advice and listed.startswith(GUESSED) else ""


def token_name(word: str, value: Any, pieces: Sequence[str]) -> str:
    """Return the token of a guessed id in brackets; empty for other options and without names."""
    known = word.endswith("_id") and isinstance(value, int) and 0 <= value < len(pieces)
    return f" ({pieces[value]!r})" if known and pieces[value] != str(value) else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
