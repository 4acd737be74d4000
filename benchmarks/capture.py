"""What the probe costs on a model of GPT-2-small's shape: time, and memory.

Run as a program with a shape, a way and a length, it prints the memory growth of one run in bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from benchmarks.measure import Timing, interleaved, peak_growth
from benchmarks.report import Budget, Section
from benchmarks.shapes import SHAPES, Forward, sentence
from transformer_viz.capture import Capture, CaptureRequest, probe

NAMES = {
    "reference": "our Transformer (eager)",
    "gpt2_eager": "GPT-2, eager",
    "gpt2_fused": "GPT-2, fused",
}
REPEATS = {32: 21, 128: 21, 512: 5, 1024: 3}
FACTOR, SHARE = 1.10, 0.25  # DESIGN section 8


def ways(module: nn.Module, forward: Forward, length: int) -> dict[str, Callable[[], object]]:
    """The same forward pass alone, with statistics only, and with full matrices of all heads."""
    ids = sentence(length)

    def alone() -> object:
        with torch.inference_mode():
            return forward(ids)

    def watched(want: CaptureRequest) -> Capture:
        with torch.inference_mode(), probe(module, want=want) as run:
            forward(ids)
        return run

    return {
        "alone": alone,
        "statistics": lambda: watched(CaptureRequest(weights=lambda site: False)),
        "heads": lambda: watched(CaptureRequest(norms=False, residuals=False)),
        "full": lambda: watched(CaptureRequest()),
    }


def overhead(quick: bool = False) -> Section:
    """CPU time of watching all heads against the same model's forward alone."""
    torch.set_num_threads(1)
    table = [("model", "T", "forward, CPU s", "heads alone", "statistics", "full matrices")]
    at_128: dict[str, dict[str, Timing]] = {}
    for shape, name in NAMES.items():
        module, forward = SHAPES[shape]()
        for length, repeats in REPEATS.items():
            if quick and length > 128:
                continue
            times = interleaved(ways(module, forward, length), 5 if quick else repeats)
            table.append(
                (name, str(length), f"{times['alone'].middle:.3f}", *map(words, watched(times)))
            )
            if length == 128:
                at_128[shape] = times
    budgets = [
        Budget(f"{what}, T=128, {NAMES[shape]}", at_128[shape][way].factor, FACTOR, "x")
        for shape in ("reference", "gpt2_eager")
        for way, what in (
            ("heads", "capture of all heads"),
            ("full", "capture of all heads, norms and residual sums"),
        )
    ]
    notes = (
        "12 layers, 12 heads, width 768, random weights, batch of one, one thread, CPU seconds of "
        "interleaved runs. Heads alone: full matrices and statistics of every head; the other two "
        "also watch norms and residual sums, and statistics keeps no matrix. "
        "Factors to the forward pass alone: median of neighbouring runs (in "
        "brackets: fastest against fastest). No large output layer, which would hide the cost."
    )
    return Section("Capture: time", notes, table, budgets)


def watched(times: dict[str, Timing]) -> list[Timing]:
    return [times["heads"], times["statistics"], times["full"]]


def words(timing: Timing) -> str:
    return f"x{timing.factor:.2f} ({timing.factor_least:.2f})"


def memory(quick: bool = False) -> Section:
    """Peak memory of each way, each in a process of its own."""
    table = [("model", "T", "alone", "statistics", "full matrices", "statistics / full")]
    shares = {}
    for length in (512,) if quick else (512, 1024, 2048):
        for shape in ("gpt2_fused", "gpt2_eager"):
            if shape == "gpt2_eager" and length > 1024:
                continue
            alone, small, full = (
                growth(shape, way, length) for way in ("alone", "statistics", "full")
            )
            shares[shape, length] = small / full
            sizes = (f"{size / 1e6:.0f} MB" for size in (alone, small, full))
            table.append((NAMES[shape], str(length), *sizes, f"{small / full:.0%}"))
    longest = max(length for _, length in shares)
    what = f"statistics of all heads, T={longest}, fused attention, share of full capture's peak"
    notes = (
        "Growth of the resident memory during one run over what the loaded model took, each in a "
        "fresh process, median of three. Eager code has built the matrix before the probe sees it."
    )
    budget = Budget(what, 100 * shares["gpt2_fused", longest], 100 * SHARE, " %")
    return Section("Capture: memory", notes, table, [budget])


def growth(shape: str, way: str, length: int, repeats: int = 3) -> float:
    """Bytes of peak growth, the median of fresh processes."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.capture", shape, way, str(length)]
    runs = (
        subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats)
    )
    return median(int(run.stdout.split()[-1]) for run in runs)


def main(shape: str, way: str, length: str) -> None:
    torch.set_num_threads(1)
    module, forward = SHAPES[shape]()
    ways(module, forward, 4)[way]()  # what the first call sets up once is no cost of the run
    print(peak_growth(ways(module, forward, int(length))[way]))


if __name__ == "__main__":
    main(*sys.argv[1:])
