"""Plan of the call of a module's forward: roles of its inputs, and arrangement of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .mask_forms import FULL, Form
from .outputs import arrange, first_tensor

SOURCE, TARGET, MASK, OTHER = "source", "target", "mask", "other"


def lengths(text: Tensor, visible: Tensor) -> Tensor:
    """Return the number of visible tokens of each text."""
    return visible.sum(1)


@dataclass(frozen=True)
class Input:
    """Input of a forward, and its role.

    ``rows`` and ``keys`` name the texts of a mask's queries and keys. ``make`` returns the value of
    any other input from a text ``[batch, token]`` and its visibility.
    """

    name: str
    role: str
    rows: str = SOURCE
    keys: str = SOURCE
    form: Form | None = None
    make: Callable[[Tensor, Tensor], Any] | None = None

    @property
    def full(self) -> bool:
        """True if it is a mask with an axis of queries."""
        return self.form is not None and self.form.axes in FULL


@dataclass(frozen=True)
class Plan:
    """Plan of the call of a module.

    Attributes:
        inputs: Given inputs, in the order of the forward's signature.
        names: All names of the signature.
        hiding: Optional masks of the source, given only if a token is hidden.
        tokens_first: True if texts are ``[token, batch]``.
        arrangement: Arrangement of the output, see `outputs.arrangement_of`.
        causal: True if a lone stack gets causal masks.
        ending: Part of the module that turns the states of its forward into logits.
    """

    inputs: tuple[Input, ...]
    names: tuple[str, ...] = ()
    hiding: tuple[Input, ...] = ()
    tokens_first: bool = False
    arrangement: str = ""
    causal: bool = False
    ending: str = ""

    @property
    def twofold(self) -> bool:
        """True if it takes a target."""
        return any(one.role == TARGET for one in self.inputs)

    @property
    def hides(self) -> bool:
        """True if it takes a mask of the source."""
        return any(one.role == MASK and one.keys == SOURCE for one in (*self.inputs, *self.hiding))

    @property
    def counts(self) -> bool:
        """True if it takes the number of visible source tokens."""
        return any(one.keys == SOURCE and one.make is lengths for one in self.inputs)

    def raw(
        self,
        module: nn.Module,
        source: Tensor,
        target: Tensor | None = None,
        visible: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Return the module's output unchanged.

        Args:
            module: The module.
            source: Ids ``[batch, token]``, or vectors.
            target: Likewise.
            visible: Visibility of source tokens ``[batch, token]``.
            seen: The same for the target.
        """
        texts = {SOURCE: source, TARGET: target}
        shown = {SOURCE: visible, TARGET: seen}
        dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
        asked = () if visible is None else self.hiding
        values: dict[str, Any] = {}
        for one in (*self.inputs, *asked):
            if one.role == MASK:
                if texts[one.rows] is None or texts[one.keys] is None:
                    continue
                values[one.name] = self._mask(one, texts, shown, dtype)
            elif one.role == OTHER:
                text = texts[one.keys]
                if text is None:
                    continue
                every = _every(text)
                hidden = shown[one.keys]
                assert one.make is not None
                values[one.name] = one.make(text, every if hidden is None else hidden)
            else:
                text = texts[one.role]
                if text is not None:
                    values[one.name] = text.transpose(0, 1) if self.tokens_first else text
        return first_tensor(module(*self._placed(values), **values))

    def run(
        self,
        module: nn.Module,
        source: Tensor,
        target: Tensor | None = None,
        visible: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Return the output as ``[batch, token, ...]`` or ``[batch, class]``."""
        output = self.raw(module, source, target, visible, seen)
        output = arrange(output, self.arrangement, source.shape[0])
        return module.get_submodule(self.ending)(output) if self.ending else output

    def _placed(self, values: dict[str, Any]) -> list[Any]:
        """Remove and return the values passed by position: those before the first gap."""
        placed = []
        for name in self.names:
            if name not in values:
                break
            placed.append(values.pop(name))
        return placed

    def _mask(
        self,
        one: Input,
        texts: dict[str, Tensor | None],
        shown: dict[str, Tensor | None],
        dtype: torch.dtype,
    ) -> Tensor:
        rows, keys = texts[one.rows], texts[one.keys]
        assert one.form is not None and rows is not None and keys is not None
        every, hidden = _every(keys), shown[one.keys]
        if one.form.axes == "query, key" and hidden is not None and self._elsewhere(one):
            hidden = None
        keep = (every if hidden is None else hidden)[:, None].expand(-1, rows.shape[1], -1)
        if one.form.axes == "query, key" and bool((keep != keep[:1]).any()):
            raise ValueError(
                f"The mask {one.name!r} is one for all texts of a batch, and these hide different "
                "tokens; give one text at a time."
            )
        if one.rows == one.keys and one.full and (self.causal or one.rows == TARGET):
            keep = keep & torch.ones_like(keep[0]).tril()
        return one.form.build(keep, dtype)

    def _elsewhere(self, one: Input) -> bool:
        """Return True if another mask of the same keys can hide tokens of each text."""
        masks = (other for other in (*self.inputs, *self.hiding) if other.role == MASK)
        return any(
            other.keys == one.keys and other.form is not None and other.form.axes != "query, key"
            for other in masks
        )


def _every(text: Tensor) -> Tensor:
    return torch.ones(text.shape[:2], dtype=torch.bool, device=text.device)
