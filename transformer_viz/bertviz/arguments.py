"""Conversion of BertViz's arguments to a trace, the parts of a sentence pair, and initial heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..components.lines import MOST_HEADS
from ..core.trace import Trace
from ..core.trace_parts import Tokens
from ..given.building import from_attentions
from ..given.layers import KeywordNeededError
from ..given.pairs import part_of
from ..i18n import say
from ..preprocessing.tokenizers import numbered
from ..views.export.report_data import Place, Run


@dataclass(frozen=True, eq=False)
class Given:
    """Arguments that define the weights; see `tv.head_view` for each."""

    attention: Any
    tokens: Any
    sentence_b_start: int | None
    prettify_tokens: bool
    encoder_attention: Any
    decoder_attention: Any
    cross_attention: Any
    encoder_tokens: Any
    decoder_tokens: Any


def trace_of(given: Given) -> Trace:
    """Return the weights as a trace.

    Raises:
        ValueError: No weights, weights of both one stack and two, or missing tokens.
    """
    try:
        return _named(given, _trace(given))
    except KeywordNeededError as error:
        raise ValueError(
            f"{error} Call tv.from_attentions with this keyword, and give its trace as attention."
        ) from error


def _trace(given: Given) -> Trace:
    """Return the trace with tokens labelled by its tokenizer."""
    pair = (given.encoder_attention, given.decoder_attention, given.cross_attention)
    words = (given.encoder_tokens, given.decoder_tokens)
    if given.attention is not None:
        made = given.attention if isinstance(given.attention, Trace) else None
        if made is not None and given.tokens is not None:
            raise ValueError("attention is a trace, which has its own tokens; leave tokens out.")
        if made is None and given.tokens is None:
            raise ValueError("attention came without tokens; give one token for each row.")
        if any(one is not None for one in (*pair, *words)):
            raise ValueError(
                "attention is for models of one stack; leave it out beside encoder_attention, "
                "decoder_attention, cross_attention, encoder_tokens and decoder_tokens."
            )
        return from_attentions(given.attention, given.tokens) if made is None else made
    if all(one is None for one in pair):
        raise ValueError(
            "No weights came: give attention, or encoder_attention, decoder_attention or "
            "cross_attention."
        )
    encoder, decoder, cross = pair
    if given.encoder_tokens is None and (encoder is not None or cross is not None):
        raise ValueError("encoder_attention and cross_attention need encoder_tokens.")
    if given.decoder_tokens is None and (decoder is not None or cross is not None):
        raise ValueError("decoder_attention and cross_attention need decoder_tokens.")
    if encoder is None and cross is None:
        return from_attentions(None, given.decoder_tokens, decoder=decoder)
    target = given.decoder_tokens if decoder is not None or cross is not None else None
    return from_attentions(
        encoder, given.encoder_tokens, cross=cross, decoder=decoder, target_tokens=target
    )


def _named(given: Given, trace: Trace) -> Trace:
    """Return the trace with its original tokens, unless they are to be prettified."""
    if given.prettify_tokens:
        return trace
    target = None if trace.target is None else _raw(trace.target)
    return replace(trace, source=_raw(trace.source), target=target)


def _raw(tokens: Tokens) -> Tokens:
    return replace(tokens, labels=numbered(tokens.pieces))


def runs_of_pair(trace: Trace, start: int | None) -> list[Run]:
    """Return the selectable parts: everything, and the attention within and between two sentences.

    Args:
        trace: Weights of a single stack.
        start: First token of the second sentence; None for a single sentence.

    Raises:
        ValueError: A start that leaves one sentence empty, or a trace of two stacks.
    """
    if start is None:
        return [Run(say("All"), trace)]
    count = len(trace.source)
    if len(trace.maps) > 1 or trace.target is not None:
        raise ValueError("sentence_b_start is for models of one stack; leave it out here.")
    if not 0 < start < count:
        raise ValueError(
            f"sentence_b_start is the first token of the second sentence, 1 to {count - 1}; got "
            f"{start}."
        )
    first, second, block = slice(0, start), slice(start, count), trace.maps[0]
    parts = (
        (say("Sentence A → Sentence A"), first, first),
        (say("Sentence B → Sentence B"), second, second),
        (say("Sentence A → Sentence B"), first, second),
        (say("Sentence B → Sentence A"), second, first),
    )
    cut = [Run(name, part_of(trace, block, rows, columns)) for name, rows, columns in parts]
    return [Run(say("All"), trace), *cut]


def held_places(
    trace: Trace,
    opened: Place,
    include_layers: Sequence[int] | None,
    include_heads: Sequence[int] | None = None,
) -> list[Place]:
    """Return the heads whose weights the page contains, the opened one first.

    Raises:
        ValueError: An unknown layer or head, or an opened one that is not included.
    """
    layers = max(map(trace.layers, trace.maps))
    heads = max(int(trace.head_counts(block).max()) for block in trace.maps)
    wanted = _listed("include_layers", include_layers, layers)
    which = _listed("include_heads", include_heads, heads)
    if include_layers is not None and opened[1] not in wanted:
        raise ValueError(f"layer {opened[1]} is not among include_layers, {list(wanted)}.")
    found = [
        (block, layer, head)
        for block in trace.maps
        for layer, count in enumerate(trace.head_counts(block))
        for head in range(int(count))
        if layer in wanted and head in which
    ]
    if not found:
        raise ValueError("No head is left: include_layers and include_heads leave none.")
    return list(dict.fromkeys([opened, *found] if opened in found else found))


def _listed(name: str, given: Sequence[int] | None, count: int) -> Sequence[int]:
    if given is None:
        return range(count)
    for one in given:
        if not 0 <= one < count:
            raise ValueError(f"{name} counts from 0 to {count - 1} here; got {one}.")
    return list(given)


def first_heads(
    trace: Trace, layer: int | None, heads: Sequence[int] | None
) -> tuple[Place, list[tuple[int, int]], str]:
    """Return the initially open head, the heads drawn over it, and a note about omitted ones.

    BertViz draws all heads of a layer over each other. Here eight heads have distinguishable
    colours, and the others are selected in the overview.

    Raises:
        ValueError: An unknown layer or head.
    """
    block = trace.maps[0]
    layer = 0 if layer is None else layer
    if not 0 <= layer < trace.layers(block):
        raise ValueError(f"layer counts from 0 to {trace.layers(block) - 1} here; got {layer}.")
    count = int(trace.head_counts(block)[layer])
    chosen = list(_listed("heads", heads, count))
    if not chosen:
        raise ValueError("heads is empty; leave it out for all of them.")
    shown, note = chosen[:MOST_HEADS], ""
    if len(chosen) > len(shown):
        note = say(
            "{shown} of {count} heads are drawn at once; the overview opens the others.",
            shown=len(shown), count=len(chosen),
        )  # fmt: skip
    return (block, layer, shown[0]), [(layer, head) for head in shown[1:]], note
