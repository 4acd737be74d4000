"""How a transfer is told to whoever started it in a terminal or a notebook: on stderr."""

from __future__ import annotations

import os
import sys
import time

from .plan import Plan, in_units

QUIET = "HF_HUB_DISABLE_PROGRESS_BARS"  # the client's own variable
YES = ("1", "on", "yes", "true")


class Terminal:
    """Says what is fetched before it is, and then how far it is.

    A terminal gets one line that is written over each second; a file or a notebook one every ten.
    """

    def __init__(self, wanted: Plan) -> None:
        self.quiet = os.environ.get(QUIET, "").lower() in YES
        self.live = sys.stderr.isatty()
        self.start = self.told = time.monotonic()
        self.first: int | None = None
        self.wanted = wanted
        self.open = False

    def begin(self) -> None:
        """Say how large it is, and how much room there is."""
        if self.wanted.left:
            self._write(self.wanted.sentence, "\n")

    def step(self, done: int, total: int) -> None:
        """So many bytes of so many are here."""
        now = time.monotonic()
        self.first = done if self.first is None else self.first
        if now - self.told < (1 if self.live else 10) or not self.wanted.size:
            return
        self.told = now
        speed = in_units(int((done - self.first) / max(now - self.start, 1e-9)))
        text = f"{in_units(done)} of {in_units(total)}, {speed} a second"
        self.open = self.live
        self._write(f"\r{text}\x1b[K" if self.live else text, "" if self.live else "\n")

    def end(self) -> None:
        """End the line that was written over."""
        if self.open:
            self._write("", "\n")

    def _write(self, text: str, end: str) -> None:
        if not self.quiet:
            sys.stderr.write(text + end)
            sys.stderr.flush()
