"""Requests to a probe, and its results: attentions, norms, residual sums."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..core.renamed import renamed
from ..core.sites import Site
from .donations import Offered
from .statistics import Statistics


def _all(site: Site) -> bool:
    return True


def _none(site: Site) -> bool:
    return False


@dataclass(frozen=True)
class CaptureRequest:
    """Request of data to keep. Statistics and a thumbnail of every head are on by default.

    Attributes:
        weights: True for each site whose weights to keep; ``scores`` and ``qkv`` likewise.
        tiles: True for each site whose tile factors to keep; these grow linearly with the length.
        statistics: Switch of these records; ``norms``, ``residuals``, ``positions`` likewise.
        hidden: Keep the residual stream.
        sums: Keep the vectors of every residual sum and norm.
        gradients: Make the weights differentiable.
        check: Rebuild each block's output in float64.
        lend: Keep values for patches of other passes (``Capture.offered``).
        stack: Stack of a single self-attention if nothing else determines it.
        special: By stack, the tokens that a shuffle of positions leaves in place.
    """

    weights: Callable[[Site], bool] = _all
    scores: Callable[[Site], bool] = _none
    qkv: Callable[[Site], bool] = _none
    tiles: Callable[[Site], bool] = _none
    statistics: bool = True
    norms: bool = True
    residuals: bool = True
    positions: bool = False
    hidden: bool = False
    sums: bool = False
    gradients: bool = False
    check: bool = False
    lend: bool = False
    stack: str = "encoder"
    special: dict[str, tuple[bool, ...]] = field(default_factory=dict)

    @property
    def tiled(self) -> bool:
        """True if tiles are requested for any block."""
        return self.tiles is not _none


NUMBER = re.compile(r"\.(\d+)\b")  # of a layer, in a module's path
HEADS, ROWS = 1, 2  # dimensions of the weights along which parts of one attention are joined


@dataclass(eq=False)
class AttentionRecord:
    """Record of one attention: its site, and its tensors as far as requested.

    Attributes:
        weights: ``[batch, head, query, key]``, in any layout of the module.
        scores: As ``weights``; the input of the softmax, after edits.
        q: ``[batch, head, token, width]``; ``k`` and ``v`` likewise.
        scale: Factor of q·k, None if it is not a single number.
        cap: Bound of a tanh between q·k and the softmax, or None.
        form: ``softmax``, or ``custom`` for weights without a softmax.
        rebuilt: Relative difference of the output rebuilt in float64, None if not checked.
        offset: Absolute position of the first query; ``first_key`` that of the first key.
        leaves: Gradients of the weights, one per call for some of the heads or (``along``) rows.
        statistics: ``[batch, head]`` tensor by name.
        tiles: `Factors` of its heads and rows; ``untiled`` is the reason if there are none.
        draft: Input of the tiles until the weights have met their values.
    """

    path: str
    kind: str
    stack: str
    layer: int
    form: str = "softmax"
    heads: int = 0
    shape: tuple[int, int] = (0, 0)
    weights: Tensor | None = None
    scores: Tensor | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    scale: float | None = None
    cap: float | None = None
    leaves: tuple[Tensor, ...] = ()
    stream: Tensor | None = None
    statistics: dict[str, Tensor] = field(default_factory=dict)
    thumbnail: Tensor | None = None
    rebuilt: float | None = None
    proof: Any = None
    tiles: tuple[Any, ...] = ()
    untiled: str = ""
    draft: Any = None
    start: int = 0
    offset: int = 0
    first_key: int = 0
    first_head: int = 0
    first_row: int = 0
    along: int = HEADS
    origin: frozenset[int] = frozenset()

    @property
    def site(self) -> Site:
        return Site(self.stack, self.kind, self.layer, path=self.path)

    @property
    def number(self) -> int | None:
        """The model's own number of its layer, from the path (``layers.3.attn``), or None.

        ``layer`` counts attentions only; in a hybrid model the two differ.
        """
        found = NUMBER.search(self.path)
        return None if found is None else int(found[1])

    def measured(self, statistics: Statistics) -> None:
        """Store the finished statistics of all rows."""
        self.statistics, self.thumbnail = statistics.result(), statistics.thumbnail()


@dataclass(eq=False)
class NormRecord:
    """Record of one norm: statistics of its input and output per token, ``[batch, token]`` each.

    ``std`` is biased. ``input_norm`` and ``output_norm`` are Euclidean lengths. ``output_mean`` is
    over the features of the output, after ``gain`` and ``bias`` ``[d_model]``. ``kind`` is
    ``layer``, ``annotated`` or ``rms``. ``entered`` and ``made`` ``[batch, token, d_model]`` are
    input and output, if sums were requested.
    """

    path: str
    kind: str
    statistics: dict[str, Tensor]
    gain: Tensor | None
    bias: Tensor | None
    stack: str | None
    serial: int
    entered: Tensor | None = None
    made: Tensor | None = None


@dataclass(eq=False)
class ResidualRecord:
    """Length of the residual stream per token ``[batch, token]`` after one sub-layer."""

    site: Site
    norm: Tensor


@dataclass(eq=False)
class ResidualSum:
    """Residual sum ``before + added = after``, ``[batch, token, d_model]`` each."""

    site: Site
    before: Tensor
    added: Tensor
    after: Tensor


@dataclass(eq=False)
class Capture:
    """Result of one probe, in call order: the ``run`` of ``with probe(module) as run``.

    Attributes:
        positions: Tables, rotary angles and relative biases by name.
        streams: Last residual stream of each stack ``[batch, token, d_model]``, with ``hidden``.
        sums: All residual sums, if requested.
        replaced: Calls that ran as their explicit formula.
        unrecognised: Sentences on apparent attentions that were not recorded.
        others: For each path and number of columns, the nature of a softmax that is no attention.
        offered: Values for patches of other passes.
    """

    request: CaptureRequest = field(default_factory=CaptureRequest)
    attentions: list[AttentionRecord] = field(default_factory=list)
    norms: list[NormRecord] = field(default_factory=list)
    residuals: list[ResidualRecord] = field(default_factory=list)
    sums: list[ResidualSum] = field(default_factory=list)
    positions: dict[str, Tensor] = field(default_factory=dict)
    streams: dict[str, Tensor] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)
    others: dict[tuple[str, int], str] = field(default_factory=dict)
    offered: Offered = field(default_factory=Offered)

    @property
    def sites(self) -> list[Site]:
        """Attention blocks without repeats, in call order."""
        return list(dict.fromkeys(record.site for record in self.attentions))


OLD_NAMES = {"Run": "Capture", "Want": "CaptureRequest"}  # until the next minor release
if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, OLD_NAMES)
