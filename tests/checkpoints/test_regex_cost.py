"""Patterns of tokenizers: those that people have are read, those that take hours are not."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import tokenizers

from transformer_viz.checkpoints.files.regex_cost import LONGEST, is_cheap

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CUT = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
KNOWN = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{CUT}",
    "GPT-4o": rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?|{CUT}",
    "DeepSeek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"
    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "blanks": r" {2,}",
    "digits": "[0-9][0-9][0-9]",
    "thousands": r"(?=(?:\d{3})+(?!\d))",
    "Han": "[一-龥]+",
}
SLOW = {
    "a repeated choice": "(?:a|a){20}[bc]",
    "a repeated repeat": "(a+)+b",
    "nothing, often": "(a*)*",
    "a repeat at once repeated": "a++*",
    "two without an end, then a failure": "a*a*b",
    "three without an end": "a*a*a*",
    "wide repeats": "a{1,5000}a{1,5000}b",
    "many that may be missing": "a?" * 20 + "a" * 20,
    "choices in a row": "(?:a|a)" * 20 + "b",
    "in a look ahead": "(?=(a+)+b)",
    "what was matched before": r"(a*)\1b",
    "by name": r"(?<x>a*)\k<x>b",
    "groups in groups": "(" * 20 + "a" + ")" * 20,
    "long": "a" * (LONGEST + 1),
    "without its end": "(a",
    "a set without its end": "[a",
    "a property without its end": r"\p{L",
    "an end too much": "a)",
}


def test_patterns_that_people_have_are_read_and_slow_ones_are_not() -> None:
    for name, pattern in KNOWN.items():
        assert is_cheap(pattern), name
        tokenizers.Regex(pattern)  # and the library knows them
    for name, pattern in SLOW.items():
        assert not is_cheap(pattern), name


def drawn(draw: random.Random, deep: int = 0) -> str:
    """A pattern over the letters a and b, most of them slow."""
    parts = []
    for _ in range(draw.randint(1, 4)):
        atom = draw.choice(["a", "b", "[ab]", "."])
        if deep < 3 and draw.random() < 0.5:
            sides = [drawn(draw, deep + 1) for _ in range(draw.randint(1, 3))]
            atom = f"({draw.choice(['', '?:', '?=', '?!'])}{'|'.join(sides)})"
        parts.append(atom + draw.choice(["", "", "*", "+", "?", "{3}", "{2,5}", "{0,50}"]))
    return "".join(parts)


def seconds(pattern: str, text: str) -> float:
    """How long the library takes to cut a text by a pattern, in a child; at least 20 if longer."""
    child = os.fork()
    start = time.monotonic()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, 20)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        try:
            split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
            split.pre_tokenize_str(text)
        finally:
            os._exit(0)
    _, _, used = os.wait4(child, 0)
    assert time.monotonic() >= start
    return used.ru_utime


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.soak)])
def test_what_is_read_is_quick(count: int) -> None:
    draw = random.Random(18)
    cheap = [p for p in (drawn(draw) for _ in range(3000)) if is_cheap(p)]
    assert len(cheap) > 100
    slowest = max((seconds(p, "a" * 2000 + "c"), p) for p in cheap[:count])
    assert slowest[0] < 5, slowest
