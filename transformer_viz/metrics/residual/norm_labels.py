"""Short names of norms by their position in the layer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...core.sites import STACKS
from ...core.trace import Trace
from ...i18n import mark, say
from .residual_stream import SUB_LAYERS, steps

#: Names of norms in this package's own models.
NATIVE = re.compile(
    r"(?P<stack>encoder|decoder)\."
    r"(?:layers\.(?P<layer>\d+)\.(?P<part>self|cross|feed_forward)_norm"
    r"|(?P<end>embedding\.norm|norm))"
    r"(?P<again> \(\d+\))?"
)
ENDS = {"embedding.norm": mark("after the embedding"), "norm": mark("after the last layer")}
#: Parts of a native norm's name, and True if it follows its sub-layer; by site.
_Signs = dict[str, tuple[re.Match[str], bool]]
SAME = 1e-4  # relative difference below which two float32 lengths are equal


def norm_labels(trace: Trace, sites: Sequence[str]) -> tuple[str, ...]:
    """Return short names of norms: "L0 before self-attention", "after the last layer".

    The lengths in the run show if a norm precedes or follows its sub-layer. A sub-layer that added
    nothing (its heads are off, say) is inconclusive. Then the majority of conclusive norms decides:
    of its stack and kind, else of its stack, else of the model. Without any, "before" is used.
    Norms of other models keep their module name.
    """
    known = [NATIVE.fullmatch(site) for site in sites]
    signs = _signs(trace) if any(known) else {}
    return tuple(
        site if name is None else _label(name, signs)
        for site, name in zip(sites, known, strict=True)
    )


def _label(known: re.Match[str], signs: _Signs) -> str:
    again = known["again"] or ""
    if known["end"]:
        return say(ENDS[known["end"]]) + again
    fields = {"layer": known["layer"], "part": say(SUB_LAYERS[known["part"]])}
    if _follows(known, signs):
        return say("L{layer} after {part}", **fields) + again
    return say("L{layer} before {part}", **fields) + again


def _follows(known: re.Match[str], signs: _Signs) -> bool:
    """Return True if a norm runs on its sub-layer's sum (post-norm), by itself or by majority."""
    if known[0] in signs:
        return signs[known[0]][1]
    for words in (("stack", "part"), ("stack",), ()):
        said = [
            after
            for kin, after in signs.values()
            if all(kin[word] == known[word] for word in words)
        ]
        if said:
            return 2 * sum(said) > len(said)
    return False


def _signs(trace: Trace) -> _Signs:
    """Return the native norms with a conclusive position: True if after the sub-layer's sum.

    A norm before its sub-layer has the length of the stream's input, one after it that of the sum.
    If both are equal, or neither matches, the norm is left out.
    """
    if not len(trace.norms):
        return {}
    found = {stack: steps(trace, stack) for stack in STACKS}
    signs = {}
    for site, seen in trace.norms.groupby("site", sort=False)["input_norm"]:
        known = NATIVE.fullmatch(str(site))
        if known is None or not known["part"]:
            continue
        place, run = (int(known["layer"]), known["part"]), found[known["stack"]]
        own = next((n for n, step in enumerate(run) if step[:2] == place), None)
        if own is None:
            continue
        ends = (run[max(0, own - 1)][2], run[own][2])
        entered, left = (_same(seen.to_numpy(np.float64), end) for end in ends)
        if entered != left:
            signs[str(site)] = (known, left)
    return signs


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=SAME, atol=0))
