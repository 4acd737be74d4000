"""Texts of each stage of a head's chain: its title, its formula, its symbols, and its purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.stages import Stage
from ...i18n import mark


@dataclass(frozen=True)
class Wording:
    """Texts of one stage (for ``say``).

    Attributes:
        short: Name in the list of stages, the same in every language.
        title: Title.
        formula: Formula with symbols as ``{name}``.
        why: Purpose; it may contain numbers and words of the stage.
    """

    short: str
    title: str
    formula: str
    why: str


#: Texts by the kind of a stage, with its variant if any (see `variant`).
WORDING: dict[str, Wording] = {
    "embedding": Wording(
        "x",
        mark("A word becomes numbers"),
        "{out} = {scale} · {token}",
        mark(
            "Every token has its own row in the table of embeddings, whose numbers training has "
            "found. The row of “{reads}” is multiplied by {scale}, so that the position added next "
            "does not drown it."
        ),
    ),
    "embedding:plain": Wording(
        "x",
        mark("A word becomes numbers"),
        "{out} = {token}",
        mark(
            "Every token has its own row in the table of embeddings, whose numbers training has "
            "found. This is the row of “{reads}”."
        ),
    ),
    "embedding:given": Wording(
        "x",
        mark("The numbers that were given"),
        "{out} = {token}",
        mark("This model reads vectors, no words: here the chain begins."),
    ),
    "position": Wording(
        "+ p",
        mark("Where does the word stand?"),
        "{out} = {x} + {table}",
        mark(
            "Attention by itself does not notice the order of words. So each place has a pattern "
            "of its own, here that of place {place} (counted from 0), and it is added."
        ),
    ),
    "below": Wording(
        "…",
        mark("What the layers below have added"),
        "{out} = {x} + {added}",
        mark(
            "Every layer adds to the word's numbers. After {layers} layers below, this is what "
            "arrives at L{layer}."
        ),
    ),
    "below:one": Wording(
        "…",
        mark("What the layer below has added"),
        "{out} = {x} + {added}",
        mark("Every layer adds to the word's numbers. This is what arrives at L{layer}."),
    ),
    "beside:cross": Wording(
        "+ cross",
        mark("What cross-attention adds"),
        "{out} = {x} + {added}",
        mark(
            "A decoder's layer also looks at the source sentence before its feed-forward network. "
            "What that brings is added here as one vector; open the block Cross to step inside it."
        ),
    ),
    "beside:self": Wording(
        "+ self",
        mark("What self-attention adds"),
        "{out} = {x} + {added}",
        mark(
            "Before a decoder's layer looks at the source sentence, it looks back at its own "
            "words. What that brings is added here as one vector; open the block Decoder to step "
            "inside it."
        ),
    ),
    "norm": Wording(
        "norm",
        mark("Layer norm: every word equally loud"),
        "{normal} = ({x} − {mean}) ÷ {spread}     {out} = {normal} · {gain} + {bias}",
        mark(
            "The mean is taken away, and what is left is divided by its spread. Then each "
            "dimension gets back a volume and an offset of its own, which were learned."
        ),
    ),
    "norm:plain": Wording(
        "norm",
        mark("Layer norm: every word equally loud"),
        "{out} = ({x} − {mean}) ÷ {spread}",
        mark("The mean is taken away, and what is left is divided by its spread."),
    ),
    "norm:gain": Wording(
        "norm",
        mark("Layer norm: every word equally loud"),
        "{normal} = ({x} − {mean}) ÷ {spread}     {out} = {normal} · {gain}",
        mark(
            "The mean is taken away, and what is left is divided by its spread. Then each "
            "dimension gets back a volume of its own, which was learned."
        ),
    ),
    "norm:rms": Wording(
        "norm",
        mark("RMS norm: every word equally loud"),
        "{normal} = {x} ÷ {spread}     {out} = {normal} · {gain}",
        mark(
            "The vector is divided by the root of its mean square. Then each dimension gets back "
            "a volume of its own, which was learned."
        ),
    ),
    "qkv": Wording(
        "q k v",
        mark("Query, key and value"),
        "{q} = {x}·{W_q}     {k} = {memory}·{W_k}     {v} = {memory}·{W_v}",
        mark(
            "With its query “{row}” asks. Each word has a key, by which it can be found, and a "
            "value, which it hands on. All are mixtures of a word's numbers, and how to mix was "
            "learned."
        ),
    ),
    "qkv:bias": Wording(
        "q k v",
        mark("Query, key and value"),
        "{q} = {x}·{W_q} + {b_q}     {k} = {memory}·{W_k} + {b_k}     {v} = {memory}·{W_v} + {b_v}",
        mark(
            "With its query “{row}” asks. Each word has a key, by which it can be found, and a "
            "value, which it hands on. All are mixtures of a word's numbers, and how to mix was "
            "learned."
        ),
    ),
    "qkv:location": Wording(
        "q v",
        mark("Query and value"),
        "{q} = {x}·{W_q}     {v} = {memory}·{W_v}",
        mark(
            "With its query “{row}” asks. Each word has a value, which it hands on. Keys there "
            "are none: this model scores places, not words."
        ),
    ),
    "turn": Wording(
        "turn",
        mark("Positions turn q and k"),
        "{q} = turn({q_before}, {angle})     {k} = turn({k_before}, {k_angle})",
        mark(
            "Each pair of dimensions is turned by an angle that grows with the place. So q·k "
            "depends on how far apart two words stand."
        ),
    ),
    "score": Wording(
        "q·k",
        mark("How well does each key fit?"),
        "{out} = {q} · {k}",
        mark(
            "The query is multiplied with each key, number by number, and the products are added "
            "up. The sum is large where both point the same way."
        ),
    ),
    "score:general": Wording(
        "qW·k",
        mark("How well does each key fit?"),
        "{mapped} = {q}·{W}     {out} = {mapped} · {k}",
        mark(
            "The query is first changed by a learned matrix, then multiplied with each key (the "
            "general form of Luong et al. 2015)."
        ),
    ),
    "score:additive": Wording(
        "tanh",
        mark("How well does each key fit?"),
        "{pairs} = tanh({q} + {k})     {out} = {vector} · {pairs}",
        mark(
            "Query and key are added, bent by tanh, and weighed with a learned vector (the first "
            "attention, Bahdanau et al. 2015)."
        ),
    ),
    "score:location": Wording(
        "q·c",
        mark("Which place is asked for?"),
        "{out} = {q} · {k}",
        mark(
            "The query is multiplied with a learned column for each place. What word stands there "
            "is not looked at (the location form of Luong et al. 2015)."
        ),
    ),
    "scale": Wording(
        "÷ √d",
        mark("Keep the scores small"),
        "{out} = {x} ÷ {divisor}",
        mark(
            "A sum of many products grows with their number. Divided by √{width} = {divisor} the "
            "scores stay in a range in which the softmax can still choose softly."
        ),
    ),
    "between": Wording(
        "score",
        mark("From q·k to the score"),
        "{out} ← {x}",
        mark("What this model does to q·k before the softmax: {what}."),
    ),
    "mask": Wording(
        "mask",
        mark("Who may be looked at?"),
        "{out} = {x} | −∞",
        mark(
            "A hidden word gets a score of −∞, or a number as low, and so a weight of 0. Hidden "
            "here: {hidden} of {keys}."
        ),
    ),
    "temperature": Wording(
        "÷ T",
        mark("Temperature: how sharp is the choice?"),
        "{out} = {x} ÷ {temperature}",
        mark(
            "All scores are divided by T before the softmax. At 1 the model is as it was trained; "
            "above, the choice gets flatter, below, sharper. Move the slider."
        ),
    ),
    "temperature:hard": Wording(
        "÷ T",
        mark("Temperature: how sharp is the choice?"),
        "{out} = {x}     {temperature} → 0",
        mark("Temperature 0 is hard: the largest score takes all, as if T were next to nothing."),
    ),
    "softmax": Wording(
        "softmax",
        mark("Scores become shares"),
        "{out} = {exponentials} ÷ {total}     {exponentials} = exp({x} − {most})",
        mark(
            "exp makes every score positive and large ones much larger; divided by their sum they "
            "are shares that add up to 1. Taking away the largest score first changes no share."
        ),
    ),
    "softmax:head": Wording(
        "softmax",
        mark("Scores become shares"),
        "{softmax} = exp({x} − {most}) ÷ {total}     {out} = {softmax} · {head}",
        mark(
            "exp makes every score positive; divided by their sum they are shares that add up to "
            "1. Then an edit multiplies all weights of this head by {head}."
        ),
    ),
    "softmax:hard": Wording(
        "softmax",
        mark("The largest score takes all"),
        "{out} = 1 | 0",
        mark("At temperature 0 one word gets the whole weight, and the others get nothing."),
    ),
    "softmax:uniform": Wording(
        "softmax",
        mark("All alike"),
        "{out} = 1 ÷ {total}",
        mark("An edit lets this head look at all visible words alike; its scores do not matter."),
    ),
    "softmax:nothing": Wording(
        "softmax",
        mark("Nothing is left to look at"),
        "{out} = 0",
        mark("Every word is hidden from this row: its weights are 0, and it gathers nothing."),
    ),
    "mix": Wording(
        "Σ w·v",
        mark("The values are mixed"),
        "{parts} = {x} · {v}     {out} = Σ {parts}",
        mark(
            "Each value is multiplied by its weight, and all of them are added up. That is what "
            "this head has found for “{row}”."
        ),
    ),
    "concat": Wording(
        "concat",
        mark("All heads side by side"),
        "{out} = [ {heads} ]",
        mark(
            "Each head has found a short vector of its own. They are put one behind the other; "
            "this head's part is framed."
        ),
    ),
    "project": Wording(
        "W^O",
        mark("The heads are put together"),
        "{out} = {x}·{W_o} + {bias} = Σ {shares} + {bias}",
        mark(
            "A learned matrix mixes what the heads have found into one vector. Each head has its "
            "own share in it, and the shares add up."
        ),
    ),
    "project:plain": Wording(
        "W^O",
        mark("The heads are put together"),
        "{out} = {x}·{W_o} = Σ {shares}",
        mark(
            "A learned matrix mixes what the heads have found into one vector. Each head has its "
            "own share in it, and the shares add up."
        ),
    ),
    "residual": Wording(
        "+",
        mark("It is added to what was there"),
        "{out} = {x} + {added}",
        mark(
            "The word keeps its numbers; what was found is added to them. So nothing is lost on "
            "the way up, and a layer only has to learn what to change."
        ),
    ),
    "residual:scaled": Wording(
        "+",
        mark("It is added to what was there"),
        "{out} = {scale} · {x} + {added}",
        mark("An edit multiplies what was there by {scale}; what was found is added to that."),
    ),
    "inner": Wording(
        "W₁",
        mark("Feed-forward: many small questions"),
        "{inner} = {x}·{W_1} + {b_1}     {out} = {activation}({inner})",
        mark(
            "Now each word is worked on by itself. Each of {width} learned questions is asked of "
            "its numbers; {activation} decides which answers count."
        ),
    ),
    "inner:gated": Wording(
        "W₁",
        mark("Feed-forward: many small questions"),
        "{inner} = {x}·{W_1} + {b_1}     {out} = {activation}({inner}) · {gate}",
        mark(
            "Now each word is worked on by itself. Each of {width} learned questions is asked of "
            "its numbers; {activation} decides which answers count, and a gate how much."
        ),
    ),
    "outer": Wording(
        "W₂",
        mark("Feed-forward: back to the word's width"),
        "{out} = {x}·{W_2} + {bias}",
        mark("The answers that count are mixed back into a vector as wide as the word's own."),
    ),
    "zeroed": Wording(
        "0",
        mark("Padding is set to zero"),
        "{out} = 0",
        mark("This model writes zeros over the rows of padding."),
    ),
}


def variant(stage: Stage, biased: bool = False) -> str:
    """Return the key of a stage in `WORDING`; ``biased`` if q, k and v have an offset."""
    kind, extra = stage.kind, VARIANTS.get(stage.kind)
    if biased and kind == "qkv" and "k" in stage.arrays:
        return "qkv:bias"
    name = f"{kind}:{extra(stage)}" if extra else kind
    return name if name in WORDING else kind


def _embedding(stage: Stage) -> str:
    if stage.numbers.get("id") == -1:
        return "given"
    return "plain" if stage.numbers["scale"] == 1 else ""


def _norm(stage: Stage) -> str:
    if stage.words["norm"] == "rms":
        return "rms"
    if "bias" in stage.arrays:
        return ""
    return "gain" if "gain" in stage.arrays else "plain"


def _softmax(stage: Stage) -> str:
    form = stage.words["form"]
    return form if form != "soft" else "head" if stage.numbers["head"] != 1 else ""


VARIANTS: dict[str, Callable[[Stage], str]] = {
    "embedding": _embedding,
    "norm": _norm,
    "softmax": _softmax,
    "beside": lambda stage: stage.block,
    "below": lambda stage: "one" if len(stage.arrays["layers"]) == 2 else "",
    "qkv": lambda stage: "" if "k" in stage.arrays else "location",
    "score": lambda stage: stage.words["score"],
    "temperature": lambda stage: "" if stage.numbers["temperature"] else "hard",
    "residual": lambda stage: "" if stage.numbers["scale"] == 1 else "scaled",
    "project": lambda stage: "" if "bias" in stage.arrays else "plain",
    "inner": lambda stage: "gated" if "gate" in stage.arrays else "",
}
