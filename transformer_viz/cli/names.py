"""``transformer-viz names``: name proposals for the weights of a custom checkpoint."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click

from ..core.errors import visible
from .arguments import known_checkpoint, new_file
from .options import model_path
from .terminal import after_a_second, tell

if TYPE_CHECKING:
    from ..checkpoints.naming.name_proposals import NameProposal

LONGEST = 60  # characters of a name in the table


@click.command()
@model_path
@click.option("--layout", metavar="L", help="Propose this layout's names; left out, the nearest.")
@click.option("--json", "as_json", is_flag=True, help="The proposal with its reasons, as JSON.")
@click.option("--apart", is_flag=True, help="Read it as a stranger's: in a process under limits.")
@click.option("--out", metavar="F.json", help="Write the table that --names and names= take.")
def names(path: str, layout: str | None, as_json: bool, apart: bool, out: str | None) -> None:
    """Propose which weight is which, for a file whose names no layout knows.

    Nothing is opened by it: check the table, above all what is proposed by order, and give it as
    --names F.json.
    """
    file = None if out is None else new_file(out, "table")
    known = known_checkpoint(path)
    with after_a_second(f"Reading {path}"):
        if apart:
            from ..opening import propose_apart as propose
        else:
            from ..checkpoints import propose_names as propose
        found = propose(known, layout)
    if file is not None:
        text = json.dumps(found.names, indent=1, ensure_ascii=False) + "\n"
        file.write_text(text, encoding="utf-8")
    if as_json:
        tell(json.dumps(found.to_dict(), indent=2))
        return
    tell("\n".join(lines(found)))
    if out is not None:
        given = shlex.join(["transformer-viz", "inspect", path, "--names", out])
        tell(f"{out}: {len(found.names)} of {len(found.rows)} weights. Check it, then: {given}")


def lines(found: NameProposal) -> list[str]:
    """Return the table as readable lines, with missing entries."""
    from ..checkpoints.naming.name_proposals import REASONS

    keys = [visible(row.key) for row in found.rows]
    right = [visible(row.proposed) if row.proposed else "–" for row in found.rows]
    wide = min(LONGEST, max(map(len, keys)))
    far = min(LONGEST, max(map(len, right)))
    shapes = [" x ".join(map(str, row.shape)) for row in found.rows]
    shape = max(map(len, shapes))
    rows = [
        f"{key:<{wide}}  {size:>{shape}}  {name:<{far}}  {REASONS[row.why]}"
        for key, size, name, row in zip(keys, shapes, right, found.rows, strict=True)
    ]
    made = [
        f"layout {found.layout}",
        f"{'weight':<{wide}}  {'shape':>{shape}}  {'name':<{far}}  why",
    ]
    made += rows
    if found.open:
        made.append(
            f"{len(found.open)} without a proposal, the first {visible(found.open[0])}: give each "
            "a name, or null to leave it out."
        )
    if found.missing:
        made.append(
            f"The layout lacks {len(found.missing)} more, the first {found.missing[0]}; without "
            "them it does not open."
        )
    return made
