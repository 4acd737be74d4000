"""`tv.head_view`: heads as lines between tokens, with BertViz's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..i18n import say
from .arguments import Given, first_heads, held_places, runs_of_pair, trace_of
from .page_of_heads import page_of_heads
from .shown import HtmlPage, acted, require_action


def head_view(
    attention: Any = None,
    tokens: Any = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Any = None,
    decoder_tokens: Any = None,
    include_layers: Sequence[int] | None = None,
    html_action: str = "view",
) -> HtmlPage | None:
    """Show heads as lines from query tokens to key tokens, next to an overview of all heads.

    The arguments and their defaults are those of BertViz's ``head_view``.

    Args:
        attention: Attention of a model of one stack, in any form of `tv.from_attentions`. Or a
            trace, for one sequence of a batch or for rows with learned sinks; then without tokens.
        tokens: Tokens of that model's text, as in `tv.from_attentions`.
        sentence_b_start: First token of the second sentence of a pair. The page then offers all
            tokens, and the attention within and between the sentences.
        prettify_tokens: Remove the marks of a vocabulary (``Ġ``, ``▁``, ``##``) from the tokens.
        layer: Initially open layer; by default 0.
        heads: Initially drawn heads; by default all of the layer, of which at most eight are drawn.
        encoder_attention: Encoder self-attention of a model of two stacks, like attention.
        decoder_attention: Decoder self-attention, like attention.
        cross_attention: Cross-attention, like attention.
        encoder_tokens: Tokens of the encoder, like tokens.
        decoder_tokens: Tokens of the decoder, like tokens.
        include_layers: Layers whose exact weights the page contains; the others stay in the
            overview.
        html_action: ``view`` shows the page in the notebook. ``return`` returns an object whose
            ``data`` is a complete HTML page that needs no network.

    Raises:
        ValueError: Weights or tokens do not fit, or a layer or head is unknown.
    """
    require_action(html_action)
    given = Given(
        attention, tokens, sentence_b_start, prettify_tokens, encoder_attention,
        decoder_attention, cross_attention, encoder_tokens, decoder_tokens,
    )  # fmt: skip
    trace = trace_of(given)
    opened, overlaid, note = first_heads(trace, _layer(layer, include_layers), heads)
    page = page_of_heads(
        trace,
        runs_of_pair(trace, sentence_b_start),
        held_places(trace, opened, include_layers),
        title=say("Heads as lines"),
        view="lines",
        overlaid=overlaid,
        notes=[note],
    )
    return acted(page, html_action)


def _layer(layer: int | None, include_layers: Sequence[int] | None) -> int | None:
    """Return the initially open layer: the requested one, or the first included one."""
    return min(include_layers) if layer is None and include_layers else layer
