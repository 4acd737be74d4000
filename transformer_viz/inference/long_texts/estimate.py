"""Memory estimate of a run, before it starts."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence

import torch

from ...checkpoints.common.longer import goes_on
from ...checkpoints.common.model import Model
from ...core.sites import Site
from ...core.tiles import LONG
from ...model import Transformer
from ..model_inputs import Read

PROOF = 1  # copies of all maps at the peak of a proof: their scores
BATCH = 24  # copies of one layer's maps in its exchanged texts (measured at 1,000 tokens)
OUTPUTS = 3  # copies of the logits at the peak of a run
WRITTEN = 4  # copies of one layer's maps if the model builds them itself
MAX_MEMORY_SHARE = 0.5  # share of the machine's memory that a run may use
CARD_SHARE = 0.9  # share of a GPU's free memory
MATRICES = ("weights", "scores", "qkv", "gradients")  # each is kept beside the weights
FUSED = ("sdpa", "flash", "flex")  # prefixes of Transformers' names for fused attention


def needed(
    model: Model, read: Read, words: tuple[str, ...], only: Sequence[Site] | None, check: bool
) -> int:
    """Return the approximate bytes of a run, without its model."""
    return taken(model, len(read.source), len(read.target or ()), words, only, check)


def taken(
    model: Model,
    source: int,
    target: int,
    words: tuple[str, ...],
    only: Sequence[Site] | None = None,
    check: bool = False,
) -> int:
    """Return the estimate of `needed` for these numbers of source and target tokens."""
    rows = max(source, target)
    encoder, decoder = (int(model.config.get(f"{s}_layers") or 0) for s in ("encoder", "decoder"))
    heads, width = (int(model.config.get(name) or 0) for name in ("heads", "d_model"))
    kinds = len(set(MATRICES) & set(words)) + PROOF * check
    proof = BATCH * rows**2 * heads * 4 * check
    cells = encoder * source**2 + decoder * (target * (source + target) or source**2)
    if only is not None and not check:
        cells = len(only) * rows**2
    bytes_ = cells * heads * 4 * kinds + proof
    if "tiles" in words:
        layers = encoder + decoder * (2 if target else 1) if only is None else len(only)
        bytes_ += layers * rows * (2 * width * 4 + heads * 8)
    if rows > LONG and writes_maps(model):
        bytes_ += WRITTEN * rows**2 * heads * 4
    return bytes_


def room(model: Model, most: int, words: tuple[str, ...] = ("tiles",)) -> int:
    """Return the number of tokens, up to ``most``, that a text of a one-stack model may have.

    Limits are the model's positions and the memory, output included.
    """
    positions = model.max_tokens
    reach = most if positions is None or goes_on(model) else min(most, positions)
    outputs = (
        OUTPUTS * 4 * max(model.size("target_vocab"), int(model.config.get("vocab_size") or 0))
    )

    most_bytes, _ = may_take(model)

    def fits(tokens: int) -> bool:
        bytes_ = taken(model, tokens, 0, words) + tokens * outputs
        return bytes_ <= most_bytes

    return bisect_left(range(reach), True, key=lambda n: not fits(n + 1))


def writes_maps(model: Model) -> bool:
    """Return True if a model is known to build full attention maps, whatever is captured."""
    config = getattr(model.module, "config", None)
    way = getattr(config, "_attn_implementation", None)
    if isinstance(way, str):
        return not way.startswith(FUSED)
    return isinstance(model.module, Transformer)


def proof_too_large(
    model: Model, read: Read, words: tuple[str, ...], only: Sequence[Site] | None
) -> str:
    """Return the reason to skip the proof of a run; empty if memory suffices for both."""
    most, has = may_take(model)
    kept, asked = (needed(model, read, words, only, check) for check in (False, True))
    if asked <= most or kept > most:  # skipping the proof would not help
        return ""
    return (
        f"The proof was left out: beside {kept / 1e9:,.1f} GB of maps it would take about "
        f"{(asked - kept) / 1e9:,.0f} GB, {has}. Give a shorter input to have "
        "it."
    )


def refuse_flood(
    model: Model, read: Read, words: tuple[str, ...], only: Sequence[Site] | None, check: bool
) -> None:
    """Raise before a run that would exceed the memory.

    Raises:
        ValueError: The run needs too much memory; names the amount and alternatives.
    """
    asked, (most, has) = needed(model, read, words, only, check), may_take(model)
    if asked <= most:
        return
    rows = max(len(read.source), len(read.target or ()))
    told = f"about {asked / 1e9:,.0f} GB of maps for {rows:,} tokens"
    if needed(model, read, (), only, False) > most:
        raise ValueError(
            f"This model builds the maps of a layer in full: {told}, {has}. Give a shorter input, "
            "or load it with fused attention where it has that."
        )
    less = "" if "tiles" in words else 'keep=("tiles",), '
    raise ValueError(
        f"This run would keep {told}, {has}. Give a shorter input, or keep less: {less}check=False "
        "and only= with a few sites."
    )


def may_take(model: Model) -> tuple[float, str]:
    """Return the bytes that a run may use, and a description of the limit."""
    most = MAX_MEMORY_SHARE * memory(), f"and the machine has {memory() / 1e9:,.0f}"
    if not model.device.startswith("cuda"):
        return most
    left = card_left(model.device)
    return min(most, (CARD_SHARE * left, f"and its graphics card has {left / 1e9:,.1f} left"))


def card_left(device: str) -> int:
    """Return the free bytes of a GPU, including those cached by torch."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def memory() -> int:
    """Return the bytes of memory of this machine; 2**60 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return 2**60
