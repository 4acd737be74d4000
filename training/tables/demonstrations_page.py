"""docs/demonstrations.md, from the figures measured by demonstrations.py."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from training.tables.it_head_page import sign_test, table

Found = dict[str, Any]
NEAR = 0.1  # nats per token that a pruned model may lose in D4

INTRODUCTION = """# Findings from papers, measured on our models

The models are trained here within minutes or bundled. Results that disappoint are listed too.
Written by

    python -m training.tables.demonstrations

D1, D2 and D6 are also tests (`tests/demonstrations/`), as far as they hold over seeds. D7,
alignment against links drawn by people, is missing: the data needs an account or a download.
"""


def page(kept: dict[str, Found]) -> str:
    """Return the whole page; a part that was not measured is left out."""
    parts = [PARTS[name](kept[name]) for name in PARTS if name in kept]
    return "\n".join([INTRODUCTION, *parts])


def _verdict(reached: bool) -> str:
    return "**reached**" if reached else "**not reached**"


def induction(found: Found) -> str:
    """Return the section of D1: text and a table."""
    seeds = found["seeds"]
    near = max(abs(one["loss_step"] - one["induction_step"]) for one in seeds)
    lines = [
        "## D1 Induction appears, and the loss falls\n",
        "Olsson et al. 2022. A Transformer of attention alone (4 heads, width 64) learns to go on "
        "with what it saw, said twice with a period of 8 to 16 tokens, in "
        f"{found['steps']} steps; with two layers and with one. A score is that of the best head "
        "of a layer; *half* is the step at which loss and score are half of their way.\n",
        table(
            [
                *("seed", "right, two layers", "right, one layer", "induction, layer 1"),
                *("induction, one layer", "previous, layer 0", "half: loss", "half: induction"),
            ],
            (
                [
                    str(one["seed"]),
                    *(
                        f"{one[name]:.2f}"
                        for name in (
                            *("accuracy", "control", "induction", "control_induction"),
                            "previous",
                        )
                    ),
                    str(one["loss_step"]),
                    str(one["induction_step"]),
                ]
                for one in seeds
            ),
        ),
        "\nRight in more than .95 with two layers and in less than .75 with one: "
        + _verdict(all(one["accuracy"] > 0.95 and one["control"] < 0.75 for one in seeds))
        + ". A head of layer 1 with more than .6 of induction, and none of .5 with one layer: "
        + _verdict(all(one["induction"] > 0.6 and one["control_induction"] < 0.5 for one in seeds))
        + f". Both in the same steps: {near} steps apart at most, of {found['steps']}, looked at "
        f"every {found['every']}. A head of "
        "layer 0 with more than .6 on the token before: "
        + _verdict(all(one["previous"] > 0.6 for one in seeds))
        + "; several heads of that layer share the work.\n",
    ]
    return "\n".join(lines)


def redundancy(found: Found) -> str:
    """Return the section of D2."""
    seeds = found["seeds"]
    return "\n".join(
        [
            "## D2 Heads cover for each other\n",
            "McGrath et al. 2023. What the four heads of layer 1 of the same model cost in nats a "
            "token, each replaced by its mean: the sum of one by one, and all at once "
            "(`tv.rank(...).groups`).\n",
            table(
                ["seed", "sum of each alone", "together", "share"],
                (
                    [
                        str(one["seed"]),
                        f"{one['sum']:.3f}",
                        f"{one['effect']:.2f}",
                        f"{one['sum'] / one['effect']:.1%}",
                    ]
                    for one in seeds
                ),
            ),
            "\nThe sum below a tenth of what they cost together: "
            + _verdict(all(one["sum"] < 0.1 * one["effect"] for one in seeds))
            + ". A ranking of single heads alone would call each of them idle.\n",
        ]
    )


def importance(found: Found) -> str:
    """Return the section of D3."""
    card, place = found["card"], found["positional"]
    lines = [
        "## D3 Confident heads are important heads\n",
        "Voita et al. 2019, figures 1 and 2. Spearman's correlation of confidence (M2) with what "
        f"the removal of a head costs, over the heads of `en-de` (weights "
        f"`{card['model_hash'][:12]}`; {card['sentences']} sentences, {card['rows']} rows; removal "
        "on the first 200), with its 95 % bootstrap interval over heads. Reported, not judged.\n",
        table(
            ["attention", "heads", "Spearman", "95 %"],
            (
                [
                    name,
                    str(one["heads"]),
                    f"{one['spearman']:+.2f}",
                    f"{one['low']:+.2f} to {one['high']:+.2f}",
                ]
                for name, one in found["kinds"].items()
            ),
        ),
        f"\nThe most positional encoder head is {place['head']}: its largest weight stands at one "
        f"offset in {place['share']:.1%} of the rows. Voita's heads have 90 %: "
        + _verdict(place["share"] >= 0.9)
        + ".\n",
    ]
    return "\n".join(lines)


def pruning(found: Found) -> str:
    """Return the sections of D4 and D5."""
    card, curves, kinds = found["card"], found["curves"], found["kinds"]
    count = found["heads"]
    steps = curves["least"]["removed"]
    kept = max(
        removed
        for removed, effect in zip(steps, curves["least"]["effect"], strict=True)
        if effect <= NEAR
    )
    second = curves["most"]["effect"][1], curves["random"]["effect"][1]
    together = {name: one["together"] for name, one in kinds.items()}
    alone = {name: one["mean"] for name, one in kinds.items()}
    lines = [
        "## D4 Most heads can go\n",
        "Michel et al. 2019, Voita et al. 2019. More and more heads of `en-de` give their mean "
        "instead, in the order of the ranking that stands beside the model (200 sentences), "
        f"measured on {card['sentences']} other sentences ({card['rows']} tokens); `random` is the "
        "mean of twenty orders and the band that holds 95 % of them. Nats a token above the whole "
        "model; nothing is trained again.\n",
        table(
            ["removed", "least first", "random", "most first"],
            (
                [
                    f"{removed} ({removed / count:.0%})",
                    _told(curves["least"], n),
                    _told(curves["random"], n),
                    _told(curves["most"], n),
                ]
                for n, removed in enumerate(steps)
            ),
        ),
        f"\nLeast first, {kept} of {count} heads ({kept / count:.0%}) can go within {NEAR} nats "
        f"by the mean; at least 20 % was expected: {_verdict(kept >= 0.2 * count)}. Most first, "
        f"the first {steps[1]} cost {second[0]:.2f} nats, by chance {second[1]:.2f}: "
        f"{_verdict(second[0] > second[1])}. Random lies between the two at every step: "
        + _verdict(
            all(
                a <= b <= c
                for a, b, c in zip(
                    *(curves[name]["effect"][1:-1] for name in ("least", "random", "most")),
                    strict=True,
                )
            )
        )
        + ".\n",
        "## D5 Kinds of attention differ\n",
        "Voita et al. 2019, section 6. What a head costs on average (the same ranking), the "
        "costliest of its kind, and all of a kind at once on the other sentences; nats a token.\n",
        table(
            ["attention", "heads", "mean of one", "costliest", "all at once"],
            (
                [
                    name,
                    str(one["heads"]),
                    f"{one['mean']:.4f}",
                    f"{one['most']:.3f}",
                    f"{one['together']:.2f}",
                ]
                for name, one in kinds.items()
            ),
        ),
        "\nA cross head costs most on average, an encoder head least: "
        + _verdict(
            max(alone, key=alone.__getitem__) == "cross"
            and min(alone, key=alone.__getitem__) == "encoder"
        )
        + f". All at once, {max(together, key=together.__getitem__)} costs most.\n",
    ]
    return "\n".join(lines)


def _told(curve: Found, n: int) -> str:
    return f"{curve['effect'][n]:+.3f} ({curve['low'][n]:+.2f} to {curve['high'][n]:+.2f})"


def alignment(found: Found) -> str:
    """Return the section of D6."""
    seeds = found["seeds"]
    measured = all("lengths" in one for one in seeds)
    lines = [
        "## D6 Who is translated by whom\n",
        "Kobayashi et al. 2020, Chen et al. 2020. Two made-up languages whose alignment is known: "
        "each word has its partner, nouns stand before adjectives, the verb last. A Transformer of "
        "2 + 2 layers with 4 heads translates them; alignment error rate (AER) of cross-attention "
        f"on {found['sentences']} new sentences. *Writes*: the row that writes the word; *reads*: "
        "the row that reads it, one later.\n",
        table(
            [
                *("seed", "words right", "best head, writes", "best head, reads"),
                *("best by layer, writes", "best by layer, reads"),
            ],
            (
                [
                    str(one["seed"]),
                    f"{one['accuracy']:.3f}",
                    *(f"{one[s]['rate']:.3f} (L{one[s]['layer']})" for s in ("out", "in")),
                    *(
                        ", ".join(f"{rate:.2f}" for rate in one[f"{s}_layers"])
                        for s in ("out", "in")
                    ),
                ]
                for one in seeds
            ),
        ),
        "\nThe best head below .15: "
        + _verdict(all(one["out"]["rate"] < 0.15 for one in seeds))
        + ". Each reading is best in another layer: "
        + _verdict(all(one["out"]["layer"] != one["in"]["layer"] for one in seeds))
        + ". The row that reads beats the row that writes: "
        + _verdict(all(one["in"]["rate"] < one["out"]["rate"] for one in seeds))
        + ".\n",
        "The mean weight of all heads of a layer, by the row that writes, layers 0 and 1"
        + (
            "; and the length of what they write together from each word (weight times value "
            "through the output projection)"
            if measured
            else ""
        )
        + ":\n",
        table(
            ["seed", "weights", *(["lengths"] if measured else [])],
            (
                [
                    str(one["seed"]),
                    *(
                        ", ".join(f"{x:.3f}" for x in one[name])
                        for name in ("weights", "lengths")
                        if name in one
                    ),
                ]
                for one in seeds
            ),
        ),
        "",
    ]
    if measured:
        better = mean(x for one in seeds for x in one["lengths"]) <= mean(
            x for one in seeds for x in one["weights"]
        )
        lines.append(f"Lengths are no worse than weights on average: {_verdict(better)}.\n")
    else:
        lines.append("Lengths of what is written were not measured here.\n")
    return "\n".join(lines)


def special(found: Found) -> str:
    """Return the section of D8."""
    models = found["models"]
    said = (
        ""
        if found["given"]
        else " No BERT was given (`--bert FOLDER`), so only the bundled one is listed."
    )
    lines = [
        "## D8 Heads that look at [SEP], and beside the word\n",
        f"Clark et al. 2019, figure 2, on {found['sentences']} sentences (500 for the bundled "
        "model). How many heads give more than half of their weight to special tokens, to the "
        "first token and to the end mark alone, and the heads with most on the word before and "
        f"after.{said}\n",
        table(
            [
                *("model", "heads", "special > .5", "first token > .5", "end mark > .5"),
                *("previous", "next"),
            ],
            (
                [
                    name,
                    str(one["heads"]),
                    str(one["special"]),
                    *("–" if one[n] is None else str(one[n]) for n in ("first", "end")),
                    *(f"{one[n]['head']} {one[n]['share']:.2f}" for n in ("previous", "next")),
                ]
                for name, one in models.items()
            ),
        ),
        "\nAt least one head with more than half on special tokens: "
        + "; ".join(f"{name.partition(',')[0]} {_verdict(one['special'] > 0)}"
                    for name, one in models.items())
        + ". With more than half on the end mark alone, as Clark found it: "
        + _verdict(any(one["end"] for one in models.values()))
        + ". That *before* and *after* are not swapped is held on a witness whose heads are "
        "written by hand (`tests/inference/heads/test_pitfalls.py`).\n",
    ]  # fmt: skip
    return "\n".join(lines)


def pronoun(found: Found) -> str:
    """Return the section of D9."""
    picture, first = found["picture"], found["first"]
    share = picture["turned"] / picture["pairs"]
    chance = sign_test(picture["only_edge"], picture["only_random"])
    better = picture["edge"] > picture["random"] and chance < 0.05
    return "\n".join(
        [
            "## D9 The head with the famous picture\n",
            "The whole measurement is [Does the head with the famous picture decide?](it-head.md) "
            f"(`en-de`, weights `{found['card']['model_hash'][:12]}`). The encoder head that moves "
            f"its look from one noun to the other most often does so in {picture['turned']} of "
            f"{picture['pairs']} pairs ({share:.0%}); more than 70 % was expected: "
            + _verdict(share > 0.7)
            + f". Without its link {picture['edge']} of {picture['sentences']} pronouns change, "
            f"without a link by chance {picture['random']}: "
            + _verdict(better)
            + f". What decides is elsewhere: {first['head']} alone moves {first['moved']:+.2f} of "
            "the way.\n",
        ]
    )


def sinks(found: Found) -> str:
    """Return the section of D10."""
    steps = found["steps"]
    kinds = ("encoder", "decoder", "cross")
    return "\n".join(
        [
            "## D10 Parked attention grows\n",
            "Gu et al. 2024. Weight on special tokens (start and end) by the steps of the training "
            f"of `en-de-small`, mean over heads, {found['sentences']} sentences, and how many "
            "heads have the state *sink*. A line over steps, not judged.\n",
            table(
                ["step", *kinds, "heads that park"],
                (
                    [
                        step,
                        *("–" if one[k] is None else f"{one[k]:.2f}" for k in kinds),
                        f"{one['sinks']} of {one['heads']}",
                    ]
                    for step, one in steps.items()
                ),
            ),
            "",
        ]
    )


PARTS: dict[str, Callable[[Found], str]] = {
    "D1": induction,
    "D2": redundancy,
    "D3": importance,
    "D4": pruning,
    "D6": alignment,
    "D8": special,
    "D9": pronoun,
    "D10": sinks,
}
