"""Walkthrough of one token through one layer, in the order of the model, from one captured run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..checkpoints.common.model import Model
from ..core.interventions import Intervention, ScaleResidual
from ..core.sites import Site
from ..core.stages import Stage, Walkthrough
from ..inference.capture_to_numpy import to_numpy
from ..inference.model_inputs import Source, read_source
from ..model import Transformer
from .arrays import row_of
from .attention_stages import head_stages
from .check_site import check_place, check_row
from .embedding_stages import start_stages
from .foreign_models import other_chain
from .layer_run import Part, Ran, ran
from .norm_stages import norm_stage
from .seam import seam


def step_inside(
    model: Model,
    source: Source,
    target: Source | None = None,
    *,
    site: Site,
    row: int,
    intervention: Intervention | None = None,
    produced: Sequence[int] | None = None,
    masked: Sequence[int] = (),
) -> Walkthrough:
    """Return all numbers of one head and its layer, for one query token.

    Args:
        model: Model from `load`.
        source, target, intervention, produced, masked: As in `trace`.
        site: Head of an attention block.
        row: Row of the query, from 0: a token of the source (``encoder``, or a model without
            target) or of the target.

    Returns:
        The stages in the order of the model (Vaswani et al. 2017, sections 3.1 to 3.5), from one
        pass under the intervention. For a model with other layers than the reference Transformer,
        only the stages from q·k on, and ``problem`` states this.

    Raises:
        LookupError: The model or the sentence lacks the block, layer, head or row.
        ValueError: As in `trace`.
    """
    intervention = intervention or Intervention()
    check_place(model, site)
    if not isinstance(model.module, Transformer):
        held = {"produced": produced, "masked": masked}
        return other_chain(model, source, target, site, row, intervention, held)
    read = read_source(model, source, target, intervention, produced, masked)
    side = "source" if read.target is None or site.stack == "encoder" else "target"
    tokens = read.source if side == "source" or read.target is None else read.target
    check_row(site, row, len(tokens))
    pass_ = ran(model, read, site, intervention)
    return Walkthrough(
        site=site,
        row=row,
        query=side,
        key="source" if site.block == "cross" else side,
        stages=tuple(_stages(pass_, row)),
        intervention=intervention,
    )


def _stages(ran: Ran, row: int) -> Iterator[Stage]:
    yield from start_stages(ran, row)
    for part in ran.parts:
        whole = part.name in (ran.site.block, "feed_forward")
        yield from _whole(ran, part, row) if whole else _sum(ran, "beside", part, row)
    yield from _end(ran, row)


def _whole(ran: Ran, part: Part, row: int) -> Iterator[Stage]:
    """Yield all stages of a sub-layer."""
    if not ran.post:
        normed = ran.calls.gave(part.norm)
        yield norm_stage(part.norm, part.name, ran.entering(part), normed, row)
    if part.name == "feed_forward":
        yield from _feed_forward(ran, part, row)
    else:
        yield from head_stages(ran, part, row)
    yield from _sum(ran, "residual", part, row)


def _sum(ran: Ran, kind: str, part: Part, row: int) -> Iterator[Stage]:
    """Yield the residual sum of a sub-layer, and the norm if it follows the sum."""
    arrays = {
        "x": row_of(ran.entering(part), row),
        "added": row_of(ran.calls.gave(part.module), row),
        "out": row_of(ran.summed(part), row),
    }
    made = Stage(kind, part.name, arrays, {"scale": _scale(ran, part)})
    yield made
    if ran.post:
        made = norm_stage(part.norm, part.name, ran.summed(part), ran.calls.gave(part.norm), row)
        yield made
    yield from seam(made, row_of(ran.leaving(part), row), part.name)


def _scale(ran: Ran, part: Part) -> float:
    """Return the factor that an edit applies to the residual stream before this sum."""
    site = Site(ran.site.stack, part.name, ran.site.layer)
    found = ran.intervention.find(ScaleResidual, site)
    return found.value if isinstance(found, ScaleResidual) else 1.0


def _feed_forward(ran: Ran, part: Part, row: int) -> Iterator[Stage]:
    module: Any = part.module
    calls = ran.calls
    arrays = {
        "x": row_of(calls.given(module), row),
        "inner": row_of(calls.gave(module.inner), row),
        "out": row_of(calls.given(module.outer), row),
    }
    if module.gate is not None:
        arrays["gate"] = row_of(calls.gave(module.gate), row)
    activation = ran.transformer.config.activation
    yield Stage("inner", part.name, arrays, words={"activation": activation})
    yield Stage(
        "outer",
        part.name,
        {
            "x": arrays["out"],
            "bias": to_numpy(module.outer.bias),
            "out": row_of(calls.gave(module), row),
        },
    )


def _end(ran: Ran, row: int) -> Iterator[Stage]:
    """Yield the norm after the last layer."""
    norm = ran.stack.norm
    if norm is not None and ran.site.layer == len(ran.stack.layers) - 1:
        yield norm_stage(norm, "final", ran.calls.given(norm), ran.calls.gave(norm), row)
