"""Progress line of a long job on stderr."""

from __future__ import annotations

import sys

from tqdm import tqdm


def bar(total: int, name: str, unit: str, initial: int = 0) -> tqdm:
    """Return a progress line with the time left; in a file or pipe it updates twice a minute."""
    live = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=initial,
        desc=name,
        unit=f" {unit}",
        mininterval=0.5 if live else 30,
        dynamic_ncols=live,
    )
