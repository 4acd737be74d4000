"""The sum behind one number of a head's chain, with enough digits to add it by hand."""

from __future__ import annotations

from typing import Any

from ...core.stages import FORMS, Number, Stage, Terms, Walkthrough
from ...i18n import mark, say
from .panels import Names
from .symbols import symbol_of

AXES = {"key": mark("word"), "parts": mark("part")}  # any other axis: a dimension
#: Learned matrices by the stage and the array that they produce.
MATRICES = {
    ("qkv", "q"): "W_q",
    ("qkv", "k"): "W_k",
    ("qkv", "v"): "W_v",
    ("score", "mapped"): "W",
    ("project", "out"): "W_o",
    ("project", "shares"): "W_o",
    ("inner", "inner"): "W_1",
    ("inner", "gate"): "W_g",
    ("inner", "out"): "W_1",
    ("outer", "out"): "W_2",
}
#: Factors and parts that are no array of their stage.
FACTORS = {
    "turn": "cos, sin",
    "active": "f(u)",
    "w": "w_j",
    "seen": "1",
    "std": "σ",
    "centred": "(x − μ)",
}


def sum_words(inside: Walkthrough, terms: Terms, names: Names) -> dict[str, Any]:
    """Return the header fields of an open sum."""
    number = terms.number
    stage = inside[number.stage]
    return {
        "address": str(number),
        "text": _text(stage, number),
        "whose": _whose(stage, number, names),
        "aName": _factor(stage, number, terms.a_name),
        "bName": _factor(stage, number, terms.b_name),
        "axis": say(AXES.get(terms.axis, mark("dimension"))),
        "few": terms.axis == "parts",
        "labels": _labels(stage, terms, names),
        "bias": terms.bias,
        "divisor": terms.divisor,
        "then": {"sqrt": "√"}.get(terms.then, terms.then),
        "sum": terms.sum,
        "total": terms.total,
        "digits": terms.digits(),
    }


def _text(stage: Stage, number: Number) -> str:
    """Return the symbol of the open number."""
    if number.array == "shares":
        return f"a_{number.index[0]}"
    return symbol_of(stage, number.array)[0]


def _factor(stage: Stage, number: Number, name: str) -> str:
    """Return the symbol of a factor; empty for none."""
    if name == "W":
        return MATRICES.get((stage.kind, number.array), name)
    if not name or name in FACTORS:
        return FACTORS.get(name, "")
    return symbol_of(stage, name)[0]


def _whose(stage: Stage, number: Number, names: Names) -> str:
    """Return the position of the number in its array as text."""
    axes = FORMS[stage.kind].get(number.array, ())
    said = []
    for axis, at in zip(axes, number.index, strict=False):
        if axis == "key":
            said.append(say("“{word}”", word=names.keys[at]))
        elif axis in ("head", "layer"):
            said.append(f"{axis[0].upper()}{at}")
        else:
            said.append(say("dimension {at}", at=at + 1))
    return " · ".join(said)


def _labels(stage: Stage, terms: Terms, names: Names) -> list[str]:
    """Return the names of the terms, if they are not just numbered."""
    if terms.axis == "key":
        return list(names.keys)
    return [_part(stage, label) for label in terms.labels]


def _part(stage: Stage, label: str) -> str:
    """Return the symbol of one of a few parts; a layer or a number stays unchanged."""
    if label in FACTORS:
        return FACTORS[label]
    known = label in stage.arrays or label in stage.numbers
    return symbol_of(stage, label)[0] if known else label
