"""Lab on many heads: the cost of ablating each one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from .... import views
from ....core.interventions import Intervention, ScaleHead
from ....core.sites import MAPS
from ....core.trace import Trace
from ....i18n import mark, numeral, say
from ....metrics.attention.parameter_counts import Size, attention_sizes
from .. import held_runs
from ..bench import Bench
from ..lab import Lab

MAP_NAMES = {
    "encoder": mark("encoder"),
    "decoder": mark("decoder"),
    "cross": mark("cross-attention"),
}
NOTICED = 1.0  # bits: the text is half as probable
PICTURED = 60  # bits; a larger cost is not shown as a factor
MAX_HEADS = 300  # heads; each needs a run, so more would take too long


@dataclass(frozen=True, eq=False)
class MultiHeadResult:
    """Cost of ablating each head, and the size of an attention block.

    Attributes:
        bits: Additional bits of the fixed text without each head, map to ``[layer, head]``.
        sizes: Parameters of one attention block by number of heads.
        heads: Number of heads in the model's config.
    """

    bits: dict[str, np.ndarray]
    sizes: tuple[Size, ...]
    heads: int | None

    @property
    def every(self) -> np.ndarray:
        return np.concatenate([part[~np.isnan(part)] for part in self.bits.values()])

    @property
    def noticed(self) -> int:
        """Number of heads that cost the text a bit or more."""
        return int((self.every >= NOTICED).sum())

    @property
    def dearest(self) -> tuple[str, int, int, float]:
        """Map, layer and head of the most costly head, and its bits."""
        name = max(self.bits, key=lambda block: np.nanmax(self.bits[block]))
        layer, head = np.unravel_index(np.nanargmax(self.bits[name]), self.bits[name].shape)
        return name, int(layer), int(head), float(self.bits[name][layer, head])


def experiment(bench: Bench) -> MultiHeadResult:
    places = every_head(bench.scene.before)
    if len(places) > MAX_HEADS:
        raise ValueError(
            say(
                "This model has {count} heads, and each needs a run of its own; choose a model "
                "with at most {most}.",
                count=len(places),
                most=MAX_HEADS,
            )
        )
    changes = [Intervention((_off(*place),)) for place in places]
    clean, *found = held_runs.costs(
        bench, (Intervention(), *changes), say("Switching off one head after the other ...")
    )
    bits = arranged(places, [float(part.sum() - clean.sum()) for part in found])
    config = bench.scene.engine.model(bench.scene.question.model).config
    sizes = attention_sizes(config) if config.get("d_model") else ()
    result = MultiHeadResult(bits, sizes, config.get("heads"))
    _charts(bench, result)
    return result


def _off(block: str, layer: int, head: int) -> ScaleHead:
    stack, kind = MAPS[block]
    return ScaleHead(value=0, stack=stack, block=kind, layer=layer, head=head)


def every_head(trace: Trace) -> list[tuple[str, int, int]]:
    """Return map, layer and head of every head of a run."""
    found = []
    for name in trace.maps:
        stack, kind = MAPS[name]
        table = trace.heads[(trace.heads["stack"] == stack) & (trace.heads["block"] == kind)]
        found += [(name, int(row.layer), int(row.head)) for row in table.itertuples()]
    return found


def arranged(places: list[tuple[str, int, int]], values: list[float]) -> dict[str, np.ndarray]:
    """Return numbers of heads by map, ``[layer, head]``; NaN if a layer has fewer heads."""
    found: dict[str, np.ndarray] = {}
    for block in dict.fromkeys(name for name, _, _ in places):
        mine = [(r, c, v) for (name, r, c), v in zip(places, values, strict=True) if name == block]
        shape = max(r for r, _, _ in mine) + 1, max(c for _, c, _ in mine) + 1
        found[block] = np.full(shape, np.nan)
        for row, column, value in mine:
            found[block][row, column] = value
    return found


def _charts(bench: Bench, found: MultiHeadResult) -> None:
    limit = float(max(NOTICED, np.abs(found.every).max(initial=0)))
    for column, (name, bits) in zip(st.columns(len(found.bits)), found.bits.items(), strict=True):
        with column:
            bench.chart(name, say(MAP_NAMES[name]), _drawn(bits, limit, bench.dark))


def _drawn(bits: np.ndarray, limit: float, dark: bool) -> Any:
    return lambda: views.head_cost(bits, limit, dark=dark)


def answer(found: MultiHeadResult) -> int:
    if found.noticed == 0:
        return 2
    return 0 if found.noticed > len(found.every) / 2 else 1


def reveal(bench: Bench, found: MultiHeadResult) -> None:
    name, layer, head, bits = found.dearest
    bench.tell(
        say(
            "{noticed} of {count} heads cost this text a [bit] or more when they are switched off "
            "alone. The one that costs most is {where} L{layer} H{head}: {bits:,.2f} bits.",
            noticed=found.noticed,
            count=len(found.every),
            where=say(MAP_NAMES[name]),
            layer=layer,
            head=head,
            bits=bits,
        ),
        *_times(bits),
        say(
            "Most trained models can do without many single heads (Michel et al. 2019; Voita et "
            "al. 2019): others take over. It says what this text needs, not what a head is for."
        ),
    )
    _sizes(bench, found)


def _times(bits: float) -> tuple[str, ...]:
    """Return a sentence with the factor of the probability, if the text costs 0 to 60 bits more."""
    if not 0 < bits <= PICTURED:
        return ()
    return (say("So the text becomes {times:,.1f} times less probable.", times=2.0**bits),)


def _sizes(bench: Bench, found: MultiHeadResult) -> None:
    if not found.sizes:
        return
    bench.tell(_counted(found))
    rows = [(str(s.heads), str(s.d_k), numeral(s.parameters, ",")) for s in found.sizes]
    heads = (say("heads"), say("width of each"), say("parameters of one attention block"))
    mine = [n for n, size in enumerate(found.sizes) if size.heads == found.heads]
    bench.table(heads, rows, mine[0] if mine else None)


def _counted(found: MultiHeadResult) -> str:
    if len({size.parameters for size in found.sizes}) == 1:
        return say(
            "More heads cost no more parameters: the same four matrices are only cut into more, "
            "narrower pieces."
        )
    return say(
        "This model's scores have a matrix of their own for each head, so here the number of "
        "parameters does depend on the heads; with q·k alone it would not."
    )


HEADS = Lab(
    name="heads",
    title=mark("Many heads"),
    question=mark("Switch the heads off, one at a time. How many does this sentence need?"),
    options=(
        mark("More than half of them."),
        mark("Some, but at most half."),
        mark("None of them alone."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=held_runs.wordless,
)
