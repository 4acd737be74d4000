"""Checks that a model has the requested head and a sentence the requested row."""

from __future__ import annotations

from typing import Any

from ..checkpoints.common.model import Model
from ..core.sites import MAPS, Site
from ..model import Transformer


def check_place(model: Model, site: Site) -> None:
    """Raise if a site is not a head, or the reference Transformer lacks it.

    Raises:
        LookupError: The message names the valid range.
    """
    if site.head is None or (site.stack, site.block) not in MAPS.values():
        raise LookupError(f"Step inside takes one head of an attention block; got {site}.")
    if not isinstance(model.module, Transformer):
        return  # known only after a run
    fields: dict[str, Any] = model.config
    layers = fields[f"{site.stack}_layers"]
    if not layers or (site.block == "cross" and model.kind != "encoder-decoder"):
        raise LookupError(f"This model is {model.kind}; it has no {site.map!r} attention.")
    for name, number, count in (
        ("layers", site.layer, layers),
        ("heads", site.head, fields["heads"]),
    ):
        if not 0 <= number < count:
            raise LookupError(f"{site.map!r} has {name} 0 to {count - 1}; got {number}.")


def check_row(site: Site, row: int, rows: int) -> None:
    """Raise if the sentence lacks a query row.

    Raises:
        LookupError: The message names the valid rows.
    """
    if not 0 <= row < rows:
        raise LookupError(f"{site.map!r} has rows 0 to {rows - 1}; got {row}.")
