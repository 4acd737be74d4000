"""Chain of steps behind one cell of a head's map, from q and k to the weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.trace import Trace
from ..i18n import mark, say
from ..metrics.attention.map_cells import axes
from ..metrics.attention.qk_steps import NoProduct, QKSteps, Step, chain, require_product
from ..metrics.attention.word_merging import produced_by_row
from .blob import both_palettes, pack
from .ruler import rulers

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NEVER = -1e30  # a mask's number that stands for minus infinity


def qk_data(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    query: int,
    key: int | None = None,
    seq: int = 0,
) -> bytes:
    """Return the steps from q and k to one weight, for ``qk.js``.

    Arrays: ``q``, ``k`` and ``product`` float32 ``[d_k]``; ``scores``, ``exponentials`` and
    ``weights`` float32 ``[key]``, and ``seen`` uint8 ``[key]``, of the whole row. If a head has no
    q·k, the header's ``problem`` gives the reason and there are no arrays.

    Args:
        trace: A run with ``keep=("scores", "qkv")``.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        query: Row of the model.
        key: Column of the model; None for the one with the largest weight.
        seq: Number of this state, which the browser returns once it is painted.

    Raises:
        LookupError: A map, layer, head, row or column that the trace lacks; the message lists those
            it has.
    """
    rows, columns = rulers(trace, block)
    header = {
        "part": "head",
        "view": "qk",
        "seq": seq,
        "colours": both_palettes(),
        "title": f"L{layer} H{head}",
        "rows": rows.to_dict(),
        "columns": columns.to_dict(),
        "token": query,
        "problem": "",
    }
    try:
        attention = require_product(trace, block, layer, head)
    except NoProduct as reason:
        return pack(header | {"key": key, "problem": str(reason)})
    if key is None and 0 <= query < attention.weights.shape[1]:
        key = int(np.argmax(attention.weights[head, query]))
    found = chain(trace, block, layer, head, query, key or 0)
    labels = tuple(side.labels for side in axes(trace, attention))
    return pack(header | _words(trace, found, labels), **_arrays(found))


def _words(trace: Trace, found: QKSteps, labels: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """Return the header fields of one chain."""
    row, column = labels[0][found.query], labels[1][found.key]
    names = {"row": row, "column": column, "weight": figure(found.steps[-1].result)}
    said = say("“{row}” may not look at “{column}”: weight {weight}.", **names)
    if found.seen[found.key]:
        said = say("“{row}” looks at “{column}”: weight {weight}.", **names)
    return {
        "key": found.key,
        "row": row,
        "column": column,
        "said": said,
        "steps": [
            _step(step, before, found)
            for step, before in zip(found.steps, (None, *found.steps), strict=False)
        ],
        "sinks": _sinks(found),
        "notes": [*_place(trace, found, row), *found.notes],
    }


def _place(trace: Trace, found: QKSteps, row: str) -> list[str]:
    """Return a note on the query's input token, if a row is labelled with its prediction."""
    if found.site.stack != "decoder" or produced_by_row(trace) is None:
        return []
    read = trace.words_of("decoder").labels[found.query]
    return [
        say("q comes from the place that reads “{read}” and produces “{row}”.", read=read, row=row)
    ]


def _sinks(found: QKSteps) -> str:
    """Return a note on the softmax terms beyond the tokens (a sink column of the model)."""
    extra = found.exponentials[len(found.weights) :]
    if not extra.size:
        return ""
    return say(
        "and {weight} for what is no word (a sink): that weight goes nowhere",
        weight=figure(extra.sum()),
    )


def _arrays(found: QKSteps) -> dict[str, np.ndarray]:
    keys = len(found.weights)
    numbers = {
        "q": found.q,
        "k": found.k,
        "product": found.product,
        "scores": found.scores[:keys],
        "exponentials": found.exponentials[:keys],
        "weights": found.weights,
    }
    arrays = {name: np.asarray(array, np.float32) for name, array in numbers.items()}
    return arrays | {"seen": found.seen.astype(np.uint8)}


# ---- texts of the steps -------------------------------------------------------------------------


def _step(step: Step, before: Step | None, found: QKSteps) -> dict[str, str]:
    """Return a step as displayed: its name, its formula with numbers, its result, its purpose."""
    amount = figure(step.amount)
    name, formula, why = WORDING[step.kind]
    fields = {
        "before": figure(before.result) if before else "",
        "amount": amount,
        "signed": f"− {figure(-step.amount)}" if step.amount < 0 else f"+ {amount}",
        "most": figure(step.most),
        "less": f"+ {figure(-step.most)}" if step.most < 0 else f"− {figure(step.most)}",
        "part": figure(found.exponentials[found.key]),
        "width": len(found.q),
        "keys": len(found.weights),
        "count": f"{step.amount:.0f}",
        "seen": "1" if found.seen[found.key] else "0",
        "why": step.why,
    }
    return {
        "kind": step.kind,
        "name": say(name),
        "formula": say(formula, **fields),
        "result": figure(step.result),
        "why": say(why, **fields),
    }


#: Name, formula and purpose of each kind of step.
WORDING: dict[str, tuple[str, str, str]] = {
    "dot": (mark("q·k"), "q₁k₁ + q₂k₂ + …", mark("the {width} products above, added up")),
    "scale": (mark("scale"), "{before} × {amount}", "{why}"),
    "cap": (
        mark("soft cap"),
        "{amount} × tanh({before} / {amount})",
        mark("this model bounds its scores: none goes beyond ±{amount}"),
    ),
    "bias": (
        mark("position bias"),
        "{before} {signed}",
        mark("what the model adds for the positions of the two words"),
    ),
    "row": (
        mark("shift"),
        "{before} {signed}",
        mark("the same for every score of this row, so the softmax does not notice it"),
    ),
    "other": (
        mark("other terms"),
        "{before} {signed}",
        mark("what else the model makes of the two words and their places"),
    ),
    "temperature": (
        mark("temperature"),
        "{before} ÷ {amount}",
        mark("an edit; everything so far is divided"),
    ),
    "mask": (mark("mask"), mark("hidden"), mark("by {why}, whatever the score")),
    "seen": (
        mark("mask"),
        mark("visible"),
        mark("keys of this row that are hidden: {count} of {keys}"),
    ),
    "softmax": (
        mark("softmax"),
        "exp({before} {less}) ÷ {amount}",
        mark(
            "{part} ÷ {amount}: {most} is the row's largest score (max), {amount} the sum of "
            "exp(score − max) over its keys"
        ),
    ),
    "hard": (
        mark("softmax"),
        mark("temperature 0"),
        mark("the largest score of the row, {most}, takes everything"),
    ),
    "even": (
        mark("alike"),
        "{seen} / {count}",
        mark("an edit; this head looks at all visible words alike"),
    ),
    "nothing": (
        mark("softmax"),
        mark("no key is left"),
        mark("every key of this row is hidden: its weights are 0"),
    ),
    "head": (
        mark("head"),
        "{before} × {amount}",
        mark("an edit scales the weights of this head"),
    ),
    "after": (
        mark("after"),
        "{before} {signed}",
        mark("what the model does to the weight after its softmax"),
    ),
}


def figure(value: float) -> str:
    """Return a number with four decimals; a very large or small one with a power of ten."""
    if np.isnan(value):
        return say("no number")
    if value == np.inf or value <= NEVER:
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size == 0 or 0.001 <= size < 100_000:
        text = f"{value + 0.0:.4f}"  # without the sign of a negative zero
    else:
        digits, power = f"{value:.3e}".split("e")
        text = f"{digits}·10{str(int(power)).translate(SUPERSCRIPT)}"
    return text.replace("-", "−")
