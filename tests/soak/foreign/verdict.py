"""One configuration of a package: what the proof says of it, and what the package itself says."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import transformer_viz
from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.core.trace_parts import Report
from transformer_viz.inference.findings import accounted, measured
from transformer_viz.inference.proof.accounts import name
from transformer_viz.inference.proof.kernels import flat
from transformer_viz.inference.proof.prove import MISSED, MIXED, Changed, Proof, prove
from transformer_viz.inference.proof.token_order import exchanges

NEAR = 1e-4  # what rounding may leave between two ways to reckon one map
AXES = ("batch", "token order", "rows", "heads")
EDITS = ("temperature", "hidden key", "window", "single heads")
NONE_SEEN = "no attention was seen"
Maps = Sequence[Tensor]
Inputs = tuple[Any, ...]


def called(module: nn.Module, *inputs: Any) -> Any:
    """The plain call."""
    return module(*inputs)


@dataclass(frozen=True)
class Configuration:
    """A small model with random weights.

    ``make`` gives the module and its inputs (batch of two), ``expected`` counts its attentions.
    ``own`` gives the package's own maps ``[batch, head, query, key]``, in the order in which they
    run; without it the kernels are the oracle. ``run`` calls the module on its inputs.
    ``batch_first`` is false where an input has not its batch first, ``tokens`` where a token id
    is not one row of the first layer.
    """

    name: str
    make: Callable[[], tuple[nn.Module, Inputs]]
    expected: int
    own: Callable[..., Maps] | None = None
    run: Callable[..., Any] = called
    batch_first: bool = True
    tokens: bool = True


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    configuration: str
    found: str
    axes: str
    values: str
    edits: str
    unchanged: str
    verdict: str
    said: str = ""


def measure(configuration: Configuration) -> Row:
    """Prove one configuration and compare it with its oracle.

    Raises:
        Exception: the module or the package's own maps do not run, without any probe.
    """
    torch.manual_seed(13)
    module, inputs = configuration.make()
    module.eval()

    def call(given: Inputs = inputs) -> Any:
        torch.manual_seed(13)
        return configuration.run(module, *given)

    with torch.no_grad():
        call()
        own = None if configuration.own is None else configuration.own(module, *inputs)
    try:
        proof = proved(configuration, module, inputs, call)
        capture = watched(module, call)
    except Exception as error:
        return refused(configuration, error)
    shown = [r.weights for r in capture.attentions if r.weights is not None]
    verdict, said = judge(proof, capture, configuration.expected, own)
    gap = "kernels " + worst(proof, ("kernel",)) if own is None else f"own {apart(shown, own):.0e}"
    return Row(
        configuration.name,
        f"{len(shown)}/{configuration.expected}",
        worst(proof, AXES),
        gap,
        worst(proof, EDITS),
        "equal" if proof.difference == 0 else f"{proof.difference:.0e}",
        verdict,
        said,
    )


def proved(
    configuration: Configuration, module: nn.Module, inputs: Inputs, call: Callable[..., Any]
) -> Proof:
    """The project's proof; of the batch and of token order where the inputs allow to ask."""
    alone, together, changed = None, None, []
    tensors = all(isinstance(x, Tensor) and x.dim() > 1 and len(x) == 2 for x in inputs)
    if configuration.batch_first and tensors:
        alone, together = (lambda: call(tuple(x[:1] for x in inputs))), call
    if configuration.tokens and tensors and not inputs[0].is_floating_point():
        changed = [
            Changed(one.tokens, inputs[0].shape[1], partial(call, (one.made, *inputs[1:])))
            for one in exchanges(inputs[0])
        ]
    return prove(module, call, alone=alone, together=together, changed=changed)


def watched(module: nn.Module, call: Callable[[], Any]) -> Capture:
    """What is captured of one call."""
    with torch.no_grad(), probe(module, None, CaptureRequest(norms=False)) as capture:
        flat(call())
    return capture


def refused(configuration: Configuration, error: Exception) -> Row:
    """A sentence of the project that it raised is said; any other error while watching is wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = Path(transformer_viz.__file__).parent in Path(frames[-1].filename).parents
    words = " ".join(str(error).split())
    verdict = "said" if inside and isinstance(error, ValueError) else "wrong"
    said = words if verdict == "said" else f"raises {type(error).__name__}: {words}"
    return Row(configuration.name, f"0/{configuration.expected}", *"----", verdict, said)


def judge(proof: Proof, capture: Capture, expected: int, own: Maps | None) -> tuple[str, str]:
    """``proved``, ``said``, ``wrong`` or ``silent``, and the sentence of the project."""
    records = [record for record in capture.attentions if record.weights is not None]
    maps = [record.weights for record in records if record.weights is not None]
    pairs = None if own is None else paired(maps, own)
    missing = expected - len(records) if pairs is None or own is None else len(own) - len(pairs)
    sentences = said_of(proof, capture)
    if proof.holds and (missing > 0 or len(records) > expected or len(pairs or maps) < len(maps)):
        return "wrong", f"green: {missing} of {expected} not shown as they are"
    if pairs is not None:
        for number in set(range(len(records))) - set(pairs):
            record = records[number]
            words = [*proof.untold, *capture.unrecognised]
            if not any(about(text, name(record), record.path) for text in words):
                return "wrong", f"{name(record)} is not the package's own map"
    elif len(records) > expected and not capture.unrecognised and not proof.untold:
        return "wrong", f"{len(records)} maps of {expected} attentions"
    if missing > 0:
        told = missed(proof, capture)
        mixed = any(text.startswith(MIXED) for text in proof.untold)
        enough = len(told) >= missing or told[:1] == [NONE_SEEN] or mixed
        return ("said", sentences[0]) if enough else ("silent", " / ".join(sentences))
    if proof.holds:
        return "proved", ""
    return ("said", sentences[0]) if sentences else ("silent", "")


def said_of(proof: Proof, capture: Capture) -> list[str]:
    """The sentences of the capture report: what is missed, not told or broken."""
    report = Report(
        sites=tuple(proof.laws), row_sum_error=0.0, output_difference=proof.difference, rebuilt={},
        kernels=proof.kernels, laws=proof.laws, tolerance=proof.tolerance,
    )  # fmt: skip
    others = zip(
        (kernel for kernel in proof.kernels if kernel.fate not in proof.laws),
        accounted(report).details,
        strict=False,
    )
    sentences = list(capture.unrecognised)
    sentences += [line for kernel, line in others if kernel.fate == MISSED]
    sentences += proof.untold
    lines = zip(proof.laws, measured(report).details, strict=False)
    sentences += [line for site, line in lines if site in report.broken]
    if not proof.difference <= proof.tolerance:
        sentences.append(f"Watching changes the output by {proof.difference:.0e}")
    return sentences


def missed(proof: Proof, capture: Capture) -> list[str]:
    """What the project says that it does not show, each once: softmaxes missed, and sentences of
    places without one."""
    if any(text.startswith(NONE_SEEN) for text in capture.unrecognised):
        return [NONE_SEEN]
    paths = [kernel.path for kernel in proof.kernels if kernel.fate == MISSED]
    seen = [(name(record), record.path) for record in capture.attentions]
    others = [
        text
        for text in capture.unrecognised
        if not any(about(text, path, path) for path in paths)
        and not any(about(text, *place) for place in seen)
    ]
    return paths + others


def about(text: str, site: str, path: str) -> bool:
    """Whether a sentence names an attention by its site, or by the path of its module."""
    where = path or "the model"
    return text.startswith(f"{site}:") or f" in {where}:" in text or f" in {where} " in text


def paired(maps: Maps, own: Maps) -> dict[int, int]:
    """The captured maps that are among a package's own, in order, by their numbers."""
    pairs: dict[int, int] = {}
    for number, one in enumerate(maps):
        for at in range(len(own)):
            if at not in pairs.values() and apart([one], [own[at]]) <= NEAR:
                pairs[number] = at
                break
    return pairs


def apart(maps: Maps, own: Maps) -> float:
    """The largest difference of maps from a package's own; infinite where they do not pair."""
    if len(maps) != len(own) or any(a.shape != b.shape for a, b in zip(maps, own, strict=True)):
        return float("inf")
    gaps = [float((a.double() - b.double()).abs().max()) for a, b in zip(maps, own, strict=True)]
    return max(gaps, default=0.0)


def worst(proof: Proof, laws: Sequence[str]) -> str:
    """The largest difference that some laws left; a question mark where one could not be told."""
    errors = [found[law] for found in proof.laws.values() for law in laws if law in found]
    if not errors:
        return "-"
    if any(error is None for error in errors):
        return "?"
    return f"{max(error for error in errors if error is not None):.0e}"
