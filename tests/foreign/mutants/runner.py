"""What the report says of the models with each fault, in a child process for each of them.

torch is imported once; each child imports the package anew, with the fault in it. The command line
is ``python -m tests.foreign.mutants``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .faults import Fault, put
from .models import MODELS, built

Verdicts = dict[str, str]  # by model: green, or what the report says instead
LIMIT = 60  # seconds of processor time of one child
PATIENCE = 20  # times as many seconds on the clock, on a machine that does other things
GREEN = "green"
IMPORTED = (np, pd, torch)  # what takes long is imported before any child begins


def verdict(name: str) -> str:
    """What the report says of a model: `green`, or what is not."""
    try:
        return report(name)
    except Exception as error:
        return f"raised {type(error).__name__}: {' '.join(str(error).split())[:120]}"


def report(name: str) -> str:
    """The capture report of a model on its input, in a word or two."""
    import transformer_viz as tv
    from transformer_viz.inference.proof.prove import prove

    module, inputs = built(name)
    if len(inputs) == 1:
        for check in (True, "full"):  # the second one takes far more passes
            found = tv.trace(tv.load(module), inputs[0][0].tolist(), check=check).report
            # A trace keeps the first of several windows and says so; faults are looked for here.
            known = tuple(word for word in found.untold if "inputs of its own" not in word)
            found = dataclasses.replace(found, untold=known)
            if found.status != GREEN:
                return f"{found.status}: {told(found)}"
        return GREEN

    def call(given: Sequence[Tensor] = inputs) -> Any:
        return module(*given)

    def together() -> Any:
        return call([torch.cat((x, x.flip(1))) for x in inputs])

    proof = prove(module, call, together=together)
    return GREEN if proof.holds else f"amber: {told(proof)}"


def told(found: Any) -> str:
    """Which lines of a report are not green."""
    wrong = {
        law
        for gaps in found.laws.values()
        for law, gap in gaps.items()
        if gap is None or not gap <= found.tolerance
    }
    wrong |= {kernel.fate for kernel in found.kernels if kernel.fate == "missed"}
    rebuilt = getattr(found, "rebuilt", {})
    if any(gap is not None and not gap <= 1e-4 for gap in rebuilt.values()):
        wrong.add("rebuilt")
    if not getattr(found, "row_sum_error", 0.0) <= 1e-4:
        wrong.add("row sums")
    wrong |= {"untold"} if found.untold else set()
    changed = getattr(found, "output_difference", None) or getattr(found, "difference", 0.0)
    if not changed <= 1e-4:
        wrong.add("output")
    return ", ".join(sorted(wrong)) or "nothing is shown"


def in_a_child(work: Callable[[], Verdicts]) -> Verdicts:
    """What some work gives in a child process; a child that ends without a word is told so."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        signal.alarm(PATIENCE * LIMIT)
        try:
            os.close(inlet)
            with os.fdopen(outlet, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return cast(Verdicts, json.loads(text)) if text else {"": "the child ended without a word"}


def verdicts(
    fault: Fault | None, models: Sequence[str] = tuple(MODELS), to_the_end: bool = True
) -> Verdicts:
    """What the report says of each model with a fault in the probe, or with none; unless it is to
    be asked ``to_the_end``, up to the first that is not green."""

    def work() -> Verdicts:
        put(fault)
        warnings.simplefilter("ignore")
        found: Verdicts = {}
        for name in models:
            found[name] = verdict(name)
            if not to_the_end and found[name] != GREEN:
                break
        return found

    return in_a_child(work)
