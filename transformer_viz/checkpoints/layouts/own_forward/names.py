"""Roles suggested by the names of a forward's inputs; a trial run settles them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .mask_forms import FULL, KEYS, Form
from .plan import OTHER, SOURCE, TARGET, Input, lengths

MASKED = re.compile(r"mask|pad|visible|valid", re.I)
PADDED = re.compile(r"pad|attention_mask", re.I)
OF_TARGET = re.compile(
    r"tgt|trg|target|(^|_)dec(oder)?(_|$)|dst|(^|_)out(put)?s?(_|$)|^y(_|$)", re.I
)
OF_BOTH = re.compile(r"memory|cross|enc_dec|dec_enc|encoder_decoder|src_tgt|tgt_src", re.I)
LABELS = re.compile(r"label|^targets?$|^y$|gold", re.I)
#: Target argument in the transformers library and in code modelled on it.
TARGET_NAME = "decoder_input_ids"
SEGMENTS = re.compile(r"(token_)?type(_ids?)?$|seg(ment)?s?(_ids?|_info|_labels?)?$", re.I)
PLACES = re.compile(r"pos(ition)?s?(_ids?)?$", re.I)
LENGTHS = re.compile(r"(^|_)len(gth)?s?$", re.I)
STARTS = re.compile(r"start(_pos)?$|offset$|past_len(gth)?$|step$", re.I)
#: Values of masks by name: true if true means visible. Others are found by trial alone.
KNOWN = {
    "source_mask": True,
    "attention_mask": True,
    "src_key_padding_mask": False,
    "memory_key_padding_mask": False,
}


def zeros(text: Tensor, visible: Tensor) -> Tensor:
    """Return a 0 for each token."""
    return torch.zeros(text.shape[:2], dtype=torch.long, device=text.device)


def places(text: Tensor, visible: Tensor) -> Tensor:
    """Return the number of each token, from 0."""
    return torch.arange(text.shape[1], device=text.device).expand(text.shape[:2])


def nothing(text: Tensor, visible: Tensor) -> None:
    """Return None."""


def number(text: Tensor, visible: Tensor) -> int:
    """Return 0."""
    return 0


def no(text: Tensor, visible: Tensor) -> bool:
    """Return False."""
    return False


def itself(text: Tensor, visible: Tensor) -> Tensor:
    """Return the text."""
    return text


@dataclass(frozen=True)
class Signature:
    """Inputs of a forward: the first, other required ones, and optional ones."""

    source: Input
    needed: tuple[inspect.Parameter, ...]
    optional: tuple[inspect.Parameter, ...]
    placed: tuple[str, ...]

    def __str__(self) -> str:
        names = [self.source.name, *(p.name for p in self.needed)]
        return f"forward({', '.join(names)})"


def read_signature(module: nn.Module) -> Signature:
    """Return the signature of a module's forward."""
    given = list(inspect.signature(module.forward).parameters.values())
    star_layers = {p.kind for p in given}
    plain = [p for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not plain and inspect.Parameter.VAR_POSITIONAL in star_layers:
        return Signature(Input("0", SOURCE), (), (), ("0", "1"))
    if not plain:
        return Signature(Input("input_ids", SOURCE), (), (), ())
    first, *rest = plain
    return Signature(
        Input(first.name, SOURCE),
        tuple(p for p in rest if p.default is p.empty),
        tuple(p for p in rest if p.default is not p.empty),
        tuple(p.name for p in plain if p.kind != p.KEYWORD_ONLY),
    )


def side_of(name: str) -> tuple[str, str]:
    """Return the texts of a mask's rows and keys, by its name."""
    if OF_BOTH.search(name):
        return TARGET, SOURCE
    return (TARGET, TARGET) if OF_TARGET.search(name) else (SOURCE, SOURCE)


def axes_of(name: str, side: tuple[str, str], others: tuple[str, ...], causal: bool) -> list[str]:
    """Return the axes that a mask of this name may have, the likely ones first."""
    padded = any(PADDED.search(other) for other in others if side_of(other) == side)
    if PADDED.search(name):
        first = ["batch, key", "batch, 1, 1, key", "batch, 1, key"]
    elif padded:
        first = ["query, key"]
    elif side == (TARGET, TARGET) or causal:
        first = ["batch, query, key", "batch, 1, query, key", "query, key"]
    else:
        first = ["batch, 1, key", "batch, 1, 1, key", "batch, key"]
    every = (*KEYS, *FULL) if first[0] in KEYS else (*FULL, *KEYS)
    return [*first, *(axes for axes in every if axes not in first)]


def values_of(name: str) -> list[str]:
    """Return the values that a mask of this name may have, the likely ones first."""
    if name in ("attention_mask", "attn_mask"):
        first = ["ones", "visible"]
    elif re.search("pad", name, re.I):
        first = ["hidden", "visible", "ones"]
    else:
        first = ["visible", "ones", "hidden"]
    every = ("visible", "hidden", "ones", "additive", "float ones")
    return [*first, *(values for values in every if values not in first)]


def usual_form(name: str) -> Form:
    """Return the form of a mask with a known name, for masks that no trial settles."""
    return Form("batch, key", "visible" if KNOWN.get(name, True) else "hidden")


def beside(parameter: inspect.Parameter) -> Callable[[Tensor, Tensor], Any] | None:
    """Return the maker of an input that is neither text nor mask, by its name or type."""
    name = parameter.name
    kind = str(getattr(parameter.annotation, "__name__", parameter.annotation))
    if kind == "bool":
        return no
    if STARTS.search(name) or kind == "int":
        return number
    found = ((SEGMENTS, zeros), (PLACES, places), (LENGTHS, lengths))
    return next((make for pattern, make in found if pattern.search(name)), None)


def other(name: str, make: Callable[[Tensor, Tensor], Any]) -> Input:
    """Return an input that is neither a text nor a mask."""
    return Input(name, OTHER, keys=TARGET if OF_TARGET.search(name) else SOURCE, make=make)
