"""Symbols in the formulas of a head's chain: notation and meaning."""

from __future__ import annotations

from ...core.stages import Stage
from ...i18n import mark

#: Symbols with the same meaning in every stage: notation and meaning (a text for ``say``).
COMMON: dict[str, tuple[str, str]] = {
    "out": ("x'", mark("what goes on to the next stage")),
    "x": ("x", mark("what came from the stage before")),
    "bias": ("b", mark("a learned offset for each dimension")),
    "added": ("a", mark("what is added")),
    "scale": ("c", mark("the number that it is multiplied by")),
    "q": ("q", mark("the query of “{row}”")),
    "k": ("k_j", mark("the keys, one for each word that can be looked at")),
    "v": ("v_j", mark("the values, one for each word that can be looked at")),
}

#: Symbols of single stages, by name of an array, a number or a matrix.
SYMBOLS: dict[str, dict[str, tuple[str, str]]] = {
    "embedding": {
        "out": ("x", mark("the vector of “{reads}”")),
        "token": ("e", mark("the row of the table for “{reads}”")),
    },
    "position": {
        "x": ("x", mark("the vector of “{reads}”")),
        "table": ("p", mark("the pattern of its place")),
        "out": ("x'", mark("word and place together")),
    },
    "below": {
        "x": ("x", mark("as it entered the first layer")),
        "added": ("a", mark("what the layers below have added to it")),
        "out": ("x'", mark("as it enters this layer")),
    },
    "beside": {"added": ("a", mark("what the other attention of this layer brings"))},
    "norm": {
        "variance": ("σ²", mark("the mean of the squares of x − μ")),
        "centred": ("x − μ", mark("the vector without its mean")),
        "mean": ("μ", mark("the mean of the vector's numbers")),
        "spread": ("σ", mark("the spread of the vector's numbers")),
        "normal": ("n", mark("the vector with mean 0 and spread 1")),
        "gain": ("g", mark("the learned volume of each dimension")),
    },
    "qkv": {
        "x": ("x", mark("the vector of the word that asks")),
        "W_q": ("W_q", mark("a learned matrix; open a number of q to see its column")),
        "b_q": ("b_q", mark("a learned offset for each dimension of q")),
        "b_k": ("b_k", mark("a learned offset for each dimension of k")),
        "b_v": ("b_v", mark("a learned offset for each dimension of v")),
        "W_k": ("W_k", mark("a learned matrix; open a number of k to see its column")),
        "W_v": ("W_v", mark("a learned matrix; open a number of v to see its column")),
    },
    "turn": {
        "q_before": ("q°", mark("the query before it is turned")),
        "k_before": ("k°_j", mark("the keys before they are turned")),
        "angle": ("θ", mark("the angles of the place of the word that asks")),
        "k_angle": ("θ_j", mark("the angles of the places that can be looked at")),
    },
    "score": {
        "out": ("s_j", mark("the score of each word")),
        "W": ("W", mark("a learned matrix; open a number of q' to see its column")),
        "mapped": ("q'", mark("the query after the learned matrix")),
        "pairs": ("t_j", mark("query and key added and bent by tanh")),
        "vector": ("u", mark("a learned vector that weighs them")),
    },
    "scale": {
        "out": ("s'_j", mark("the scaled score")),
        "x": ("s_j", mark("the score")),
        "divisor": ("√d", mark("the square root of the width of q and k")),
    },
    "between": {
        "out": ("s'_j", mark("the score as the softmax gets it")),
        "x": ("s_j", mark("q·k of each word")),
    },
    "mask": {
        "out": ("s'_j", mark("the score after the mask")),
        "x": ("s_j", mark("the score before the mask")),
    },
    "temperature": {
        "out": ("s'_j", mark("the score as the softmax gets it")),
        "x": ("s_j", mark("the score after the mask")),
        "temperature": ("T", mark("the temperature of the attention")),
    },
    "softmax": {
        "out": ("w_j", mark("the weight: which share of its attention the row gives to each word")),
        "softmax": ("p_j", mark("the shares that the softmax gives")),
        "exponentials": ("e_j", mark("exp of each score")),
        "x": ("s_j", mark("the score as the softmax gets it")),
        "most": ("max", mark("the largest score of the row")),
        "total": ("Σe", mark("the sum of all of them")),
        "head": ("h", mark("what an edit multiplies this head's weights by")),
    },
    "mix": {
        "x": ("w_j", mark("the weights")),
        "parts": ("w_j·v_j", mark("each value times its weight")),
        "out": ("z", mark("what this head has found")),
    },
    "concat": {
        "x": ("z", mark("what this head has found")),
        "heads": ("z_h", mark("what each head has found")),
        "out": ("Z", mark("all heads one behind the other")),
    },
    "project": {
        "x": ("Z", mark("all heads one behind the other")),
        "W_o": ("W_o", mark("a learned matrix; open a number to see its column")),
        "shares": ("a_h", mark("each head's part of Z times its own rows of the matrix")),
        "out": ("a", mark("what the attention adds")),
    },
    "residual": {
        "x": ("x", mark("the vector as it was")),
        "added": ("a", mark("what the sub-layer has made of it")),
        "out": ("x'", mark("the sum")),
    },
    "inner": {
        "W_1": ("W_1", mark("a learned matrix; open a number to see its column")),
        "b_1": ("b_1", mark("a learned offset for each question")),
        "inner": ("u", mark("the answers before it is decided which count")),
        "gate": ("g", mark("how much each answer counts")),
        "activation": ("f", mark("the activation function")),
        "out": ("y", mark("the answers that count")),
    },
    "outer": {
        "x": ("y", mark("the answers that count")),
        "W_2": ("W_2", mark("a learned matrix; open a number to see its column")),
        "out": ("f", mark("what the feed-forward network adds")),
    },
    "zeroed": {"out": ("0", mark("zeros"))},
}

#: Symbols whose meaning depends on a stage's words.
SPECIAL: dict[tuple[str, str], tuple[str, str]] = {
    ("k", "location"): ("c_j", mark("a learned column for each place")),
    ("memory", "normed"): ("x_j", mark("the vectors of all words, each after the same norm")),
    ("memory", "stream"): ("x_j", mark("the vectors of all words, as they enter this layer")),
    ("memory", "encoder"): (
        "m_j",
        mark("what the encoder has made of each word of the source sentence"),
    ),
}


def symbol_of(stage: Stage, name: str) -> tuple[str, str]:
    """Return the notation and the meaning of a symbol of a stage (texts for ``say``)."""
    special = SPECIAL.get((name, stage.words.get("score") or stage.words.get("made_from", "")))
    own = SYMBOLS.get(stage.kind, {})
    return special or own.get(name) or COMMON[name]
