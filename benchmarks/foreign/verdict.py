"""One configuration of a package: what the proof says of it, and what the package itself says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.inference.proof.kernels import flat
from transformer_viz.inference.proof.prove import MISSED, Proof, prove

NEAR = 1e-4  # what rounding may leave between two ways to reckon one map
AXES = ("batch", "rows", "heads")
EDITS = ("temperature", "hidden key", "window")
Maps = Sequence[Tensor]


@dataclass(frozen=True)
class Configuration:
    """A small model with random weights.

    ``make`` gives the module and its inputs (batch of two first), ``expected`` counts its
    attentions. ``own`` gives the package's own maps ``[batch, head, query, key]``, in the order in
    which they run; without it the kernels are the oracle.
    """

    name: str
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    expected: int
    own: Callable[[nn.Module, tuple[Tensor, ...]], Maps] | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    found: str
    axes: str
    values: str
    edits: str
    unchanged: str
    verdict: str
    said: str = ""


def measure(configuration: Configuration) -> Row:
    """Prove one configuration and compare it with its oracle."""
    torch.manual_seed(13)
    module, inputs = configuration.make()
    module.eval()
    call = lambda: module(*inputs)  # noqa: E731
    alone = lambda: module(*(x[:1] for x in inputs))  # noqa: E731
    try:
        proof = prove(module, call, alone=alone, together=call)
        maps = watched(module, call)
    except ValueError as error:
        return Row(configuration.name, f"0/{configuration.expected}", *"----", "said", str(error))
    own = None
    if configuration.own is not None:
        with torch.no_grad():
            own = configuration.own(module, inputs)
    gap = None if own is None else apart(maps, own)
    verdict, said = judge(proof, len(maps), configuration.expected, gap)
    values = "kernels " + worst(proof, ("kernel",)) if gap is None else f"own {gap:.0e}"
    return Row(
        configuration.name,
        f"{len(maps)}/{configuration.expected}",
        worst(proof, AXES),
        values,
        worst(proof, EDITS),
        "equal" if proof.difference == 0 else f"{proof.difference:.0e}",
        verdict,
        said,
    )


def watched(module: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    """The captured maps, in the order in which they ran."""
    with torch.no_grad(), probe(module, None, CaptureRequest(norms=False)) as capture:
        flat(call())
    return [record.weights for record in capture.attentions if record.weights is not None]


def apart(maps: Maps, own: Maps) -> float:
    """The largest difference of maps from a package's own; infinite where they do not pair."""
    if len(maps) != len(own) or any(a.shape != b.shape for a, b in zip(maps, own, strict=True)):
        return float("inf")
    gaps = [float((a.double() - b.double()).abs().max()) for a, b in zip(maps, own, strict=True)]
    return max(gaps, default=0.0)


def judge(proof: Proof, found: int, expected: int, gap: float | None) -> tuple[str, str]:
    """``proved``, ``said``, ``wrong`` or ``silent``, and the sentence that was said."""
    missed = sum(kernel.fate == MISSED for kernel in proof.kernels)
    if proof.holds:
        if found < expected:
            return "silent", ""
        return ("proved", "") if gap is None or gap <= NEAR else ("wrong", "")
    sentences = list(proof.untold)
    if missed:
        sentences.append(f"{missed} softmaxes missed")
    broken = [law for laws in proof.laws.values() for law, e in laws.items() if e is not None
              and e > proof.tolerance]  # fmt: skip
    if broken:
        sentences.append("not proved: " + ", ".join(sorted(set(broken))))
    if proof.difference > proof.tolerance:
        sentences.append("the watched output differs")
    if not sentences or (found + missed < expected and not proof.untold):
        return "silent", ""
    return "said", sentences[0]


def worst(proof: Proof, laws: Sequence[str]) -> str:
    """The largest difference that some laws left; a question mark where one could not be told."""
    errors = [found[law] for found in proof.laws.values() for law in laws if law in found]
    if not errors:
        return "-"
    if any(error is None for error in errors):
        return "?"
    return f"{max(error for error in errors if error is not None):.0e}"
