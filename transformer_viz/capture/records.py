"""What a probe is asked to keep, and what it hands back: attentions, norms, residual sums."""

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
    """What to keep. Statistics and a thumbnail of every head are there unless switched off.

    ``weights``, ``scores``, ``qkv`` say for a block's site whether to keep its matrices; ``tiles``
    whether to keep what any tile of its maps is computed from, which grows with the length;
    ``statistics``, ``norms``, ``residuals``, ``positions`` switch those records; ``hidden``
    keeps the residual stream, ``sums`` the vectors of every residual sum and norm, ``gradients``
    makes the weights differentiable, ``check`` rebuilds each block's output in float64, ``lend``
    keeps what the pass could give to another one (``Capture.offered``); ``stack`` names a lone
    self-attention whose stack nothing else tells; ``special`` marks, by stack, the tokens that a
    shuffle of positions leaves where they are.
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
        """Whether tiles are asked for of any block."""
        return self.tiles is not _none


NUMBER = re.compile(r"\.(\d+)\b")  # of a layer, in a module's path
HEADS, ROWS = 1, 2  # dimensions of the weights along which parts of one attention are joined


@dataclass(eq=False)
class AttentionRecord:
    """One attention as it ran: its place, and its tensors as far as they were asked for.

    ``weights`` and ``scores`` ``[batch, head, query, key]`` (scores as the softmax got them, after
    edits), ``q, k, v`` ``[batch, head, token, width]``,
    whatever the module's own layout. ``scale`` is the number that q·k was multiplied with, ``cap``
    the bound of a tanh between them and the softmax, None where there is no such number.
    ``form`` is ``softmax``, or ``custom`` for weights that no
    softmax made. ``rebuilt`` is the relative difference of the output rebuilt in float64, None
    where it was not checked. ``offset`` and ``first_key`` are the absolute positions of the first
    query and key. ``leaves`` collect the gradients of the weights, one a call that made some of the
    heads, or (``along``) of the rows. ``statistics`` hold one ``[batch, head]`` tensor a name.
    ``tiles`` are the `Factors` of its heads and rows, ``untiled`` says why there are none, and
    ``draft`` is what they are made of until the weights have met their values.
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
        """The model's own number of its layer, as the path has it (``layers.3.attn``), or None.

        ``layer`` counts attentions alone: in a hybrid the two differ.
        """
        found = NUMBER.search(self.path)
        return None if found is None else int(found[1])

    def measured(self, statistics: Statistics) -> None:
        """Take over the finished statistics of all rows."""
        self.statistics, self.thumbnail = statistics.result(), statistics.thumbnail()


@dataclass(eq=False)
class NormRecord:
    """One norm as it ran: statistics of its input and output a token, ``[batch, token]`` each.

    ``std`` is biased; ``input_norm`` and ``output_norm`` are Euclidean lengths; ``output_mean`` is
    over the features of what the norm gave, after ``gain`` and ``bias`` ``[d_model]``, which
    multiply and are added; ``kind`` is ``layer``, ``annotated`` or ``rms``. ``entered`` and
    ``made`` ``[batch, token, d_model]`` are its vectors, where sums were asked for.
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
    """The residual stream's length a token ``[batch, token]`` after one sub-layer was added."""

    site: Site
    norm: Tensor


@dataclass(eq=False)
class ResidualSum:
    """One residual sum: ``before + added = after``, ``[batch, token, d_model]`` each."""

    site: Site
    before: Tensor
    added: Tensor
    after: Tensor


@dataclass(eq=False)
class Capture:
    """What one probe saw, in call order: the ``run`` of ``with probe(module) as run``.

    ``positions`` are tables, rotary angles and relative biases by name; ``streams`` the last
    residual stream of each stack ``[batch, token, d_model]``, where ``hidden`` was asked for;
    ``sums`` every residual sum, where they were;
    ``replaced`` names the calls that ran as their explicit formula, ``unrecognised`` says what
    looked like attention and is not shown; ``others`` by path and number of columns what a softmax
    is that weighs something and is no attention; ``offered`` what the pass could lend.
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
        """The attention blocks seen, without repeats, in call order."""
        return list(dict.fromkeys(record.site for record in self.attentions))


OLD_NAMES = {"Run": "Capture", "Want": "CaptureRequest"}  # until the next minor release
if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, OLD_NAMES)
