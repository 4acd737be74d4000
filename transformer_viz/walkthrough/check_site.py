"""Whether a model and a sentence have the head and the row that were asked for."""

from __future__ import annotations

from typing import Any

from ..checkpoints.common.model import Model
from ..core.sites import MAPS, Site
from ..model import Transformer


def check_place(model: Model, site: Site) -> None:
    """Refuse a site that is no head, or that our Transformer lacks.

    Raises:
        LookupError: names what there is.
    """
    if site.head is None or (site.stack, site.block) not in MAPS.values():
        raise LookupError(f"Step inside takes one head of an attention block; got {site}.")
    if not isinstance(model.module, Transformer):
        return  # only its run tells
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
    """Refuse a query that the sentence does not have.

    Raises:
        LookupError: names the rows there are.
    """
    if not 0 <= row < rows:
        raise LookupError(f"{site.map!r} has rows 0 to {rows - 1}; got {row}.")
