"""`tv.neuron_view`: q times k for each pair of tokens, with the arguments of BertViz's `show`."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from ..components.blob import pack
from ..components.js_texts import taught
from ..components.qk import qk_data
from ..components.standalone_page import page
from ..core.guesses import guess_html
from ..core.trace import Trace
from ..i18n import say
from ..metrics.attention.qk_steps import require_product
from ..views.export.html_report import room_for
from ..views.export.report_data import Place
from ..views.numbers import whose
from .model_view import require_mode
from .shown import HtmlPage, acted, require_action

MOST_TOKENS = 64  # tokens of a side; more pairs do not fit on a page
MOST_CELLS = 8192  # pairs of tokens of all heads together, each with its whole sum
HEIGHT = 900  # pixels
PACKED = 3  # approximate compression ratio of a cell


def neuron_view(
    model: Any,
    model_type: str | None,
    tokenizer: Any,
    sentence_a: Any,
    sentence_b: str | None = None,
    display_mode: str = "dark",
    layer: int | None = None,
    head: int | None = None,
    html_action: str = "view",
) -> HtmlPage | None:
    """Show the attention of each pair of tokens in numbers: q, k, product, scale, mask, softmax.

    The arguments and their defaults are those of BertViz's ``neuron_view.show``. The model is run
    and captured as in `tv.trace`, so any architecture that `tv.load` opens is supported, not only
    three forks.

    Args:
        model: Model from `tv.load`, a module of transformers, or the name or path of a checkpoint.
        model_type: Ignored, since the probe detects the kind of attention. Any text, or None.
        tokenizer: Tokenizer of the transformers library for a module without one; else None.
        sentence_a: A text.
        sentence_b: The second text, for a model of text pairs.
        display_mode: ``dark`` or ``light``; a button on the page changes it.
        layer: Initially open layer; by default 0.
        head: Initially open head; by default 0. The page contains this head, then the others of its
            layer, as many as fit.
        html_action: As in `tv.head_view`.

    Raises:
        ValueError: A text of more than 64 tokens, an unknown layer or head, or a model that cannot
            be opened.
        NoProduct: (a LookupError) Scores are no product of queries and keys.
    """
    require_action(html_action)
    require_mode(display_mode)
    trace = _run(model, tokenizer, sentence_a if sentence_b is None else (sentence_a, sentence_b))
    made = neuron_page(trace, layer or 0, head or 0, display_mode)
    return acted(made, html_action)


def _run(model: Any, tokenizer: Any, source: Any) -> Trace:
    from ..checkpoints import load
    from ..checkpoints.common.model import Model
    from ..inference.tracing import trace

    opened = model if isinstance(model, Model) else load(model, tokenizer=tokenizer)
    return trace(opened, source, keep=("scores", "qkv"))


def neuron_page(trace: Trace, layer: int, head: int, theme: str = "") -> HtmlPage:
    """Return the page of a run with ``keep=("scores", "qkv")``.

    Raises:
        ValueError, LookupError: As in `neuron_view`.
    """
    block = trace.maps[-1]
    require_product(trace, block, layer, head)
    rows, columns = trace.block(block, layer).weights.shape[1:]
    if max(rows, columns) > MOST_TOKENS:
        raise ValueError(
            f"The neuron view holds every pair of words, of at most {MOST_TOKENS} tokens on a "
            f"side; this run has {rows} x {columns}. Give a shorter text, or see one row at a "
            "time in the app (Explore, q·k)."
        )
    title = say("q times k")
    blob, held = _held(trace, _places(trace, (block, layer, head)), title)
    count = len(trace.heads)
    left = say("The page holds {kept} of {heads} heads.", kept=held, heads=count)
    said = " ".join(
        (left if held < count else "", whose(trace, marked=False), _proof(trace))
    ).strip()
    words = f"{guess_html(trace)}<p>{html.escape(said)}</p>"
    body = f'<main id="tv-report"></main><footer>{words}</footer>'
    content = page(
        blob, title=title, body=body, theme=theme, script="report/neuron.js", sheet="neuron.css"
    )
    return HtmlPage(content, title, HEIGHT)


def _proof(trace: Trace) -> str:
    if trace.report.status == "green":
        return say("The capture of this run is proved: its report is green.")
    if trace.report.status == trace.report.UNCHECKED:
        return say("The capture of this run was not checked.")
    return say("The capture of this run is not proved in every part: its report is amber.")


def _places(trace: Trace, opened: Place) -> list[Place]:
    """Return the opened head, the others of its layer, then the same map's other layers."""
    block = opened[0]
    counts = trace.head_counts(block)
    layers = [opened[1], *(n for n in range(len(counts)) if n != opened[1])]
    found = [(block, layer, head) for layer in layers for head in range(int(counts[layer]))]
    return list(dict.fromkeys([opened, *found]))


def _held(trace: Trace, places: list[Place], title: str) -> tuple[bytes, int]:
    """Return the blob for ``neuron.js``, and its number of heads."""
    rows, columns = trace.block(places[0][0], places[0][1]).weights.shape[1:]
    room = room_for(title, "") * PACKED
    arrays: dict[str, np.ndarray] = {}
    held: list[list[Any]] = []
    size = 0
    with taught():
        for place in places[: max(1, MOST_CELLS // (rows * columns))]:
            cells = [
                qk_data(trace, *place, query=row, key=column)
                for row in range(rows)
                for column in range(columns)
            ]
            size += sum(map(len, cells))
            if held and size > room:
                break
            ends = np.cumsum([0, *map(len, cells)]).astype(np.int32)
            arrays[f"cells{len(held)}"] = np.frombuffer(b"".join(cells), np.uint8)
            arrays[f"ends{len(held)}"] = ends
            held.append(list(place))
    words = {"part": "neuron", "heads": held, "shape": [rows, columns]}
    return pack(words, **arrays), len(held)
