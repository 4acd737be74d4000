"""What the models say of a visitor's link, run here: the app's screen must show the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

import transformer_viz as tv
from transformer_viz.app.session import url_state
from transformer_viz.core.interventions import BlockEdges, Edit, Intervention
from transformer_viz.core.sites import MAPS, Site, map_name
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import norm_statistic

KEEP = ("weights", "scores", "hidden")
NOTHING = "nothing: the model ends at once"


@dataclass(frozen=True)
class Runs:
    """The clean run, the changed one over the same words, and both sentences without a hold."""

    before: Trace
    now: Trace
    clean: str
    free: str


def state_of(address: str) -> dict[str, Any]:
    """Every key of the link in an address, with its value.

    Raises:
        AssertionError: a value that the app itself would not take.
    """
    given = {name: texts[0] for name, texts in parse_qs(urlsplit(address).query).items()}
    values, complaints = url_state.read(given, url_state.DEFAULTS | {"model": "en-de"})
    assert not complaints, complaints
    return values


class Witness:
    """Runs every question once more, in this process and for one visitor at a time."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self._runs: dict[tuple[Any, ...], Runs] = {}

    def runs(self, state: Mapping[str, Any]) -> Runs:
        """The runs that a link asks for; a typed target is none of them."""
        assert not state["target"]
        key = tuple(state[name] for name in ("model", "text", "beam", "edits"))
        if key not in self._runs:
            self._runs[key] = self._made(*key)
        return self._runs[key]

    def _made(self, name: str, text: str, beam: int, edits: str) -> Runs:
        if name not in self._models:
            self._models[name] = tv.load(name)
        model = self._models[name]
        changes = Intervention.from_json(edits)
        best = tv.translate(model, text, beam=beam)[0]
        ids = best.ids[:-1] if best.finished else best.ids
        target = [*model.tokenizer.target_ids(""), *ids]
        before = tv.trace(model, text, target=target, keep=KEEP)
        if not changes:
            return Runs(before, before, best.text, best.text)
        assert before.produced is not None
        held: Any = {"target": target, "produced": before.produced.ids, "keep": KEEP}
        now = tv.trace(model, text, intervention=changes, **held)
        free = tv.translate(model, text, beam=beam, intervention=changes)[0].text
        return Runs(before, now, best.text, free)


def words_of(edit: Edit, trace: Trace) -> str:
    """What the chip of an edit should say."""
    decoder = (edit.stack, edit.block) == MAPS["decoder"]
    keys = trace.tokens("target" if decoder else "source").labels
    if not isinstance(edit, BlockEdges):
        return edit.describe(keys)
    encoder = map_name(edit.stack or "decoder", edit.block or "self") == "encoder"
    assert trace.produced is not None
    rows = trace.source.labels if encoder else trace.produced.labels
    links = [f"“{rows[query]}” → “{keys[key]}”" for query, key in edit.edges]
    return f"{edit.place}: {', '.join(links)} cut"


def differences(state: Mapping[str, Any], seen: Mapping[str, Any], runs: Runs) -> list[str]:
    """What a screen shows otherwise than the runs say; empty where all of it agrees."""
    changes = Intervention.from_json(state["edits"])
    checks = [
        _same("sentence", seen["sentence"], state["text"]),
        _same("model", str(seen["model"]).split(" · ")[0], state["model"]),
        _same("edits", seen["edits"], [words_of(edit, runs.before) for edit in changes]),
        _same("chips", seen["chips"], _chips(runs.now)),
        _same("lead", seen["translation"], runs.clean),
        _sentence(seen["after"] if changes else seen["now"], runs.free),
        _head(state, seen, runs, bool(changes)),
        _outcome(seen["outcome"], runs, bool(changes)),
        _map(state, seen["map"], runs),
        _norm(state, seen["norm"], runs, bool(changes)),
    ]
    return [check for check in checks if check]


def _same(what: str, seen: object, wanted: object) -> str:
    return "" if seen is None or seen == wanted else f"{what}: {seen!r}, not {wanted!r}"


def _chips(trace: Trace) -> list[str]:
    return [*trace.source.labels, *(trace.target.labels if trace.target else ())]


def _sentence(seen: str | None, wanted: str) -> str:
    """The free sentence; small marks stand in it where words were left out."""
    if seen is None:
        return ""
    words = [word for word in seen.split() if word != "…"]
    return _same("free sentence", words, (wanted or NOTHING).split())


def _head(state: Mapping[str, Any], seen: Mapping[str, Any], runs: Runs, changed: bool) -> str:
    """The opened head's label, entropy and mean distance, as `metrics` made them here."""
    if seen["head"] is None:
        return ""
    stack, block = MAPS[state["block"]]
    site = Site(stack, block, state["layer"], state["head"])
    both = (runs.before, runs.now) if changed else (runs.before,)
    place = (
        f"stack == '{stack}' and block == '{block}' and layer == {site.layer} "
        f"and head == {site.head}"
    )
    rows = [trace.heads.query(place) for trace in both]
    wanted = [row[name].item() for name in ("entropy", "distance") for row in rows]
    label = _same("head", seen["head"].split(), [*site.label.split(), state["block"]])
    if label or seen["numbers"] is None:
        return label
    told = [float(n) for n in re.findall(r"(?<![\d.])\d+\.\d\d", seen["numbers"])]
    return _close("numbers", told, wanted, 0.0051)


def _outcome(seen: list[str] | None, runs: Runs, changed: bool) -> str:
    """Every held word's probability and rank."""
    if seen is None:
        return ""
    found = [runs.before.produced, *([runs.now.produced] if changed else [])]
    both = [one for one in found if one is not None]
    wanted: list[float] = []
    for token in range(len(both[0].labels)):
        ranks = [one.rank[token] for one in both]
        wanted += [one.probability[token] for one in both]
        wanted += ranks if len(set(ranks)) > 1 else ranks[:1]
    lines = [line for word in seen for line in word.split("\n")[-2:]]
    told = [float(n) for line in lines for n in re.findall(r"\d+\.\d\d|\d+", line)]
    return _close("outcome", told, wanted, 0.0051)


def _map(state: Mapping[str, Any], seen: list[list[float | None]] | None, runs: Runs) -> str:
    """The cells of the opened head; masked ones are empty on the screen and zero in the run."""
    if seen is None or state["words"] or not state["special"]:
        return ""
    now, before = (
        trace.attention(state["block"], layer=state["layer"])[state["head"]]
        for trace in (runs.now, runs.before)
    )
    compare = state["compare"] if Intervention.from_json(state["edits"]) else "now"
    if compare == "difference" and now.shape != before.shape:
        return ""  # padding: what was not there has a colour of its own
    wanted = {"now": now, "before": before}.get(compare)
    wanted = now - before if wanted is None else wanted
    drawn = np.array([[np.nan if n is None else n for n in row] for row in seen], dtype=float)
    if drawn.shape != wanted.shape:
        return f"map: {drawn.shape}, not {wanted.shape}"
    empty = np.isnan(drawn)
    off = np.abs(np.where(empty, wanted if compare != "difference" else 0, drawn - wanted))
    return f"map: off by {off.max():.2g}" if off.max() > 1e-6 else ""


def _norm(state: Mapping[str, Any], seen: str | None, runs: Runs, changed: bool) -> str:
    if seen is None:
        return ""
    told = [float(n) for n in re.findall(r"-?\d+\.\d{4}", seen.rpartition("”")[2])]
    wanted = []
    for trace in (runs.before, runs.now) if changed else (runs.before,):
        sites, values = norm_statistic(trace, state["statistic"], state["stack"])
        wanted.append(float(values[sites.index(state["site"]), state["word"]]))
    return _close("norm", told, wanted, 0.000051)


def _close(what: str, seen: list[float], wanted: list[float], most: float) -> str:
    near = len(seen) == len(wanted) and all(
        abs(one - other) <= most + 1e-5 * abs(other)
        for one, other in zip(seen, wanted, strict=True)
    )
    return "" if near else f"{what}: {seen}, not {[round(float(n), 4) for n in wanted]}"
