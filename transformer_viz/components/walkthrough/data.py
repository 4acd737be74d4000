"""Step inside a head: every stage of its chain as text, strips of numbers, and rows of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.stages import Stage, Terms, Walkthrough
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.word_merging import produced_by_row
from ..atlas import TITLES
from ..blob import both_palettes, pack
from ..qk import figure
from ..ruler import rulers
from .panels import REST, WEIGHTS, Names, array_name, opening, panels, rest_of
from .sum_sheet import sum_words
from .symbols import symbol_of
from .texts import WORDING, variant

FIRST = 4  # numbers of a vector that are listed with its symbol
IDLE = (("scale", 1.0), ("head", 1.0))  # neutral values are not shown
#: Numbers displayed beside the formula of a stage.
FACTS = {
    "embedding": ("scale",),
    "norm": ("mean", "variance", "spread"),
    "scale": ("divisor",),
    "temperature": ("temperature",),
    "softmax": ("most", "total", "head"),
    "residual": ("scale",),
}


def inside_data(
    trace: Trace,
    inside: Walkthrough,
    *,
    step: int = 0,
    terms: Terms | None = None,
    present: bool = False,
    seq: int = 0,
) -> bytes:
    """Return one head's chain, for ``inside.js``.

    Arrays: each displayed array of each stage, ``{stage}/{name}`` float32, with the axes of
    `insides.FORMS`. Shares of heads are separate (``.../shares/3``), and those without a row are
    summed (``.../shares/rest``). ``weights`` ``[key]``; ``sum_a`` and ``sum_b`` ``[term]`` if a
    number is open.

    Args:
        trace: The run of the chain, for its labels.
        inside: The chain.
        step: Index of the open stage, from 0.
        terms: The sum behind the open number, if any.
        present: True for large type, in front of a class.
        seq: Number of this state.
    """
    names = names_of(trace, inside)
    rows, columns = rulers(trace, inside.site.map)
    header = {
        "part": "inside",
        "seq": seq,
        "colours": both_palettes(),
        "label": f"{say(TITLES[inside.site.map])} · {inside.site.label}",
        "row": names.row,
        "reads": _reads(trace, inside, names),
        "token": inside.row,
        "rows": rows.to_dict(),
        "columns": columns.to_dict(),
        "problem": say(inside.problem) if inside.problem else "",
        "step": max(0, min(step, len(inside.stages) - 1)),
        "present": present,
        "stations": [_station(inside, stage, names) for stage in inside],
        "sum": None if terms is None else sum_words(inside, terms, names),
    }
    return pack(header, **_arrays(inside, terms))


def names_of(trace: Trace, inside: Walkthrough) -> Names:
    """Return the labels of a chain as in the pictures of its head."""
    rows, columns = rulers(trace, inside.site.map)
    reads = trace.words_of(inside.site.stack).labels
    return Names(
        rows.labels[inside.row], reads[inside.row], tuple(columns.labels), inside.site.head
    )


def _reads(trace: Trace, inside: Walkthrough, names: Names) -> str:
    """Return a note on the query's input token, if a row is labelled with its prediction."""
    if inside.site.stack != "decoder" or produced_by_row(trace) is None:
        return ""
    return say("reads “{reads}”, writes “{row}”", **names.to_dict())


def _station(inside: Walkthrough, stage: Stage, names: Names) -> dict[str, Any]:
    biased = "project" in {s.kind for s in inside} and "bias" in inside["project"].arrays
    wording = WORDING[variant(stage, biased)]
    return {
        "name": stage.name,
        "short": wording.short,
        "title": say(wording.title),
        "formula": wording.formula,
        "why": say(wording.why, **_values(inside, stage, names)),
        "symbols": {name: _symbol(stage, name, names) for name in _named(wording.formula)},
        "facts": _facts(stage),
        "panels": panels(stage, names),
    }


def _named(formula: str) -> list[str]:
    """Return the distinct symbols of a formula."""
    found = [part.partition("}")[0] for part in formula.split("{")[1:]]
    return list(dict.fromkeys(found))


def _values(inside: Walkthrough, stage: Stage, names: Names) -> dict[str, Any]:
    """Return the values that the sentence about a stage may use."""
    numbers = {name: _short(value) for name, value in stage.numbers.items()}
    width = stage.arrays["inner"].shape[-1] if "inner" in stage.arrays else 0
    if stage.kind == "scale":
        width = len(inside["score"]["q"])
    return {
        **names.to_dict(),
        "layer": inside.site.layer,
        "layers": inside.site.layer,
        "width": width,
        "keys": len(names.keys),
        "what": _between(stage),
        **numbers,
        **stage.words,
    }


def _between(stage: Stage) -> str:
    """Return a description of another model's steps from q·k to the score, as far as known."""
    if scale := stage.numbers.get("scale"):
        return say("it is multiplied by {scale}", scale=figure(scale))
    return say("more than one number can tell")


def _short(value: float) -> str:
    """Return a number for a sentence; a whole one without decimals."""
    return str(int(value)) if value == int(value) else figure(value)


def _symbol(stage: Stage, name: str, names: Names) -> dict[str, str]:
    text, says = symbol_of(stage, name)
    numbers = ""
    if name in stage.arrays:
        values = stage[name].reshape(-1)[:FIRST]
        more = ", …" if stage[name].size > FIRST else ""
        sizes = " × ".join(map(str, stage[name].shape))
        numbers = f"[{sizes}] {', '.join(figure(float(v)) for v in values)}{more}"
    elif name in stage.numbers:
        numbers = figure(stage.numbers[name])
    return {
        "text": _written(stage, name, text),
        "says": say(says, **names.to_dict()),
        "numbers": numbers,
    }


def _written(stage: Stage, name: str, text: str) -> str:
    """Return the activation's name instead of its symbol."""
    return stage.words["activation"] if name == "activation" else text


def _facts(stage: Stage) -> list[dict[str, str]]:
    """Return the single numbers of a stage, with addresses of those that can be opened."""
    numbers = stage.numbers
    shown = [n for n in FACTS.get(stage.kind, ()) if n in numbers and (n, numbers[n]) not in IDLE]
    return [
        {
            "symbol": name,
            "text": symbol_of(stage, name)[0],
            "value": figure(stage.numbers[name]),
            "open": opening(stage, name),
        }
        for name in shown
    ]


def _arrays(inside: Walkthrough, terms: Terms | None) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for stage in inside:
        for name, array in stage.arrays.items():
            if name == "shares":
                found |= {f"{array_name(stage, name)}/{n}": part for n, part in enumerate(array)}
                found[f"{array_name(stage, name)}/{REST}"] = rest_of(stage, inside.site.head)
            elif name not in ("layers", "heads"):
                found[array_name(stage, name)] = array
    found[WEIGHTS] = next((s["x"] for s in inside if s.kind == "mix"), np.zeros(0))
    if terms is not None:
        found |= {"sum_a": terms.a, "sum_b": terms.b}
    return {name: np.asarray(array, np.float32) for name, array in found.items()}
