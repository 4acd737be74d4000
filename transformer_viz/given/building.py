"""`tv.from_attentions`: a trace from given weights."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..core.sites import MAPS, Site
from ..core.tiles import Matrix, Tiles
from ..core.trace import Trace
from ..core.trace_parts import Attention, Report, Tokens, read_only
from ..core.version import __version__
from ..metrics.attention.head_statistics import head_statistics
from .checks import Facts, facts, require_shape, sum_errors
from .layers import Layer, cut_unused, is_steps, layers_of
from .outputs import Parts, parts_of, sequence_of, written
from .rows import hides_later
from .steps import joined
from .words import tokens_of, tokens_within

SIDE = 64  # maximum rows and columns of a thumbnail, as in captured traces
NAME = "given weights"
NORMS = ("mean", "std", "rms", "input_norm", "output_norm", "output_mean")


@dataclass(frozen=True, eq=False)
class Map:
    """A map: its layers, the sentences of rows and columns, and facts about its weights.

    ``assumed`` is True if the weights do not show whether it belongs to an encoder or a decoder.
    """

    block: str
    layers: list[Layer]
    query: str
    key: str
    facts: list[Facts]
    assumed: bool = False


def from_attentions(
    attentions: Any,
    tokens: Any,
    *,
    cross: Any = None,
    decoder: Any = None,
    target_tokens: Any = None,
    tokenizer: Any = None,
    batch: int | None = None,
    check_sums: bool = True,
    name: str = NAME,
) -> Trace:
    """Return a trace of given attention weights, for all views, metrics, files and the report.

    The weights are checked and copied, never guessed. The trace is marked as given: no model was
    captured, so nothing proves that it used them. Anything that needs more than weights (scores,
    queries and keys, values, norms, positions, logits) raises an error.

    Args:
        attentions: Output of a Hugging Face model with ``output_attentions=True``: the output
            object, its ``attentions`` or ``encoder_attentions``, or the steps returned by
            ``generate``. Or weights: a list with ``[head, row, column]`` or
            ``[batch, head, row, column]`` per layer (None for a layer without weights), or one
            array ``[layer, head, row, column]`` or ``[layer, batch, head, row, column]``. Arrays
            may be of torch (any device, half precision, with a graph), numpy, JAX, or plain lists.
            The weights belong to a lone stack or an encoder; None if there is only a decoder.
        tokens: One token per column: strings of ``tokenizer.convert_ids_to_tokens``, or ids with
            ``tokenizer``. For a translation model, the tokens of the encoder.
        cross: Cross-attention, in the same forms; rows are ``target_tokens``.
        decoder: Self-attention of the decoder, in the same forms.
        target_tokens: Tokens of the decoder, including its start token.
        tokenizer: Tokenizer of the transformers library. It gives exact ids, special tokens and
            words; without it special tokens are recognised by their spelling.
        batch: Index of a sequence in a batch.
        check_sums: False if rows do not sum to 1, for example with learned sinks.
        name: Name of the model in the trace.

    A lone stack is a decoder (``decoder``) if ``generate`` returned it, or if no row attends to
    later tokens, else an encoder (``encoder``). Rows of padding are ignored: zeros, NaN, or equal
    weights in all columns. If no row is conclusive, the type of the output decides, and the trace
    records the assumption. With ``decoder=`` and ``attentions=None`` a stack is always a decoder.
    Steps of a sliding or static cache are placed at the tokens of their keys. Layers count from 0;
    layers without weights are not counted.

    Raises:
        ValueError: No weights, a wrong number of tokens, a batch without ``batch``, invalid
            weights, or rows that do not sum to 1. The message names the layer, head and row, and
            what to do.
    """
    parts = parts_of(Parts(attentions, cross, decoder), batch)
    steps = written(parts)
    source = tokens_of(tokens, tokenizer, "tokens")
    target = None if target_tokens is None else tokens_of(target_tokens, tokenizer, "target_tokens")
    found = _maps(parts, batch, target is not None)
    if steps:
        source, target = _read(found, source, target)
    checked = [_checked(one, source, target, check_sums) for one in found]
    return Trace(
        source=source,
        target=target,
        produced=None,
        heads=pd.concat([head_table(one) for one in checked], ignore_index=True),
        thumbnails={one.block: small_pictures(one) for one in checked},
        attentions=tuple(_attention(one, n) for one in checked for n in range(len(one.layers))),
        norms=_empty({"site": object, "stack": object, "layer": int, "token": int}, NORMS),
        gains={},
        residuals=_empty({"stack": object, "layer": int, "place": object, "token": int}, ("norm",)),
        positions={},
        logits=None,
        report=_report(checked),
        manifest=_manifest(checked, name, target is not None, tokenizer is not None, steps),
    )


def _maps(parts: Parts, batch: int | None, pair: bool) -> list[Map]:
    """Return the given maps, in the order of all traces."""

    def read(thing: Any, what: str) -> list[Layer]:
        if is_steps(thing):
            return joined(thing, what, batch, parts.beams)
        found = layers_of(thing, what, sequence_of(thing, parts, batch))
        return found if what == "cross" else list(map(cut_unused, found))

    given = (("attentions", parts.attentions), ("decoder", parts.decoder), ("cross", parts.cross))
    layers = {what: read(thing, what) for what, thing in given if thing is not None}
    if not layers:
        raise ValueError(
            "No weights came: give attentions=, decoder= or cross=, such as outputs.attentions of "
            'a model that was loaded with attn_implementation="eager".'
        )
    lone = "decoder" not in layers and not pair
    if "cross" in layers and not pair:
        raise ValueError(
            "cross= has rows of what a decoder reads; give its tokens, the start token too, as "
            "target_tokens=."
        )
    if pair and not {"cross", "decoder"} & set(layers):
        raise ValueError(
            "target_tokens= came without decoder= or cross=; leave it out, or give their weights."
        )
    if {"attentions", "decoder"} <= set(layers) and not pair:
        raise ValueError(
            "attentions= and decoder= both came without target_tokens=; a decoder beside an "
            "encoder has tokens of its own, start token first: give them as target_tokens=."
        )
    found = []
    if "attentions" in layers:
        square = layers["attentions"]
        block, assumed = _stack(square, parts.evidence) if lone else ("encoder", False)
        found.append(Map(block, square, "source", "source", [], assumed))
    if "decoder" in layers:
        side = "target" if pair else "source"
        found.append(Map("decoder", layers["decoder"], side, side, []))
    if "cross" in layers:
        found.append(Map("cross", layers["cross"], "target", "source", []))
    return found


def _stack(layers: list[Layer], evidence: str) -> tuple[str, bool]:
    """Return the stack of a lone map, and True if it is assumed."""
    if evidence == "generated":
        return "decoder", False
    hidden = hides_later(layers, evidence == "causal")
    if hidden is None:
        return ("decoder" if evidence else "encoder"), True
    return ("decoder" if hidden else "encoder"), False


def _read(
    maps: Sequence[Map], source: Tokens, target: Tokens | None
) -> tuple[Tokens, Tokens | None]:
    """Return the tokens of generate() that the model read, without the last generated one."""
    last = maps[-1]
    rows = last.layers[0].weights.values.shape[1]
    own = source if last.query == "source" else target
    if own is None or len(own) != rows + 1:
        return source, target
    cut = tokens_within(own, slice(0, rows))
    return (cut, target) if last.query == "source" else (source, cut)


def _checked(one: Map, source: Tokens, target: Tokens | None, check_sums: bool) -> Map:
    """Return the map with the facts about its weights.

    Raises:
        ValueError: As in `from_attentions`.
    """
    sides = {"source": source, "target": source if target is None else target}
    what = "attentions" if one.block == "encoder" or target is None else one.block
    rows, columns = len(sides[one.query]), len(sides[one.key])
    for layer in one.layers:
        require_shape(layer, what, rows, columns, one.query == one.key)
    return replace(one, facts=[facts(layer, what, check_sums) for layer in one.layers])


def _attention(one: Map, layer: int) -> Attention:
    weights = one.layers[layer].weights.values.astype(np.float32)
    return Attention(read_only(weights), Site(*MAPS[one.block], layer), one.query, one.key)


def head_table(one: Map) -> pd.DataFrame:
    """Return the table of heads, as in captured traces; rows of zeros have no sum error."""
    stack, kind = MAPS[one.block]
    tables = []
    for number, layer in enumerate(one.layers):
        table = head_statistics(layer.weights.values)
        table["row_sum_error"] = sum_errors(layer).max(-1)
        table.insert(0, "layer", number)
        tables.append(table)
    found = pd.concat(tables, ignore_index=True)
    found.insert(0, "block", kind)
    found.insert(0, "stack", stack)
    return found


def small_pictures(one: Map) -> np.ndarray:
    """Return thumbnails of all heads: uint8 ``[layer, head, <=64, <=64]``, max-pooled, 255 = 1."""
    heads = max(len(layer.weights.values) for layer in one.layers)
    rows, columns = one.layers[0].weights.values.shape[1:]
    high, wide = -(-rows // SIDE), -(-columns // SIDE)
    shape = (len(one.layers), heads, -(-rows // high), -(-columns // wide))
    out = np.zeros(shape, np.uint8)
    for number, layer in enumerate(one.layers):
        matrix = Matrix(layer.weights.values.astype(np.float32))
        tiles = Tiles(Site(*MAPS[one.block], number), one.query, one.key, (matrix,))
        for head in range(matrix.heads):
            small, _ = tiles.pooled(head, slice(None), slice(None), high, wide)
            out[number, head] = np.rint(np.clip(small, 0, 1) * np.float32(255))
    return read_only(out)


def _empty(keys: dict[str, type], values: Sequence[str]) -> pd.DataFrame:
    """Return a table without rows, for data that was not given."""
    kinds: dict[str, Any] = {**keys, **dict.fromkeys(values, np.float32)}
    return pd.DataFrame({name: np.zeros(0, kind) for name, kind in kinds.items()})


def _report(maps: Sequence[Map]) -> Report:
    sites = tuple(
        str(Site(*MAPS[one.block], layer)) for one in maps for layer in range(len(one.layers))
    )
    error = max(found.error for one in maps for found in one.facts)
    return Report(sites, error, None, {}, given=True)


def _manifest(
    maps: Sequence[Map], name: str, pair: bool, known: bool, steps: bool
) -> dict[str, Any]:
    """Return facts about the weights: types, masks, padding, and layers without weights."""
    kind = "encoder-decoder" if pair else f"{maps[0].block}-only"
    given = {
        one.block: {
            "dtype": one.layers[0].weights.dtype,
            "layers": [layer.number for layer in one.layers],
            "masks": [found.mask for found in one.facts],
            "assumed": one.assumed,
            "windows": [layer.window for layer in one.layers],
            "rows of zeros": sorted({row for found in one.facts for row in found.blank}),
            "rows of equal weights": sorted({row for found in one.facts for row in found.equal}),
            "rows without numbers": sorted({row for layer in one.layers for row in layer.unset}),
            "rows cut": sorted({row for layer in one.layers for row in layer.cut}),
        }
        for one in maps
    }
    return {
        "model": name,
        "layout": Report.GIVEN,
        "dtype": maps[0].layers[0].weights.dtype,
        "kind": kind,
        "versions": {"transformer_viz": __version__, "python": platform.python_version()},
        "keep": ["weights"],
        "given": given
        | {
            "special tokens": "by the tokenizer" if known else "by their spelling",
            "steps of generate": steps,
        },
    }
