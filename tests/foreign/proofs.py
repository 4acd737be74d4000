"""The proof on every foreign style: it is green for no style that is shown wrongly.

What the probe shows rightly and the proof cannot tell stands in UNTOLD, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.support import device
from transformer_viz.inference.proof.prove import Changed, Proof, prove
from transformer_viz.inference.proof.token_order import exchanges as exchanges_of

from .oracle import fresh, quiet
from .scoreboard import Row
from .styles import Style
from .styles.base import BATCH, TOKENS, WIDTH

IDS = (BATCH, TOKENS)
NUMBERING = "more keys than rows: the number of the first row is not proved"
SEVERAL = "two attentions run at one place: whether they are heads of one is not told"
NO_PROJECTION = "the output projection is no product that the witness knows"
#: Styles that are shown rightly, or rightly not at all, where the proof is amber, and why.
UNTOLD: dict[str, str] = {
    "keys_strided": NUMBERING,
    "keys_pooled": NUMBERING,
    "keys_pooled_sdpa": NUMBERING,
    "keys_projected": NUMBERING,
    "queries_strided": NUMBERING,
    "query_is_last": NUMBERING,
    "memory_keys": NUMBERING,
    "memory_keys_after": NUMBERING,
    "cache_growing": NUMBERING,
    "cache_static": NUMBERING,
    "cache_ring": NUMBERING,
    "zero_key": NUMBERING,
    "cosine_weights": "no kernel makes its weights",
    "int8_dynamic": NO_PROJECTION,
    "tensor_subclass": NO_PROJECTION,
    "norm_running": "the module gives other numbers at each call",
    "difference_of_products": SEVERAL,
    "siamese": SEVERAL,
    "siamese_flipped": SEVERAL,
    "same_tensor_twice": SEVERAL,
    "two_tensors": SEVERAL,
    "two_lengths": SEVERAL,
    "two_lengths_rising": SEVERAL,
    "chunked_queries_filled": "the parts are written into one tensor before the projection",
    "mask_by_slicing": "a row with one key looks the same in every head",
    "learned_everything": "a learned table looks at itself: it has no batch",
    "memory_tokens": "learned tokens stand in front: row 3 is word 0",
    "relative_shift": "above the diagonal a row's scores come from the next row's query",
    "synthesizer_random": "all items share the rows of one softmax, which is counted as missed",
}


def batch_first(style: Style, inputs: tuple[Any, ...]) -> bool:
    """Whether all inputs are tensors with the batch first, so that one item can be taken."""
    odd = ("time_first", "unbatched_one_head", "unbatched_heads", "unbatched_einsum")
    odd += ("series_one_dimension", "series_cut_up", "heads_in_list_named", "zero_key")
    odd += ("cache_static", "cache_ring", "input_inside", "input_of_numpy")
    if style.name in odd:
        return False
    return all(isinstance(x, Tensor) and x.dim() > 1 and len(x) == 2 for x in inputs)


def proof_of(style: Style) -> Proof:
    """The proof of a style on the inputs that the catalogue gives."""
    with quiet():
        module, inputs = fresh(style)

        def call(given: tuple[Any, ...] = inputs) -> Any:
            torch.manual_seed(13)
            with device.making():
                return style.run(module, *given)

        alone: Callable[[], Any] | None = None
        if batch_first(style, inputs):
            alone = lambda: call(tuple(x[:1] for x in inputs))  # noqa: E731
        together = None if alone is None else call
        changed = exchanges(inputs, call) if alone is not None else []
        with style.around():
            return prove(
                style.probed(module), call, alone=alone, together=together, changed=changed
            )


def exchanges(inputs: tuple[Any, ...], call: Callable[..., Any]) -> list[Changed]:
    """Calls with some tokens of a lone input ``[batch, token, ...]`` exchanged for others."""
    x = inputs[0]
    if len(inputs) != 1 or x.is_nested or tuple(x.shape) not in (IDS, (*IDS, WIDTH)):
        return []
    return [Changed(one.tokens, TOKENS, partial(call, (one.made,))) for one in exchanges_of(x)]


def asked(style: Style) -> bool:
    """Whether a style can be proved: not if it trains, or asks for gradients inside."""
    return not (style.train or style.grad or style.name == "grad")


def fault(style: Style, row: Row) -> str:
    """What is wrong with the proof of a style whose row in the scoreboard is known, or nothing."""
    try:
        proof = proof_of(style)
    except ValueError as error:
        refused = row.verdict == "said" and "." in str(error)  # the probe's own sentence
        return "" if refused else f"raises {error}"
    if row.verdict == "said":
        return "is proved, and not shown" if proof.holds else ""
    if row.verdict != "ok" or style.name in UNTOLD:
        return f"is proved: {proof.laws}" if proof.holds else ""
    if style.attentions:
        told = f"is not proved: {proof.laws} {proof.kernels} {proof.untold}"
        return "" if proof.holds else told
    return "has laws and no attention" if proof.laws else ""
