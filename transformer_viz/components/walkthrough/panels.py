"""Pictures of each stage of a chain: vectors below one another, or a row for each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.apply_edits import HIDING
from ...core.stages import OPENS, Stage
from ...i18n import mark, say
from ..qk import figure
from .symbols import symbol_of

Panel = dict[str, Any]
MOST_HEADS = 16  # rows of shares below one another
REST = "rest"  # the summed shares of the others
WEIGHTS = "weights"  # the array that sorts the rows if there are too many

#: Texts for the reasons of a mask, hidden or visible.
REASONS: dict[str, str] = {
    "": mark("visible"),
    "padding": mark("hidden: padding, no word of the sentence"),
    "future": mark("hidden: a later word, not yet written"),
    **{edit.kind: edit.reason for edit in HIDING},
    "lifted": mark("visible: an edit lifts the causal mask"),
    "masked": mark("hidden by the model"),
}


@dataclass(frozen=True)
class Names:
    """Labels of one chain.

    Attributes:
        row: Label of the query in the picture.
        reads: Its input token.
        keys: Labels of the keys.
        head: Index of the head.
    """

    row: str
    reads: str
    keys: tuple[str, ...]
    head: int | None = None

    def to_dict(self) -> dict[str, str]:
        """Return the fields available to texts."""
        return {"row": self.row, "reads": self.reads}


def panels(stage: Stage, names: Names) -> list[Panel]:
    """Return the pictures of one stage, in reading order."""
    return PANELS.get(stage.kind, _added)(stage, names)


def array_name(stage: Stage, array: str) -> str:
    """Return the name of a stage's array in the blob."""
    return f"{stage.name}/{array}"


def shape(stage: Stage, array: str) -> str:
    """Return the shape of an array as displayed: ``[14 × 32]``."""
    return f"[{' × '.join(map(str, stage[array].shape))}]"


# ---- vectors ------------------------------------------------------------------------------------


def _vectors(
    stage: Stage,
    names: Names,
    rows: list[tuple[str, str]],
    *,
    marked: tuple[int, int] | None = None,
) -> Panel:
    """Return vectors of one length, each with the sign that joins it to the one above."""
    known = [(sign, name) for sign, name in rows if name in stage.arrays]
    sums = any(sign in ("+", "−") for sign, _ in known)
    most = max((_most(stage[name]) for _, name in known), default=0.0) if sums else 0.0
    made = [_row(stage, names, name, sign, most) | {"marked": marked} for sign, name in known]
    return {"form": "vectors", "name": say("vectors"), "rows": made}


def _row(stage: Stage, names: Names, name: str, sign: str, most: float) -> dict[str, Any]:
    text, says = symbol_of(stage, name)
    return {
        "symbol": name,
        "text": text,
        "label": say(says, **names.to_dict()),
        "shape": shape(stage, name),
        "array": array_name(stage, name),
        "sign": sign,
        "open": opening(stage, name),
        "scale": most,
        "marked": None,
        "own": False,
    }


def opening(stage: Stage, name: str) -> str:
    """Return the address prefix of an array's numbers; empty if they are no sums."""
    return array_name(stage, name) if name in OPENS[stage.kind] else ""


def _most(numbers: np.ndarray) -> float:
    finite = numbers[np.isfinite(numbers)]
    return float(np.abs(finite).max(initial=0.0))


def _embedding(stage: Stage, names: Names) -> list[Panel]:
    return [_vectors(stage, names, [("", "token"), ("=", "out")])]


def _position(stage: Stage, names: Names) -> list[Panel]:
    return [_vectors(stage, names, [("", "x"), ("+", "table"), ("=", "out")])]


def _added(stage: Stage, names: Names) -> list[Panel]:
    return [_vectors(stage, names, [("", "x"), ("+", "added"), ("=", "out")])]


def _norm(stage: Stage, names: Names) -> list[Panel]:
    rows = [("", "x"), ("", "centred"), ("", "normal"), ("·", "gain"), ("+", "bias"), ("=", "out")]
    found = _vectors(stage, names, rows)
    for row in found["rows"]:
        row["scale"] = 0.0  # n, g and b are no parts of one sum
    return [found]


def _concat(stage: Stage, names: Names) -> list[Panel]:
    span = (int(stage.numbers["start"]), int(stage.numbers["stop"]))
    whole = _vectors(stage, names, [("", "out")], marked=span)
    return [_vectors(stage, names, [("", "x")]), whole]


def _project(stage: Stage, names: Names) -> list[Panel]:
    return [_vectors(stage, names, [("", "x")]), _shares(stage, names, names.head)]


def _shares(stage: Stage, names: Names, own: int | None) -> Panel:
    """Return the contribution of each head, and their sum."""
    shares, rest = stage["shares"], rest_of(stage, own)
    whole = _vectors(stage, names, [("+", "bias"), ("=", "out")])
    most = max(_most(shares), _most(rest), *(row["scale"] for row in whole["rows"]))
    heads = shown_heads(len(shares), own)
    made = [_share(stage, names, head, most) | {"own": head == own} for head in heads]
    made[0]["sign"] = ""
    if len(heads) < len(shares):
        made.append(_rest(stage, names, len(shares) - len(heads), most))
    for row in whole["rows"]:
        row["scale"] = most
    return whole | {"rows": made + whole["rows"]}


def _share(stage: Stage, names: Names, head: int, most: float) -> dict[str, Any]:
    row = _row(stage, names, "shares", "+", most)
    return row | {
        "text": f"a_{head}",
        "label": say("the share of H{head}", head=head),
        "shape": f"[{stage['shares'].shape[1]}]",
        "array": f"{row['array']}/{head}",
        "open": f"{row['open']}/{head}",
    }


def _rest(stage: Stage, names: Names, count: int, most: float) -> dict[str, Any]:
    row = _row(stage, names, "shares", "+", most)
    return row | {
        "text": "Σ a_h",
        "label": say("the shares of the other {count} heads together", count=count),
        "shape": f"[{stage['shares'].shape[1]}]",
        "array": f"{row['array']}/{REST}",
        "open": "",  # a sum of many heads' sums
    }


def shown_heads(count: int, own: int | None) -> list[int]:
    """Return the heads with a separate row of shares, ``own`` among them."""
    if count <= MOST_HEADS:
        return list(range(count))
    shown = list(range(MOST_HEADS - 1))  # the last row is the sum of the others
    return shown if own is None or own in shown else [*shown[:-1], own]


def rest_of(stage: Stage, own: int | None) -> np.ndarray:
    """Return the summed contribution of the heads without a row: float32 ``[d_model]``."""
    shares = stage["shares"]
    others = np.delete(shares, shown_heads(len(shares), own), axis=0)
    return others.sum(axis=0, dtype=np.float64).astype(np.float32)


def _inner(stage: Stage, names: Names) -> list[Panel]:
    rows = [("", "inner"), ("·", "gate"), ("=", "out")]
    return [_vectors(stage, names, [("", "x")]), _vectors(stage, names, rows)]


def _outer(stage: Stage, names: Names) -> list[Panel]:
    return [
        _vectors(stage, names, [("", "x")]),
        _vectors(stage, names, [("", "bias"), ("=", "out")]),
    ]


# ---- a row for each key -------------------------------------------------------------------------


def _keys(
    stage: Stage,
    names: Names,
    columns: list[tuple[str, str]],
    *,
    extra: dict[str, Any] | None = None,
    totals: dict[str, float] | None = None,
    said: list[str] | None = None,
) -> Panel:
    """Return a table with a row for each key.

    Args:
        columns: The array of each column, and how it is drawn.
        extra: A vector that belongs to no key.
        totals: Totals below the columns.
        said: Texts of the column drawn as ``word``.
    """
    shown = [c for c in columns if c[0] in stage.arrays or c[1] == "word"]
    sums = totals or {}
    return {
        "form": "keys",
        "name": say("a row for each word that can be looked at"),
        "words": list(names.keys),
        "seen": array_name(stage, "seen") if "seen" in stage.arrays else "",
        "said": said or [],
        "strongest": WEIGHTS,
        "columns": [_column(stage, names, *column, sums) for column in shown],
        "extra": extra,
    }


def _column(
    stage: Stage, names: Names, name: str, how: str, totals: dict[str, float]
) -> dict[str, Any]:
    if how == "word":
        fields = {"symbol": "why", "text": "", "label": say("may it be seen?"), "array": ""}
        return fields | {"open": "", "made": "", "how": how, "total": ""}
    text, says = symbol_of(stage, name)
    return {
        "symbol": name,
        "text": text,
        "label": shape(stage, name) if how == "strip" else "",
        "says": say(says, **names.to_dict()),
        "array": array_name(stage, name),
        "open": opening(stage, name),
        "made": array_name(stage, "x" if name == "exponentials" else name),
        "how": how,
        "total": figure(totals[name]) if name in totals else "",
    }


def _extra(
    stage: Stage, names: Names, name: str, word: str, *, below: bool = False
) -> dict[str, Any] | None:
    """Return a vector above or below the strips of the keys."""
    if name not in stage.arrays:
        return None
    row = _row(stage, names, name, "", 0.0)
    return {key: row[key] for key in ("symbol", "text", "label", "array", "open")} | {
        "below": below,
        "word": word,
    }


def _qkv(stage: Stage, names: Names) -> list[Panel]:
    return [
        _vectors(stage, names, [("", "x")]),
        _vectors(stage, names, [("", "q")]),
        _keys(stage, names, [("memory", "strip"), ("k", "strip"), ("v", "strip")]),
    ]


def _turn(stage: Stage, names: Names) -> list[Panel]:
    return [
        _vectors(stage, names, [("", "angle")]),
        _vectors(stage, names, [("", "q_before"), ("=", "q")]),
        _keys(stage, names, [("k_before", "strip"), ("k", "strip")]),
    ]


def _score(stage: Stage, names: Names) -> list[Panel]:
    above = next(name for name in ("vector", "mapped", "q") if name in stage.arrays)
    found = []
    if above != "q":
        found.append(_vectors(stage, names, [("", "q")]))
    extra = _extra(stage, names, above, names.row if above != "vector" else "")
    columns = [("k", "strip"), ("pairs", "strip"), ("out", "number")]
    return [*found, _keys(stage, names, columns, extra=extra)]


def _scores(stage: Stage, names: Names) -> list[Panel]:
    return [_keys(stage, names, [("x", "number"), ("out", "number")])]


def _mask(stage: Stage, names: Names) -> list[Panel]:
    why = stage.why or tuple("" if seen else "masked" for seen in stage["seen"])
    said = [say(REASONS[reason]) for reason in why]
    columns = [("x", "number"), ("why", "word"), ("out", "number")]
    return [_keys(stage, names, columns, said=said)]


def _softmax(stage: Stage, names: Names) -> list[Panel]:
    columns = [("x", "number")]
    if stage.words["form"] == "soft":
        columns.append(("exponentials", "share"))
        if stage.numbers["head"] != 1:
            columns.append(("softmax", "share"))
    columns.append(("out", "share"))
    totals = {name: float(stage[name].sum(dtype=np.float64)) for name, _ in columns[1:]}
    return [_keys(stage, names, columns, totals=totals)]


def _mix(stage: Stage, names: Names) -> list[Panel]:
    columns = [("x", "share"), ("v", "strip"), ("parts", "strip")]
    extra = _extra(stage, names, "out", "", below=True)
    return [
        _keys(stage, names, columns, extra=extra),
        _vectors(stage, names, [("", "out")]),
    ]


PANELS: dict[str, Callable[[Stage, Names], list[Panel]]] = {
    "embedding": _embedding,
    "position": _position,
    "norm": _norm,
    "qkv": _qkv,
    "turn": _turn,
    "score": _score,
    "scale": _scores,
    "between": _scores,
    "mask": _mask,
    "temperature": _scores,
    "softmax": _softmax,
    "mix": _mix,
    "concat": _concat,
    "project": _project,
    "inner": _inner,
    "outer": _outer,
}
