"""`tv.model_view`: an overview of all heads of all layers, with BertViz's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..i18n import say
from ..views.export.chosen_heads import most_decided
from .arguments import Given, held_places, runs_of_pair, trace_of
from .page_of_heads import page_of_heads
from .shown import HtmlPage, acted, require_action

MODES = ("light", "dark")


def model_view(
    attention: Any = None,
    tokens: Any = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: str = "dark",
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Any = None,
    decoder_tokens: Any = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    html_action: str = "view",
) -> HtmlPage | None:
    """Show all layers and heads as small maps, and the selected one with its numbers.

    The arguments and their defaults are those of BertViz's ``model_view``; see `tv.head_view` for
    common ones.

    Args:
        display_mode: ``dark`` or ``light``; a button on the page changes it.
        include_heads: Heads whose exact weights the page contains; the others stay in the overview.

    Raises:
        ValueError: Weights or tokens do not fit, or a layer or head is unknown.
    """
    require_action(html_action)
    require_mode(display_mode)
    given = Given(
        attention, tokens, sentence_b_start, prettify_tokens, encoder_attention,
        decoder_attention, cross_attention, encoder_tokens, decoder_tokens,
    )  # fmt: skip
    trace = trace_of(given)
    best = most_decided(trace, trace.maps[-1])
    if include_layers is not None and best[1] not in include_layers:
        best = (best[0], min(include_layers, default=0), best[2])
    page = page_of_heads(
        trace,
        runs_of_pair(trace, sentence_b_start),
        held_places(trace, best, include_layers, include_heads),
        title=say("All heads"),
        view="map",
        theme=display_mode,
    )
    return acted(page, html_action)


def require_mode(display_mode: str) -> None:
    """Raise if ``display_mode`` is unknown.

    Raises:
        ValueError: The message names both modes.
    """
    if display_mode not in MODES:
        raise ValueError(f"display_mode is 'light' or 'dark'; got {display_mode!r}.")
