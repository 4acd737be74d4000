"""Lab on distance: the strength of links between tokens far apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .... import views
from ....core.trace import Trace
from ....i18n import mark, say
from ....metrics.attention.distance_profile import Reach, reach
from ....metrics.attention.map_cells import visible
from ....views.charts.curves import Curve
from ...session.scene import Scene
from ...ui import layout
from ..bench import Bench
from ..lab import Lab
from ..whole_runs import too_long

CLEAR = 1.25  # ratio from which on a link counts as stronger
FEWEST = 6  # tokens; a shorter sentence has no distant pairs


@dataclass(frozen=True, eq=False)
class LongRangeResult:
    """Strength of links by distance.

    Attributes:
        links: Links of all heads of a map, by distance.
        tokens: Number of tokens.
        near: Strength of near links relative to uniform attention (1: equal).
        far: The same for far links.
    """

    links: Reach
    tokens: int
    near: float
    far: float


def experiment(bench: Bench) -> LongRangeResult:
    scene = bench.scene
    blocks = [name for name in ("encoder", "decoder") if name in scene.before.maps]
    named = {"encoder": say("encoder"), "decoder": say("decoder")}
    with layout.row("bottom"):
        block = (
            bench.choose("block", say("self-attention"), {b: named[b] for b in blocks}, blocks[0])
            if len(blocks) > 1
            else blocks[0]
        )
        links, names = measured(bench.whole(block), block)
        head = bench.pick("head", say("one head"), {n: _shown(n) for n in names}, names[0])
    _chart(bench, links, names.index(head), _shown(head))
    tokens = len(scene.before.words_of("encoder" if block == "encoder" else "decoder"))
    near, far = near_and_far(links)
    return LongRangeResult(links, tokens, near, far)


def _shown(name: str) -> str:
    return name.replace("H", " H")


def measured(trace: Trace, block: str) -> tuple[Reach, list[str]]:
    """Return the links of all heads of a map by distance, and the heads' names, as ``L0H3``."""
    blocks = trace.blocks(block)
    seen = visible(blocks[0], 0, trace.intervention)
    names = [f"L{b.site.layer}H{head}" for b in blocks for head in range(len(b.weights))]
    return reach(np.concatenate([b.weights for b in blocks]), seen), names


def near_and_far(links: Reach) -> tuple[float, float]:
    """Return the mean strength of links relative to a uniform head, for near and far distances.

    Near is the nearest third of distances, far the farthest. A token's link to itself is excluded.
    """
    apart = links.steps > 0
    steps, pairs = links.steps[apart], links.pairs[apart]
    mean, fair = links.strength.mean(axis=0)[apart], links.uniform[apart]
    third = steps.max(initial=0) / 3
    return _ratio(mean, fair, pairs, steps <= third), _ratio(mean, fair, pairs, steps > 2 * third)


def _ratio(mean: np.ndarray, fair: np.ndarray, pairs: np.ndarray, chosen: np.ndarray) -> float:
    whole = float((fair * pairs)[chosen].sum())
    return float((mean * pairs)[chosen].sum()) / whole if whole else float("nan")


def _chart(bench: Bench, links: Reach, head: int, name: str) -> None:
    lines = [
        Curve(name, links.steps, links.strength[head]),
        Curve(say("all heads, mean"), links.steps, links.strength.mean(axis=0)),
        Curve(say("a head that looks at all words alike"), links.steps, links.uniform, dashed=True),
    ]
    caption = say(
        "Mean weight of a link over all pairs of tokens that stand so far apart; there are {first} "
        "pairs at distance {near} and {last} at distance {far}.",
        first=int(links.pairs[0]),
        near=int(links.steps[0]),
        last=int(links.pairs[-1]),
        far=int(links.steps[-1]),
    )
    bench.chart(
        "distance",
        say("How strong is a link, by how far apart the words stand?"),
        lambda: views.curves(
            lines, say("tokens apart"), say("mean weight"), caption, dark=bench.dark
        ),
    )


def answer(found: LongRangeResult) -> int | None:
    if not (np.isfinite(found.near) and np.isfinite(found.far)):
        return None
    if found.near > CLEAR * found.far:
        return 0
    return 2 if found.far > CLEAR * found.near else 1


def reveal(bench: Bench, found: LongRangeResult) -> None:
    bench.tell(
        say(
            "Against a head that looks at all words alike, links to near words (the nearest third "
            "of the distances) are {near:.2f} times as strong, to far words (the farthest third) "
            "{far:.2f} times.",
            near=found.near,
            far=found.far,
        ),
        say(
            "That is what these heads chose, not what they are bound to: in one layer any two "
            "words are one step apart. In a recurrent net a word's trace has to survive every step "
            "between."
        ),
    )
    n = found.tokens
    rows = [
        (say("self-attention"), "O(1)", "1"),
        (say("recurrent"), "O(n)", f"{n - 1}"),
        (say("convolutions of width 5, one upon the other"), "O(n/5)", f"{-(-(n - 1) // 2)}"),
    ]
    heads = (say("layer"), say("longest path"), say("here, n = {n}", n=n))
    bench.table(heads, rows)
    bench.quiet(
        say(
            "Longest paths after Vaswani et al. 2017, table 1; the last column counts the steps "
            "between the first and the last of these tokens. One sentence has few far pairs; look "
            "at the number of pairs before believing the right end."
        )
    )


def _lacks(scene: Scene) -> str | None:
    blocks = [name for name in ("encoder", "decoder") if name in scene.before.maps]
    if not blocks:
        return say("This model has no self-attention, so no word looks along its own sentence.")
    if scene.kind.takes == "image":
        return say(
            "Patches of a picture stand in two directions, so their numbers are no distance; "
            "choose a model that reads text."
        )
    if len(scene.before.words_of("encoder" if "encoder" in blocks else "decoder")) < FEWEST:
        return say("This sentence is too short to have words far apart; type a longer one.")
    return too_long(scene, *blocks)


FAR = Lab(
    name="far",
    title=mark("Far apart"),
    question=mark("Two words stand far apart. How strong is the link between them?"),
    options=(
        mark("Weaker than between near words."),
        mark("As strong as between near words."),
        mark("Stronger than between near words."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=_lacks,
)
