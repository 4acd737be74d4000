"""Short names of norms: where in its layer each stands."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...core.sites import STACKS
from ...core.trace import Trace
from ...i18n import mark, say
from .residual_stream import SUB_LAYERS, steps

#: Names that this package's own models give their norms.
NATIVE = re.compile(
    r"(?P<stack>encoder|decoder)\."
    r"(?:layers\.(?P<layer>\d+)\.(?P<part>self|cross|feed_forward)_norm"
    r"|(?P<end>embedding\.norm|norm))"
    r"(?P<again> \(\d+\))?"
)
ENDS = {"embedding.norm": mark("after the embedding"), "norm": mark("after the last layer")}
#: By site: the parts of a native norm's name, and whether it stands after its sub-layer.
_Signs = dict[str, tuple[re.Match[str], bool]]
SAME = 1e-4  # relative difference under which two float32 lengths are one


def norm_labels(trace: Trace, sites: Sequence[str]) -> tuple[str, ...]:
    """Short names of norms: "L0 before self-attention", "after the last layer".

    Whether a norm stands before or after its sub-layer is told by the lengths that it saw. A
    sub-layer that added nothing (its heads are off, say) tells nothing; its norm stands where most
    of those stand that tell: the ones of its stack and kind, else of its stack, else of the model.
    Where no length of the run tells anything, "before" is said. Norms of models from elsewhere
    keep the name of their module.
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
    """Whether a norm runs on its sub-layer's sum (post-norm): its own sign, or its kin's."""
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
    """What the lengths say of each native norm: whether it runs on its sub-layer's sum.

    A norm before its sub-layer saw the stream that entered, one after it the sum that left. Where
    those two are one, or it saw neither, the norm is left out.
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
