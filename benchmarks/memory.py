"""What the server and a page hold in memory while somebody plays with the app."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

MEGABYTE = 1e6


def server_of(url: str) -> int:
    """The process that serves this address.

    Raises:
        LookupError: there is none on this machine.
    """
    port = url.rpartition(":")[2].strip("/").encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                told = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it ended meanwhile, or is somebody else's
                continue
            asked = b"--server.port" in words and port in words
            if asked or b"STREAMLIT_SERVER_PORT=" + port in told:
                return int(entry.name)
    raise LookupError(f"No process of this machine serves {url}.")


def workers_of(process: int) -> list[int]:
    """Return the processes that a process has started (workers, Caddy); itself if there are none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            if int(after_name[1]) == process:
                found.append(int(entry.name))
    return found or [process]


def resident(process: int) -> float:
    """Megabytes of a process that are in memory."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise LookupError(f"Process {process} has ended.")


def heap_of(page: Page) -> float:
    """Megabytes that a page's JavaScript holds after its garbage was collected."""
    session = page.context.new_cdp_session(page)
    try:
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        numbers = session.send("Performance.getMetrics")["metrics"]
    finally:
        session.detach()
    return next(float(n["value"]) for n in numbers if n["name"] == "JSHeapUsedSize") / MEGABYTE


@dataclass
class Diary:
    """Megabytes of the server and of the page, every so many seconds."""

    process: int
    every: float = 20
    seconds: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    page: list[float] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def look(self, page: Page) -> None:
        """Write a line, if it is time for one."""
        now = time.monotonic() - self._began
        if self.seconds and now < self.seconds[-1] + self.every:
            return
        self.seconds.append(now)
        self.server.append(resident(self.process))
        self.page.append(heap_of(page))


def growth(values: Sequence[float]) -> float:
    """By how much the last third lies above the one before it, medians compared."""
    third = len(values) // 3
    if not third:
        return 0.0
    return median(values[-third:]) - median(values[-2 * third : -third])


def slope(seconds: Sequence[float], values: Sequence[float]) -> float:
    """Growth a minute over the last two thirds, by least squares."""
    start = len(values) // 3
    times, found = seconds[start:], values[start:]
    if len(times) < 2:
        return 0.0
    mean, level = sum(times) / len(times), sum(found) / len(found)
    above = sum((t - mean) * (v - level) for t, v in zip(times, found, strict=True))
    return 60 * above / sum((t - mean) ** 2 for t in times)
