"""What is known while one forward pass is captured: the lineage, the result so far, the places."""

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

Handlers = Mapping[Any, Callable[..., Any]]  # torch function -> what is done when it is called


class CaptureState:
    """What the handlers share during one pass; it lives in one thread and ends with the probe.

    ``capture`` is all that outlives it. ``used`` collects the edits that found their place,
    ``open`` the modules whose softmax met no values yet; ``undivided`` the attentions whose
    product is still to be divided by the sum of their weights, and that sum; ``outside`` counts
    softmaxes that no module of the model ran; ``unconfirmed`` the paths of edited softmaxes that
    met no values yet; ``offset`` is the absolute position of the first query of the last
    self-attention, ``asked`` the last two attentions with their queries and keys, ``signs`` what
    stands for their weights, ``powers`` what makes these, ``layers`` the layer that each stack has
    reached, ``giving`` what other runs lend to this one, ``running`` the hand-written norm that
    runs now, ``shapes_scores`` whether any edit needs scores.
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
        """What is to be kept."""
        return self.capture.request

    def shows_bias(self, record: AttentionRecord) -> bool:
        """Whether a relative bias is kept: as large as the maps, it is not where they are large."""
        return self.request.positions and (
            not self.request.tiled or fits(record.heads, *record.shape)
        )

    def small_bias(self, whole: Tensor, bias: Tensor, visible: Tensor | None) -> Small | None:
        """A bias ``[head or 1, query or 1, key]`` in little space; ``whole`` is the tensor that it
        is of, which layers may share.

        Raises:
            ValueError: there is no little space for it.
        """
        known = self.biases.get(id(whole))
        if known is None:
            known = self.biases[id(whole)] = whole, small(bias.detach(), visible)
        return known[1]

    def say_unrecognised(self, sentence: str) -> None:
        """Add a sentence to what looked like attention and is not shown, once."""
        if sentence not in self.capture.unrecognised:
            self.capture.unrecognised.append(sentence)

    def call(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """Make a torch call as it is and pass the marks on: for calls that need no special care."""
        return self.lineage.follow(func(*args, **kwargs), func, args, kwargs)

    def forget(self) -> None:
        """Leave no mark on any tensor, and keep no frame of the model alive."""
        self.lineage.forget()
        self.running = None
        self.asked.clear()
        self.signs.clear()
        self.biases.clear()
        self.powers.clear()
