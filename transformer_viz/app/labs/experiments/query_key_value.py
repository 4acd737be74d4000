"""Lab on separate queries, keys and values: a shared vector fits itself best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from ....core.sites import MAPS, Site
from ....core.trace import Trace
from ....core.trace_parts import Attention, read_only
from ....i18n import mark, say
from ....metrics.attention.map_cells import visible
from ....metrics.attention.qk_steps import require_product
from ....metrics.attention.tied_query_key import Shared, share_keys
from ...engine.query import DetailRequest
from ...session.scene import Scene
from ...ui import layout
from ...ui.progress import run_with_progress
from .. import head_map, held_runs
from ..bench import Bench
from ..lab import Lab

if TYPE_CHECKING:
    from ....checkpoints import Model

CLOSE = 1e-3  # allowed difference between softmax(q·k) and the weights of the run
SELF = ("encoder", "decoder")


@dataclass(frozen=True, eq=False)
class QueryKeyValueResult:
    """Scores and weights of a layer with separate and with shared vectors.

    Attributes:
        shared: Both sets of scores and weights.
        head: The chosen head.
        rows: Its rows that may look at several tokens.
        same: Rows whose largest weight stays on the same token.
        itself: Rows whose largest weight is on their own token, separate and shared.
    """

    shared: Shared
    head: int
    rows: int
    same: int
    itself: tuple[int, int]


def experiment(bench: Bench) -> QueryKeyValueResult:
    block, layer, head = _place(bench)
    trace = _vectors(bench, block, layer)
    attention = require_product(trace, block, layer, head)
    seen = visible(attention, head, trace.intervention)
    found = _shared(attention, seen)
    _maps(bench, trace, attention, found, head)
    chosen = seen.sum(axis=1) > 1
    own, other = (w[head].argmax(axis=1)[chosen] for w in (found.own_weights, found.shared_weights))
    places = np.arange(len(seen))[chosen]
    result = QueryKeyValueResult(
        shared=found,
        head=head,
        rows=len(places),
        same=int((own == other).sum()),
        itself=(int((own == places).sum()), int((other == places).sum())),
    )
    _table(bench, result)
    return result


def _place(bench: Bench) -> tuple[str, int, int]:
    """Return the self-attention, layer and head to show; by default the opened one."""
    before, place = bench.scene.before, bench.scene.place
    blocks = {name: name for name in SELF if name in before.maps}
    opened = place.map_name if place.map_name in blocks else next(iter(blocks))
    named = {"encoder": say("encoder"), "decoder": say("decoder")}
    with layout.row("bottom"):
        block = (
            bench.choose("block", say("self-attention"), {n: named[n] for n in blocks}, opened)
            if len(blocks) > 1
            else opened
        )
        layers, heads = before.thumbnail(block).shape[:2]
        first = f"L{place.layer}H{place.head}" if block == place.map_name else "L0H0"
        names = {f"L{r}H{c}": f"L{r} H{c}" for r in range(layers) for c in range(heads)}
        chosen = bench.pick("head", say("head"), names, first if first in names else "L0H0")
    at_layer, _, at_head = chosen.removeprefix("L").partition("H")
    return block, int(at_layer), int(at_head)


def _vectors(bench: Bench, block: str, layer: int) -> Trace:
    """Return the clean run with the queries and keys of one layer."""
    scene = bench.scene
    detail = DetailRequest((Site(*MAPS[block], layer),), True)
    found: Trace = run_with_progress(
        lambda task: scene.engine.clean(scene.question, detail, task).trace,
        key="lab-qkv-vectors",
        label=say("Running the model ..."),
        about=(scene.question, block, layer),
        where=bench.where,
    )
    return found


def _shared(attention: Attention, seen: np.ndarray) -> Shared:
    assert attention.q is not None and attention.k is not None
    found = share_keys(attention.q, attention.k, attention.scale or 1.0, seen)
    if np.abs(found.own_weights - attention.weights).max() > CLOSE:
        raise LookupError(
            say(
                "The scores of this model have more parts than q·k, so they cannot be made anew "
                "with shared vectors; choose another model, such as en-de."
            )
        )
    return found


def _maps(bench: Bench, trace: Trace, attention: Attention, found: Shared, head: int) -> None:
    block, layer = attention.site.map, attention.site.layer
    both = (found.own_weights[head], found.shared_weights[head])
    most = float(max(weights.max() for weights in both))
    made = _with_weights(trace, attention, found.shared_weights)
    titles = (
        say("As trained: q asks, k answers"),
        say("Shared: q asks and answers"),
    )
    for side, title, run, name in zip(
        st.columns(2), titles, (trace, made), ("own", "shared"), strict=True
    ):
        with side:
            layout.heading(title, 3)
            head_map.head(bench, name, run, block, layer, head, most=most, numbers="")


def _with_weights(trace: Trace, attention: Attention, weights: np.ndarray) -> Trace:
    """Return the run with other weights in one layer, for drawing only."""
    drawn = replace(attention, weights=read_only(weights.astype(np.float32)))
    others = tuple(a for a in trace.attentions if a.site != attention.site)
    return replace(trace, attentions=(*others, drawn))


def _table(bench: Bench, found: QueryKeyValueResult) -> None:
    scores, diagonal = found.shared.lopsided[found.head], found.shared.itself[found.head]
    rows = [
        (say("lopsidedness of the scores (0: symmetric)"), *(f"{part:.3f}" for part in scores)),
        (say("mean weight of a word on itself"), *(f"{part:.3f}" for part in diagonal)),
        (
            say("words that look most at themselves"),
            *(say("{count} of {rows}", count=count, rows=found.rows) for count in found.itself),
        ),
    ]
    bench.table((say("this head"), say("q and k"), say("q for both")), rows)


def answer(found: QueryKeyValueResult) -> int | None:
    if not found.rows or found.same == found.itself[1]:
        return None
    others = found.rows - found.same
    if found.same > others:
        return 0
    return 1 if found.itself[1] > found.rows / 2 else 2


def reveal(bench: Bench, found: QueryKeyValueResult) -> None:
    bench.tell(
        say(
            "With shared vectors {itself} of {rows} words look most at themselves, and {same} at "
            "the same word as before.",
            itself=found.itself[1],
            rows=found.rows,
            same=found.same,
        ),
        say(
            "q·q is symmetric: the score that one word gives another is the score that it gets "
            "back. And nothing fits a vector better than itself, unless it is longer. Two matrices "
            "let asking and answering differ, so that a word can look at its noun while the noun "
            "looks elsewhere."
        ),
    )
    _written_so(bench)
    bench.tell(
        say(
            "V stands apart for another reason: what makes a word easy to find (K) is not what it "
            "has to tell (V)."
        )
    )
    bench.quiet(
        say(
            "This model was trained with three matrices. One that is trained with shared queries "
            "and keys from the start can learn to live with it (Kitaev et al. 2020, Reformer, "
            "section 2)."
        )
    )


def _written_so(bench: Bench) -> None:
    """Draw texts generated with shared matrices in all self-attentions, if the model generates."""
    if not bench.scene.kind.writes or bench.scene.kind.takes != "text":
        return
    names = {
        "none": say("three matrices, as trained"),
        "query-key": say("K made by Q's matrix, in every self-attention"),
        "key-value": say("V made by K's matrix, in every self-attention"),
    }
    rows, refused = [], []
    for pair, name in names.items():
        try:
            rows.append((name, _shared_text(bench, pair)))
        except ValueError as error:
            refused.append(str(error))
    if len(rows) > 1:
        heads = (say("projections"), say("the model writes by itself, greedily"))
        bench.table(heads, rows, texts=(1,))
    bench.quiet(*dict.fromkeys(refused))


def _shared_text(bench: Bench, pair: str) -> str:
    question = bench.scene.question
    return held_runs.shown(bench.ask(question.model, _written, question.text, pair))


def _written(model: Model, text: str, pair: str) -> str:
    from ....inference.experiments.shared_keys import written

    return written(model, text, pair)


def _lacks(scene: Scene) -> str | None:
    if any(name in scene.before.maps for name in SELF):
        return None
    return say("This model has no self-attention, so no word both asks and answers.")


QKV = Lab(
    name="qkv",
    title=mark("Why Q, K and V?"),
    question=mark("Let each word ask and answer with one and the same vector. Where does it look?"),
    options=(
        mark("Mostly where it looked before."),
        mark("Mostly at itself."),
        mark("Somewhere else."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=_lacks,
)
