"""Parts of a trace, read-only: tokens, attention, report and predicted tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .guesses import guess_mark
from .sites import Site

LEFT_OUT = "proof_left_out"  # manifest key: reason why verification was skipped


@dataclass(frozen=True)
class Tokens:
    """Tokens of a sentence: ids, pieces, labels, word numbers and special tokens.

    All tuples have one entry per token.

    Attributes:
        ids: Token ids; empty if the source is vectors.
        labels: Unique labels (a repeated piece gets a number).
        words: Word number of each token; special tokens have their own.
        special: True for special tokens.
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
    """Predicted tokens: for each target row the token it predicts, chosen or forced.

    ``probability`` float32 ``[row]`` and ``rank`` int ``[row]`` (1: the most probable) refer to
    that token under the run's last softmax.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    probability: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of one block.

    Optional arrays are None if not kept, ``scale`` and ``cap`` if unknown.

    Attributes:
        weights: ``[head, query, key]`` float32.
        query, key: Sentences of rows and columns (``source`` or ``target``).
        scores: Input of the softmax, ``[head, query, key]``.
        q, k, v: ``[head, query, d_k]``, ``[head, key, d_k]`` and ``[head, key, d_v]``.
        gradients: ``[head, query, key]``.
        scale: Factor of the product of q and k.
        cap: Bound of the scores, if they are cap x tanh(score / cap).
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
    """A call of a softmax or fused attention kernel below the probe, and its outcome.

    A module that mixes tokens without a softmax, such as a convolution, has no rows; ``fate`` names
    its kind. The ``difference`` of two heads in a differential attention has no rows either.

    Attributes:
        name: Name of the kernel.
        path: Path of the calling module.
        rows, keys: Number of rows, and of keys per row.
        fate: Site that shows it, its other meaning, or ``missed``.
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
        """True if it mixes tokens without a softmax."""
        return self.fate in self.MIXERS


@dataclass(frozen=True)
class Report:
    """Capture report: the sites found, and the checks that they match the computation of the model.

    Differences are relative to the largest value of the compared tensor.

    Attributes:
        sites: All attention sites found.
        row_sum_error: Largest ``|sum of a row - 1|`` of the clean run.
        output_difference: Output of the captured clean run against an uncaptured pass.
        rebuilt: By site (``cross L1``), the largest difference between weights x v, projected in
            float64, and the value added to the residual sum (None: not checked).
        replaced: Fused calls that ran as their explicit formula.
        unrecognised: Operations that could not be interpreted.
        kernels: Softmax and fused attention calls below the probe, and their outcome.
        laws: By site and law, the difference left by a check of axes and edits (None: could not be
            determined), at most ``tolerance`` if the law holds.
        untold: Checks that could not be decided, and why.
        given: True if the weights came as arrays: nothing was captured or verified.
        guessed: Config values that no file states. The checks cannot verify these; `str` appends
            them as a mark to the status.
        left_out: Reason why a check that was not explicitly requested was skipped; else empty.
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
        """Overall result: ``green`` if all checks agree, else ``amber``.

        ``unchecked`` without a proof, unless an error is known; ``given, not captured`` for given
        arrays.
        """
        if self.given:
            return self.GIVEN
        checked = [self.row_sum_error, *(e for e in self.rebuilt.values() if e is not None)]
        if self.output_difference is not None:
            checked.append(self.output_difference)
        wrong = any(not error <= self.allowed for error in checked)  # NaN fails too
        proved = not (self.missed or self.broken or self.untold or self.unrecognised)
        if not self.sites or not proved or wrong:
            return "amber"
        return self.UNCHECKED if self.unchecked else "green"

    @property
    def unchecked(self) -> bool:
        """True if the run was traced without a proof (``check=False``)."""
        return self.output_difference is None and not self.laws and not self.kernels

    def __str__(self) -> str:
        """Return the status followed by the guesses, ``green; guessed: heads``."""
        return "; ".join(filter(None, (self.status, guess_mark(self.guessed))))

    @property
    def allowed(self) -> float:
        """Largest difference that a check may leave: larger in half precision, which rounds."""
        return max(self.TOLERANCE, self.tolerance)

    @property
    def missed(self) -> tuple[KernelRun, ...]:
        """Kernels whose weights were multiplied with values but are shown nowhere."""
        return tuple(kernel for kernel in self.kernels if kernel.fate == KernelRun.MISSED)

    @property
    def broken(self) -> dict[str, tuple[str, ...]]:
        """Laws of each site that do not hold or could not be decided."""
        found = {
            site: tuple(
                law for law, gap in laws.items() if gap is None or not gap <= self.tolerance
            )
            for site, laws in self.laws.items()
        }
        return {site: laws for site, laws in found.items() if laws}


def read_only(array: np.ndarray) -> np.ndarray:
    """Return the same array, marked as read-only."""
    array.setflags(write=False)
    return array
