"""Searches of the page Play. Torch is imported inside, when a search runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.interventions import Intervention
from ...core.search_tree import Search
from ...i18n import say
from .query import Question
from .trace_jobs import source_of

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.hearing import Heard
    from ...inference.search import Tell

MAX_ROWS_BYTES = 32_000_000  # bytes of the attention rows of a search, over all layers


def searched(
    model: Model,
    question: Question,
    beam: int,
    drawing: float | None,
    seed: int,
    edits: str,
    on_progress: Tell | None = None,
) -> Search:
    """Return the recorded search of a model, step by step.

    Args:
        model: A model that generates text.
        question: Input; its target is ignored.
        beam: Number of texts kept; 1 is greedy.
        drawing: Sampling temperature; None for no sampling.
        seed: Seed of the sampling.
        edits: JSON of an intervention.
        on_progress: Called with the progress.

    Raises:
        ValueError: The model cannot take the text or an edit; the message gives the reason.
    """
    from ...inference.hearing import hear
    from ...inference.search_recorder import record

    given = source_of(model, question)
    source = hear(model, given) if model.takes == "audio" else given
    _require_room(model, source, beam)
    changes = Intervention.from_json(edits)
    return record(model, source, beam, drawing, changes, seed=seed, on_progress=on_progress)


def _require_room(model: Model, source: str | Heard, beam: int) -> None:
    """Check that the steps of a search, with their attention rows, are not too large for a browser.

    Raises:
        ValueError: They are; the message gives the number of tokens and a remedy.
    """
    from ...inference.hearing import Heard
    from ...inference.search import limit_of
    from ...inference.seeing import set_beside
    from ...inference.token_ids import source_ids

    heard = isinstance(source, Heard)
    pictured = not isinstance(source, Heard)
    ids = set_beside(model, source, None)[0] if pictured and model.eyes else []
    tokens = len(source.tokens if isinstance(source, Heard) else ids or source_ids(model, source))
    steps = limit_of(model, source if isinstance(source, Heard) else tokens, None)
    keys = tokens + (steps if model.kind == "decoder-only" else 0)
    rows = model.size("decoder_layers") * model.size("heads")
    if 4 * beam * steps * rows * keys > MAX_ROWS_BYTES:
        if heard:
            raise ValueError(
                say(
                    "This sound has {tokens} frames: with {beam} texts kept, its steps are too "
                    "many to play. Give a shorter one, or keep fewer texts.",
                    tokens=tokens,
                    beam=beam,
                )
            )
        raise ValueError(
            say(
                "This text has {tokens} tokens: with {beam} texts kept, its steps are too many to "
                "play. Shorten it, or keep fewer texts.",
                tokens=tokens,
                beam=beam,
            )
        )
