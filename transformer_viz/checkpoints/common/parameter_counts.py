"""Parameter counts of a model by embedding, block of each layer, and output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .model import Model

#: Patterns of the block names of a layer in weight names, tried in this order.
IN_LAYERS = (
    ("norms", r"norm|(^|\.)(ln|layernorm)_?\w*(\.|$)|\.a_2$|\.b_2$"),
    ("cross", r"cross|enc_att|encoder_att|encdecatt|multihead_att|src_attn|context_attn|inter_att"),
    ("self", r"att"),
    ("feed-forward", r"feed|ffn|mlp|fc\d?|linear\d|intermediate|output|dense|w_[12]|expert|gate"),
)
OUTSIDE = (
    ("norms", r"norm|(^|\.)ln_?\w*(\.|$)"),
    ("embedding", r"emb|shared|wte|wpe|patch|token|(^|\.)pos|pe$|wave"),
    ("output", r"head|output|generator|classifier|project|prj|logit|cls|pooler|dense|(^|\.)linear"),
)


@dataclass(frozen=True)
class Block:
    """Parameters of one block: ``stack`` and ``layer`` are None outside of the layers.

    ``block`` is ``embedding``, ``self``, ``cross``, ``feed-forward``, ``norms``, ``output`` or
    ``other``. ``names`` are the module's parameter names, ``count`` the sum of their sizes.
    """

    stack: str | None
    layer: int | None
    block: str
    names: tuple[str, ...]
    count: int

    @property
    def label(self) -> str:
        """``encoder L0 self``, or the block alone."""
        if self.layer is None:
            return self.block
        return f"{self.stack} L{self.layer} {self.block}"


def parameter_blocks(model: Model) -> tuple[Block, ...]:
    """Return every learned parameter once, in the order of the forward pass.

    Shared tables count once, at their first use, so that the counts sum to `Model.parameters`.
    """
    sizes: dict[tuple[str | None, int | None, str], int] = {}
    names: dict[tuple[str | None, int | None, str], list[str]] = {}
    for name, parameter in model.module.named_parameters():
        place = _place(name, model.kind)
        sizes[place] = sizes.get(place, 0) + parameter.numel()
        names.setdefault(place, []).append(name)
    return tuple(
        Block(*place, tuple(names[place]), sizes[place]) for place in sorted(sizes, key=_order)
    )


def _place(name: str, kind: str) -> tuple[str | None, int | None, str]:
    """Return stack, layer and block of a parameter, from its name."""
    number = re.search(r"(?:^|\.)(\d+)\.", name)
    if number is None or re.search(r"emb|head|classifier|generator", name[: number.start()]):
        return None, None, _block(name.lower(), OUTSIDE)
    before, inside = name[: number.start()].lower(), name[number.end() :].lower()
    default = "decoder" if kind == "decoder-only" else "encoder"
    stack = "decoder" if "decoder" in before else "encoder" if "encoder" in before else default
    return stack, int(number[1]), _block(inside, IN_LAYERS)


def _block(name: str, table: tuple[tuple[str, str], ...]) -> str:
    return next((block for block, pattern in table if re.search(pattern, name)), "other")


def _order(place: tuple[str | None, int | None, str]) -> tuple[int, int, int]:
    """Return the sort key: embedding, encoder, decoder, then the blocks after the layers."""
    stack, layer, block = place
    if stack is None or layer is None:
        outside = ["embedding", "norms", "output", "other"].index(block)
        return (0, 0, 0) if block == "embedding" else (3, 0, outside)
    inside = ["self", "cross", "feed-forward", "norms", "other"].index(block)
    return 1 if stack == "encoder" else 2, layer, inside
