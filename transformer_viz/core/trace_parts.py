"""What a trace is made of, read-only: tokens, attention, report, what was produced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .guesses import guess_mark
from .sites import Site

LEFT_OUT = "proof_left_out"  # in a manifest: why a run was made without its proof


@dataclass(frozen=True)
class Tokens:
    """A sentence as the model reads it: ids, pieces, labels, whole words, special tokens.

    All tuples have one entry a token. ``labels`` are unique (a repeated piece gets a number);
    ``words`` gives tokens of the same word the same number, special tokens a number of their own;
    ``ids`` is empty where the source is vectors.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.pieces)

    def __post_init__(self) -> None:
        lengths = {len(self.pieces), len(self.labels), len(self.words), len(self.special)}
        if len(lengths) > 1 or (self.ids and len(self.ids) != len(self.pieces)):
            raise ValueError(f"Tokens need one entry a token in every list; got lengths {lengths}.")


@dataclass(frozen=True, eq=False)
class Produced:
    """For each target row the token that row predicts, chosen or forced.

    ``probability`` float32 ``[row]`` and ``rank`` int ``[row]`` (1: the most probable) of that
    token under the run's last softmax.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    probability: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True, eq=False)
class Attention:
    """One block's attention: weights ``[head, query, key]`` float32, and whose words they join.

    ``query`` and ``key`` name the sentence of rows and columns (``source`` or ``target``).
    Optional, where they were kept: ``scores`` ``[head, query, key]`` as the softmax got them,
    ``q`` ``[head, query, d_k]``, ``k`` ``[head, key, d_k]``, ``v`` ``[head, key, d_v]``,
    ``gradients`` ``[head, query, key]``; with q and k the number ``scale`` that their product was
    multiplied with, and ``cap`` if scores were bound by cap x tanh(score / cap); None if unknown.
    """

    weights: np.ndarray
    site: Site
    query: str
    key: str
    scores: np.ndarray | None = None
    q: np.ndarray | None = None
    k: np.ndarray | None = None
    v: np.ndarray | None = None
    gradients: np.ndarray | None = None
    scale: float | None = None
    cap: float | None = None


@dataclass(frozen=True)
class KernelRun:
    """One softmax or fused attention that ran below the probe, and what it is.

    ``name`` of the kernel, ``path`` of the module that ran it, its ``rows`` and the ``keys`` of
    each; ``fate`` is the site that shows it, what it is instead, or ``missed``. A module that
    mixes tokens without a softmax, such as a convolution, has no rows; its fate says what it is.
    Nor has the ``difference`` of two heads, which a differential attention makes.
    """

    MISSED: ClassVar[str] = "missed"
    DIFFERENCE: ClassVar[str] = "difference"
    MIXERS: ClassVar[tuple[str, ...]] = ("convolution", "pooling", "recurrent", "batch norm")

    name: str
    path: str
    rows: int
    keys: int
    fate: str

    @property
    def mixes(self) -> bool:
        """Return whether it mixes tokens and is no softmax."""
        return self.fate in self.MIXERS


@dataclass(frozen=True)
class Report:
    """The capture report: what was seen, and the proof that it is what the model used.

    ``sites`` every attention site found; ``row_sum_error`` the worst ``|sum of a row - 1|`` of the
    clean run; ``output_difference`` the watched clean run's output against an unwatched pass;
    ``rebuilt`` by site (``cross L1``) the largest difference between weights x v, projected in
    float64, and what entered the residual sum (None: not checked); ``replaced`` fused calls that
    ran as their explicit formula; ``unrecognised`` what could not be understood.
    ``kernels`` are the softmaxes and fused attentions that ran below the probe, and what each is;
    ``laws`` by site and law the difference that a proof of axes and edits left (None: could not be
    told), at most ``tolerance`` where it holds; ``untold`` says what could not be told, and why.
    ``given``: the weights came as arrays, so that nothing was watched and nothing proves them.
    ``guessed`` are the words of the config that no file states: the report proves what ran, and
    cannot prove these. `str` gives the status with that mark. ``left_out`` says why a proof that
    was not asked for by name was left out; empty where none was.
    Differences are relative to the largest value of the tensor compared.
    """

    sites: tuple[str, ...]
    row_sum_error: float
    output_difference: float | None
    rebuilt: dict[str, float | None]
    replaced: tuple[str, ...] = ()
    unrecognised: tuple[str, ...] = ()
    kernels: tuple[KernelRun, ...] = ()
    laws: dict[str, dict[str, float | None]] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    tolerance: float = 1e-4
    given: bool = False
    guessed: tuple[str, ...] = ()
    left_out: str = ""

    TOLERANCE = 1e-4
    GIVEN: ClassVar[str] = "given, not captured"
    UNCHECKED: ClassVar[str] = "unchecked"

    @property
    def status(self) -> str:
        """``green`` when everything checked agrees, otherwise ``amber``; ``unchecked`` without a
        proof, unless something is known to be wrong; of arrays that somebody gave, ``given, not
        captured``."""
        if self.given:
            return self.GIVEN
        checked = [self.row_sum_error, *(e for e in self.rebuilt.values() if e is not None)]
        if self.output_difference is not None:
            checked.append(self.output_difference)
        wrong = any(not error <= self.allowed for error in checked)  # NaN is wrong too
        proved = not (self.missed or self.broken or self.untold or self.unrecognised)
        if not self.sites or not proved or wrong:
            return "amber"
        return self.UNCHECKED if self.unchecked else "green"

    @property
    def unchecked(self) -> bool:
        """Whether the run was traced without a proof (``check=False``)."""
        return self.output_difference is None and not self.laws and not self.kernels

    def __str__(self) -> str:
        """Return the status and the mark of what was guessed, ``green; guessed: heads``."""
        return "; ".join(filter(None, (self.status, guess_mark(self.guessed))))

    @property
    def allowed(self) -> float:
        """The largest difference that a check may leave: more in half precision, which rounds."""
        return max(self.TOLERANCE, self.tolerance)

    @property
    def missed(self) -> tuple[KernelRun, ...]:
        """The kernels whose weights met values and are shown nowhere."""
        return tuple(kernel for kernel in self.kernels if kernel.fate == KernelRun.MISSED)

    @property
    def broken(self) -> dict[str, tuple[str, ...]]:
        """By site the laws that do not hold, or that could not be told."""
        found = {
            site: tuple(
                law for law, gap in laws.items() if gap is None or not gap <= self.tolerance
            )
            for site, laws in self.laws.items()
        }
        return {site: laws for site, laws in found.items() if laws}


def read_only(array: np.ndarray) -> np.ndarray:
    """The same array, closed for writing."""
    array.setflags(write=False)
    return array
