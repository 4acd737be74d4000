"""`tv.head_view`: heads as lines between words, by BertViz's arguments."""

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
    """Heads as lines between the words that look and those looked at, beside all heads in small.

    The arguments are those of BertViz's ``head_view``, their defaults too.

    Args:
        attention: of a model of one stack; whatever `tv.from_attentions` takes. Or a trace, of one
            sequence of a batch or of rows beside learned sinks; then without tokens.
        tokens: of that model's text, as of `tv.from_attentions`.
        sentence_b_start: the first token of the second sentence of a pair; then the reader chooses
            between all words and what either sentence gives the other.
        prettify_tokens: leave the marks of a vocabulary (``Ġ``, ``▁``, ``##``) out of the words.
        layer: open at first; left out, 0.
        heads: drawn at first; left out, all of the layer, of which eight are drawn at once.
        encoder_attention: of a model of two stacks, as attention.
        decoder_attention: as attention.
        cross_attention: as attention.
        encoder_tokens: as tokens.
        decoder_tokens: as tokens.
        include_layers: those whose exact weights the page holds; the others stay in the overview.
        html_action: ``view`` shows it in the notebook, ``return`` gives an object whose ``data``
            is a whole HTML page that needs no network.

    Raises:
        ValueError: weights or tokens that do not fit, a layer or head that there is not.
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
    """The layer that is open at first: the one asked for, or the first of those included."""
    return min(include_layers) if layer is None and include_layers else layer
