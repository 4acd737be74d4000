"""Sums that give the numbers of a walkthrough: one short function per kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..core.stages import Terms
from ..inference.capture_to_numpy import to_numpy
from ..model.transformer import ACTIVATIONS
from .opened_number import Opened

# ---- the residual stream ------------------------------------------------------------------------


def _embedding(n: Opened) -> Terms:
    return n.sum(
        [n.value("token")], [n.of("scale")], ("token", "scale"), "parts", labels=("token",)
    )


def _below(n: Opened) -> Terms:
    column = n.stage["layers"].astype(np.float64)[:, n.at]
    steps, labels = np.diff(column), tuple(f"L{layer}" for layer in range(len(column) - 1))
    if n.number.array == "out":
        steps, labels = np.append(column[0], steps), ("x", *labels)
    return n.sum(steps, 1, ("", ""), "parts", labels=labels)


def _sum(n: Opened) -> Terms:
    values = [n.value("x"), n.value("added")]
    return n.sum(values, [n.of("scale"), 1], ("", ""), "parts", labels=("x", "added"))


# ---- norms --------------------------------------------------------------------------------------


def _mean(n: Opened) -> Terms:
    x = n.stage["x"]
    return n.sum(x, 1, ("x", ""), "d_model", divisor=len(x))


def _variance(n: Opened) -> Terms:
    name = _scattered(n)
    squared = n.stage[name]
    count = len(squared) - (n.stage.words["norm"] == "annotated")
    return n.sum(squared, squared, (name, name), "d_model", divisor=count)


def _scattered(n: Opened) -> str:
    """Return the array that is squared and divided: rms subtracts no mean."""
    return "centred" if "centred" in n.stage.arrays else "x"


def _spread(n: Opened) -> Terms:
    """Return the root of variance and eps; in The Annotated Transformer eps is outside of it."""
    variance, eps = n.of("variance"), n.of("eps")
    if n.stage.words["norm"] == "annotated":
        return n.sum([variance**0.5], [1], ("", ""), "parts", eps, labels=("std",))
    return n.sum([variance], [1], ("", ""), "parts", eps, then="sqrt", labels=("variance",))


def _centred(n: Opened) -> Terms:
    values = [n.value("x"), n.of("mean")]
    return n.sum(values, [1, -1], ("", ""), "parts", labels=("x", "mean"))


def _normal(n: Opened) -> Terms:
    return n.alone(_scattered(n), n.of("spread"))


def _normed(n: Opened) -> Terms:
    bias = n.value("bias") if "bias" in n.stage.arrays else None
    factors = [n.value("normal")], [n.value("gain")]
    return n.sum(*factors, ("normal", "gain"), "parts", bias, labels=("normal",))


# ---- q, k, v and the scores ---------------------------------------------------------------------


def _projected(n: Opened) -> Terms:
    name = {"q": "query", "k": "key", "v": "value"}[n.number.array]
    module, width = getattr(n.part, name), n.stage[n.number.array].shape[-1]
    row = (n.inside.site.head or 0) * width + n.at
    if name == "query":
        return n.linear(n.stage["x"], "x", module, row, "d_model")
    return n.linear(n.stage["memory"][n.number.index[0]], "memory", module, row, "d_model")


def _turned(n: Opened) -> Terms:
    """Return dimension i of a rotated pair: cos times itself, -+ sin times the other one."""
    name = n.number.array
    before = n.stage[f"{name}_before"][n.number.index[:-1]]
    angles = n.stage["angle" if name == "q" else "k_angle"][n.number.index[:-1]]
    half, at = len(angles), n.at
    angle, other = float(angles[at % half]), (at + half) % len(before)
    sine = -np.sin(angle) if at < half else np.sin(angle)
    return n.sum(
        [before[at], before[other]],
        [np.cos(angle), sine],
        (f"{name}_before", "turn"),
        "parts",
        labels=(str(at), str(other)),
    )


def _mapped(n: Opened) -> Terms:
    weight = _score_weight(n)
    return n.sum(n.stage["q"], weight[:, n.at], ("q", "W"), "d_k")


def _pair(n: Opened) -> Terms:
    key, place = n.number.index
    values = [n.stage["q"][place], n.stage["k"][key, place]]
    return n.sum(values, 1, ("", ""), "parts", then="tanh", labels=("q", "k"))


def _score(n: Opened) -> Terms:
    kind, stage = n.stage.words["score"], n.stage
    if kind == "additive":
        return n.sum(stage["pairs"][n.at], stage["vector"], ("pairs", "vector"), "d_k")
    asks = "mapped" if kind == "general" else "q"
    return n.sum(stage[asks], stage["k"][n.at], (asks, "k"), "d_k")


def _score_weight(n: Opened) -> np.ndarray:
    return to_numpy(n.part.score.weight[n.inside.site.head or 0])


def _scaled(n: Opened) -> Terms:
    return n.alone("x", n.of("divisor"))


def _tempered(n: Opened) -> Terms:
    return n.alone("x", n.of("temperature") or 1.0)


# ---- the softmax and what it mixes --------------------------------------------------------------


def _exponential(n: Opened) -> Terms:
    values = [n.value("x"), n.of("most")]
    return n.sum(values, [1, -1], ("", ""), "parts", then="exp", labels=("x", "most"))


def _total(n: Opened) -> Terms:
    return n.sum(n.stage["exponentials"], 1, ("exponentials", ""), "key")


def _share(n: Opened) -> Terms:
    form = n.stage.words["form"]
    if form == "soft" and n.of("total"):
        return n.alone("exponentials", n.of("total"))
    even = n.stage["softmax"] > 0
    seen = [float(n.value("softmax") > 0)]
    count = float(even.sum()) or 1.0
    return n.sum(seen, [1], ("", ""), "parts", divisor=count, labels=("seen",))


def _weight(n: Opened) -> Terms:
    factors = [n.value("softmax")], [n.of("head")]
    return n.sum(*factors, ("softmax", "head"), "parts", labels=("softmax",))


def _mixed(n: Opened) -> Terms:
    return n.sum(n.stage["x"], n.stage["v"][:, n.at], ("w", "v"), "key")


def _mixed_part(n: Opened) -> Terms:
    factors = [n.stage["x"][n.number.index[0]]], [n.value("v")]
    return n.sum(*factors, ("w", "v"), "parts", labels=("w",))


def _output(n: Opened) -> Terms:
    return n.linear(n.stage["x"], "x", n.part.output, n.at, "heads x d_v")


def _output_share(n: Opened) -> Terms:
    head, row = n.number.index
    shares = len(n.stage["shares"])
    slice_ = n.stage["x"].reshape(shares, -1)[head]
    weight = to_numpy(n.part.output.weight[row]).reshape(shares, -1)[head]
    return n.sum(slice_, weight, ("x", "W"), "d_v")


# ---- the feed-forward ---------------------------------------------------------------------------


def _inner(n: Opened) -> Terms:
    module = n.part.gate if n.number.array == "gate" else n.part.inner
    return n.linear(n.stage["x"], "x", module, n.at, "d_model")


def _active(n: Opened) -> Terms:
    """Return the activation of the sum, times the gate if there is one."""
    activation = n.stage.words["activation"]
    if "gate" not in n.stage.arrays:
        return n.linear(n.stage["x"], "x", n.part.inner, n.at, "d_model", activation)
    active: Tensor = ACTIVATIONS[activation](torch.tensor(n.value("inner")))
    factors = [float(active)], [n.value("gate")]
    return n.sum(*factors, ("active", "gate"), "parts", labels=("active",))


def _outer(n: Opened) -> Terms:
    return n.linear(n.stage["x"], "x", n.part.outer, n.at, "d_ff")


#: Function for the sum of each number in ``stages.OPENS``.
SUMS: dict[tuple[str, str], Callable[[Opened], Terms]] = {
    ("embedding", "out"): _embedding,
    ("position", "out"): lambda n: n.added("x", "table"),
    ("below", "added"): _below,
    ("below", "out"): _below,
    ("beside", "out"): _sum,
    ("norm", "mean"): _mean,
    ("norm", "centred"): _centred,
    ("norm", "variance"): _variance,
    ("norm", "spread"): _spread,
    ("norm", "normal"): _normal,
    ("norm", "out"): _normed,
    ("qkv", "q"): _projected,
    ("qkv", "k"): _projected,
    ("qkv", "v"): _projected,
    ("turn", "q"): _turned,
    ("turn", "k"): _turned,
    ("score", "mapped"): _mapped,
    ("score", "pairs"): _pair,
    ("score", "out"): _score,
    ("scale", "out"): _scaled,
    ("temperature", "out"): _tempered,
    ("softmax", "exponentials"): _exponential,
    ("softmax", "total"): _total,
    ("softmax", "softmax"): _share,
    ("softmax", "out"): _weight,
    ("mix", "parts"): _mixed_part,
    ("mix", "out"): _mixed,
    ("project", "shares"): _output_share,
    ("project", "out"): _output,
    ("residual", "out"): _sum,
    ("inner", "inner"): _inner,
    ("inner", "gate"): _inner,
    ("inner", "out"): _active,
    ("outer", "out"): _outer,
}
