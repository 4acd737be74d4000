"""The page docs/it-head.md, from the results of `it_head.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

LEAST = 1.0  # nats by which the two runs of a pair must differ, so that shares of it are meaningful
ALPHA = 0.05
GOAL = 0.7  # share of the pairs in which a head should attend to another noun
#: Kinds of pairs in `pronouns.tsv`: the difference between the two sentences.
KINDS = {
    "one": "a property in the same sentence (too tired / too wide)",
    "two": "a property in a second sentence",
    "single": "the noun itself",
}
#: Patched sites of the residual stream, all tokens of a site at once.
PLACES = ("the changed word", "it", "all other words", "all words")

INTRODUCTION = """# Does the head with the famous picture decide?

In *The animal didn't cross the street because it was too tired* some head's "it" looks at *animal*,
and with *wide* it looks at *street*: the picture that everybody shows. German must choose: *es* for
the animal, *sie* for the street. So it can be asked whether the head decides. On {pairs} pairs of
sentences that nobody trained on (`training/tables/pronouns.tsv`), measured by

    python -m training.tables.it_head

"""


def page(kept: dict[str, Any], names: Sequence[str]) -> str:
    """Return docs/it-head.md, from the results of the last model."""
    found = kept[names[-1]]
    picture = found["picture"]
    share = picture["turned"] / picture["pairs"]
    head = f"encoder L{picture['head'][0]} H{picture['head'][1]}"
    edge, by_chance = picture["edge"], picture["random"]
    chance = sign_test(picture["only_edge"], picture["only_random"])
    by = found["kinds"]
    lines = [
        INTRODUCTION.format(pairs=found["pairs"]) + f"Model `{names[-1]}`, weights "
        f"`{found['card']['model_hash'][:12]}`.\n",
        "## The picture\n",
        f"Of all encoder heads {head} looks most often at another noun in the other sentence: in "
        f"{picture['turned']} of {picture['pairs']} pairs ({share:.0%}). The goal was more than "
        f"{GOAL:.0%} of the pairs: **{_reached(share > GOAL)}**. It is the best of all heads on "
        f"the very pairs it is counted on; chosen on every second pair (L{picture['half'][0]} "
        f"H{picture['half'][1]}) it is {picture['half_turned']} of {picture['half_pairs']} of the "
        "others.\n",
        "## Its link\n",
        f'Without the link from "it" to the noun that this head looks at most, {edge} of '
        f"{picture['sentences']} sentences have another preferred pronoun; without as many links "
        f"to other words by chance, {by_chance}. The goal was that the link matters more often: "
        f"**{_reached(edge > by_chance and chance < ALPHA)}** (sign test, p = {chance:.2g}).\n",
        "## Swaps\n",
        f"In {found['told_apart']} pairs the model prefers the right pronoun in both sentences, by "
        f"{LEAST:g} nat or more in all. In these, what one head gives in the other sentence is put "
        "into the run of the first (`tv.swap`): 0 is as in the first sentence, 1 as in the other. "
        "Mean over the pairs, its 95 % interval over pairs, and in how many pairs the head moves "
        "most of all.\n",
        table(
            ["head", "moved", "95 %", "moves most"],
            (
                [
                    one["head"],
                    f"{one['moved']:+.2f}",
                    f"{one['low']:+.2f} to {one['high']:+.2f}",
                    f"{one['first']} of {found['told_apart']}",
                ]
                for one in found["heads"]
            ),
        ),
        "\nSeveral of these together, from the first: "
        + ", ".join(f"{one['heads']}: {one['moved']:+.2f}" for one in found["together"])
        + ".\n",
        "Pairs differ in kind, and a mean over all kinds need be like none of them:\n",
        table(
            ["head", *(f"{KINDS[kind]}: {one['pairs']} pairs" for kind, one in by.items())],
            (
                [one["head"], *(_moved(by[kind]["heads"][n]) for kind in by)]
                for n, one in enumerate(found["heads"])
            ),
        ),
        f"\nThe head of the picture, {head}, moves it by {found['pictured']['moved']:+.3f} "
        f"({found['pictured']['low']:+.3f} to {found['pictured']['high']:+.3f}): place "
        f"{found['pictured']['place']} of {found['pictured']['of']}.\n",
        "## Where it stands\n",
        "The encoder's residual stream is taken from the other sentence, behind one layer, at the "
        'word that differs, at "it", at all other words, or at all of them, which must give 1; '
        f"mean of the {found['told_apart'] - found['unmatched']} pairs where every token has a "
        "counterpart."
        + (
            f" In the other {found['unmatched']} the word that differs has another number of "
            "pieces, so a part of it cannot be taken over: behind the last layer all words give "
            f"{found['unmatched_stream'][-1][-1]:+.2f} there."
            if found["unmatched"]
            else ""
        )
        + "\n",
        table(
            ["behind", *PLACES],
            (
                [f"L{layer}", *(f"{value:+.2f}" for value in row)]
                for layer, row in enumerate(found["stream"])
            ),
        ),
        "\n" + verdict(found),
    ]
    return "\n".join(lines) + "\n"


def sign_test(one: int, other: int) -> float:
    """Return the two-sided probability of a count at least this uneven, if both sides are equal."""
    total = one + other
    tail = sum(comb(total, n) for n in range(min(one, other) + 1)) / 2**total
    return min(1.0, 2 * tail)


def _moved(one: dict[str, Any]) -> str:
    return f"{one['moved']:+.2f} ({one['low']:+.2f} to {one['high']:+.2f})"


def _reached(yes: bool) -> str:
    return "reached" if yes else "not reached"


def verdict(found: dict[str, Any]) -> str:
    """Return the conclusion of all figures."""
    last = found["stream"][-1]
    places = dict(zip(PLACES, last, strict=True))
    strongest = {
        kind: max(one["heads"], key=lambda head: head["moved"])
        for kind, one in found["kinds"].items()
    }
    carried = max(("the changed word", "it", "all other words"), key=lambda name: places[name])
    name = f"“{carried}”" if carried == "it" else carried
    return (
        "So the head that carries most is "
        + ", ".join(f"{one['head']} ({KINDS[kind]})" for kind, one in strongest.items())
        + f". Behind the last encoder layer most of what decides stands at {name} "
        f"({places[carried]:+.2f}; at “it” {places['it']:+.2f}). "
        "A swap shows what is enough to turn the pronoun in these pairs, not all that takes part: "
        "a part that others can stand in for moves little when it is swapped alone."
    )


def table(heads: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
