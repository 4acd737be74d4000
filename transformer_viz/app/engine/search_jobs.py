"""The searches behind the page Play. Torch is imported inside, when one is really made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.interventions import Intervention
from ...core.search_tree import Search
from ...i18n import say

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.search import Tell

MAX_ROWS_BYTES = 32_000_000  # bytes that the rows of a search may take, of all layers


def searched(
    model: Model,
    source: str,
    beam: int,
    drawing: float | None,
    seed: int,
    edits: str,
    tell: Tell | None = None,
) -> Search:
    """How a model writes, step by step.

    Args:
        model: one that writes.
        source: the text that it reads.
        beam: texts that are kept; 1 is greedy.
        drawing: the output temperature at which tokens are drawn; None: none is drawn.
        seed: of the draws.
        edits: an intervention's JSON.
        tell: hears how far it is.

    Raises:
        ValueError: a text or an edit that the model cannot take; says why.
    """
    from ...inference.search_recorder import record

    _require_room(model, source, beam)
    changes = Intervention.from_json(edits)
    return record(model, source, beam, drawing, changes, seed=seed, tell=tell)


def _require_room(model: Model, source: str, beam: int) -> None:
    """Refuse a text whose steps, with all that they look at, would be too much for a browser.

    Raises:
        ValueError: says how many tokens it has and what to do.
    """
    from ...inference.search import limit_of
    from ...inference.token_ids import source_ids

    tokens = len(source_ids(model, source))
    steps = limit_of(model, tokens, None)
    keys = tokens + (steps if model.kind == "decoder-only" else 0)
    rows = model.size("decoder_layers") * model.size("heads")
    if 4 * beam * steps * rows * keys > MAX_ROWS_BYTES:
        raise ValueError(
            say(
                "This text has {tokens} tokens: with {beam} texts kept, its steps are too many to "
                "play. Shorten it, or keep fewer texts.",
                tokens=tokens,
                beam=beam,
            )
        )
