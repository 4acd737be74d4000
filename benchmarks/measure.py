"""How we measure: CPU time of interleaved runs, and the memory a run adds, on a busy machine.

Ratios are taken between runs that stood side by side, so that whatever else the machine does
touches both alike; CPU time leaves out the time in which somebody else had the core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Timing:
    """One call beside its yardstick: CPU seconds, and the factor to the yardstick."""

    least: float
    middle: float
    factor: float  # median of the factors of neighbouring runs
    factor_least: float  # fastest run against the yardstick's fastest


def interleaved(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Time calls in turn, ``repeats`` rounds; the first one named is the yardstick."""
    for call in calls.values():
        call()
    rounds = [{name: cpu_seconds(call) for name, call in calls.items()} for _ in range(repeats)]
    yardstick = next(iter(calls))
    least = {name: min(r[name] for r in rounds) for name in calls}
    return {
        name: Timing(
            least[name],
            median(r[name] for r in rounds),
            median(r[name] / r[yardstick] for r in rounds),
            least[name] / least[yardstick],
        )
        for name in calls
    }


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process during one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def peak_growth(call: Callable[[], object]) -> int:
    """Bytes by which the highest resident memory during a call exceeds that before it.

    Needs a process of its own: what an earlier call left to the allocator would not be counted.
    """
    RESET.write_text("5")  # forget the highest mark so far (Linux, proc(5))
    before = _status("VmRSS")
    kept = call()
    growth = _status("VmHWM") - before
    del kept
    return growth


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {field}; this measurement needs Linux.")
