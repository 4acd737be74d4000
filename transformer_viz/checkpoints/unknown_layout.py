"""Error for a file of unknown layout: the nearest layout, and ways to open the file.

A user's own file opens with ``names=``; the error names the command that proposes the table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from ..core.errors import visible
from ..core.trace import Trace
from .common.bundled import NAMES_FILE
from .common.candidate import Candidate
from .common.names import CALLED
from .files.errors import CheckpointError, shell_name

MOST = 4  # layouts that an error lists


class Named(Protocol):
    """Layout, reduced to its name and the patterns of its weights' names."""

    NAME: str
    NAMES: tuple[str, ...]


def unknown_layout(found: Candidate, layouts: Sequence[Named]) -> CheckpointError:
    """Return the error for a checkpoint that no layout recognises."""
    name = found.path.name
    if Trace.is_file(found.path):
        return CheckpointError(
            f"{name} is a trace file, a run that is over, and no checkpoint. See it "
            f"with `transformer-viz report {name} --out report.html`, with "
            "tv.Trace.load, or drop it on the page Checkpoint."
        )
    if found.renamed:
        assert found.names is not None
        called = CALLED[found.names.origin]
        return CheckpointError(
            f"The layout of {_ending(name)} is not known under the names that {called} gives; "
            f"{_nearest(found, layouts)} {_advice(found)}"
        )
    return CheckpointError(
        f"The layout of {_ending(name)} is not known; {_nearest(found, layouts)} {_advice(found)}"
    )


def _advice(found: Candidate) -> str:
    """Return the end of a sentence with the ways to open an unknown file."""
    file = shell_name(found.path.name)
    return (
        f"write a table of names with `transformer-viz names {file} --out {NAMES_FILE}` and give "
        "it as names= or --names; or build its module, and load(module)."
    )


def _ending(name: str, most: int = 36) -> str:
    """Return a name of a file or weight on one line; of a long one only the end, where names
    differ.
    """
    name = visible(name)
    return name if len(name) <= most else f"…{name[-most:]}"


def _nearest(found: Candidate, layouts: Sequence[Named]) -> str:
    """Return a sentence on the layout closest to an unknown file, and its mismatches."""
    names = sorted(found.weights.tensors)
    near, strange, below = "", names, ""
    field, count = Counter(name.partition(".")[0] for name in names).most_common(1)[0]
    fields = (f"{field}.",) if 2 * count > len(names) else ()  # a larger module may hold the model
    for prefix in ("", *fields):
        for layout in layouts:
            patterns = [re.compile(re.escape(prefix) + pattern) for pattern in layout.NAMES]
            left = [name for name in names if not any(p.fullmatch(name) for p in patterns)]
            if len(left) < len(strange):
                near, strange, below = layout.NAME, left, prefix
    if not near:
        some = [layout.NAME for layout in layouts if layout.NAMES]
        known_layouts = f"{', '.join(some[-MOST:])} and {len(layouts) - MOST} more"
        return (
            f"its first weight is {_ending(names[0])}, and no weight bears a known name. Known are "
            f"{known_layouts};"
        )
    known = len(names) - len(strange)
    odd = (
        f"; {_ending(strange[0])} is the first that does not"
        if strange
        else ", and others are missing"
    )
    return (
        f"{near} comes closest ({known} of its {len(names)} weights bear that layout's "
        f"names{f' below {_ending(below)!r}' if below else ''}{odd}). To open it,"
    )
