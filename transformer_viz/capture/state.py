"""State of one captured forward pass: the lineage, the result so far, the sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.apply_edits import SCORE_EDITS
from ..core.interventions import Edit, Intervention
from .donations import Donation, Giving
from .lineage import Lineage
from .module_names import Names
from .records import AttentionRecord, Capture, CaptureRequest
from .site_numbering import Numbering
from .tiles.bias import Small, small
from .tiles.factors import fits
from .torch_calls import Args, Kwargs

Handlers = Mapping[Any, Callable[..., Any]]  # torch function -> its handler


class CaptureState:
    """State shared by the handlers during one pass, in one thread; only ``capture`` outlives it.

    Attributes:
        used: Edits that were applied.
        open: Modules whose softmax met no values yet.
        undivided: Attentions whose product is still to be divided by the sum of weights, and that
            sum.
        outside: Number of softmaxes outside the model's modules.
        unconfirmed: Paths of edited softmaxes that met no values yet.
        offset: Absolute position of the first query of the last self-attention.
        asked: Last two attentions with their queries and keys; ``signs`` are fingerprints of
            their weights, ``powers`` the vectors for these.
        layers: Current layer of each stack.
        giving: Patches from other runs.
        running: Hand-written norm that runs now.
        shapes_scores: True if an edit needs scores.
    """

    def __init__(
        self,
        names: Names,
        intervention: Intervention,
        request: CaptureRequest,
        handlers: Handlers,
        donations: Sequence[Donation] = (),
    ):
        self.handlers, self.intervention = handlers, intervention
        self.capture = Capture(request)
        self.names = names
        self.lineage = Lineage(self.names)
        self.numbering = Numbering(request.stack)
        self.shapes_scores = any(isinstance(edit, SCORE_EDITS) for edit in intervention)
        self.used: set[Edit] = set()
        self.giving = Giving(tuple(donations))
        self.open: dict[str, None] = {}
        self.undivided: dict[int, tuple[AttentionRecord, Tensor]] = {}
        self.offset = 0
        self.signs: dict[int, Any] = {}
        self.asked: list[tuple[AttentionRecord, tuple[Tensor | None, Tensor | None]]] = []
        self.outside = 0
        self.unconfirmed: dict[int, str] = {}
        self.layers: dict[str, int] = {}
        self.running: Any = None
        self.biases: dict[int, tuple[Tensor, Small | None]] = {}
        self.powers: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    @property
    def request(self) -> CaptureRequest:
        """Request of the probe."""
        return self.capture.request

    def shows_bias(self, record: AttentionRecord) -> bool:
        """Return True if a relative bias is kept: it is as large as the maps, so not for large
        ones.
        """
        return self.request.positions and (
            not self.request.tiled or fits(record.heads, *record.shape)
        )

    def small_bias(self, whole: Tensor, bias: Tensor, visible: Tensor | None) -> Small | None:
        """Return a bias ``[head or 1, query or 1, key]`` in compact form.

        ``whole`` is its full tensor, which layers may share.

        Raises:
            ValueError: It has no compact form.
        """
        known = self.biases.get(id(whole))
        if known is None:
            known = self.biases[id(whole)] = whole, small(bias.detach(), visible)
        return known[1]

    def say_unrecognised(self, sentence: str) -> None:
        """Add a sentence on an apparent attention that is not recorded, once."""
        if sentence not in self.capture.unrecognised:
            self.capture.unrecognised.append(sentence)

    def call(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """Run a torch call unchanged and propagate the marks, for calls without a handler."""
        return self.lineage.follow(func(*args, **kwargs), func, args, kwargs)

    def forget(self) -> None:
        """Remove all marks from tensors, and release all frames of the model."""
        self.lineage.forget()
        self.running = None
        self.asked.clear()
        self.signs.clear()
        self.biases.clear()
        self.powers.clear()
