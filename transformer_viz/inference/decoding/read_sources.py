"""Cache of encoder outputs, so that no source is encoded twice.

Moving a slider requests one sentence many times, and most edits act in the decoder only. Only for
the reference Transformer, whose encoder does not depend on the target, and while its weights do not
change. The caller owns the cache; there is no global one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import Tensor

from ...capture import Capture, CaptureRequest
from ...capture.module_names import Names
from ...checkpoints.common.model import Calls, Model
from ...checkpoints.common.native import NativeReader
from ...core.apply_edits import matching
from ...core.interventions import Edit, Intervention
from ...core.sites import Site
from ...model import Transformer
from .watched_calls import watched_call

LIMIT = 32_000_000  # bytes of stored tensors
OfMemory = Sequence[tuple[Tensor | None, Tensor]]
SMALL = 2_000  # bytes of overhead per reading, beside its tensors


class ReadSources:
    """Cache of encoder outputs for the latest sources, up to ``limit`` bytes.

    Thread-safe; two simultaneous requests for the same source may both encode it.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.size = limit, 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._names: WeakKeyDictionary[Model, Names] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key; call ``make`` if it is missing."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()
        size = SMALL + sum(tensor.nbytes for tensor in set(_tensors(made)))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made, size
                self.size += size
            while self.size > self.limit and self._kept:
                self.size -= self._kept.popitem(last=False)[1][1]
        return made

    def names(self, model: Model) -> Names:
        """Return the modules and tensors of a model, read once and dropped with the model."""
        with self._lock:
            if model not in self._names:
                self._names[model] = Names(model.module)
            return self._names[model]

    def states(self, model: Model, source: Tensor, mask: Tensor | None) -> Tensor:
        """Return encoder states ``[1, token, d_model]`` of ids ``[1, token]``, without edits."""
        encode = model.calls.encode
        assert encode is not None
        key = ("states", ref(model), *_key(source, mask))
        made: Tensor = self.get(key, lambda: encode(source, mask))
        return made

    def of_memory(self, model: Model, source: Tensor, reader: NativeReader) -> OfMemory:
        """Return the states' keys and values in each layer, which decoder edits do not change."""
        made: OfMemory = self.get(
            ("keys", ref(model), *_key(source, reader.mask)), reader.of_memory
        )
        return made


def _key(source: Tensor, mask: Tensor | None) -> tuple[Hashable, ...]:
    seen = None if mask is None else tuple(mask[0].tolist())
    return tuple(source[0].tolist()), seen


def _tensors(made: Any) -> Iterable[Tensor]:
    """Yield all tensors nested in plain containers and dataclasses."""
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, dict):
        for item in made.values():
            yield from _tensors(item)
    elif isinstance(made, list | tuple):
        for item in made:
            yield from _tensors(item)
    elif is_dataclass(made) and not isinstance(made, type):
        for one in fields(made):
            yield from _tensors(getattr(made, one.name))


def all_after_encoder(
    model: Model, intervention: Intervention | None, sites: Sequence[Site]
) -> bool:
    """Return True if each edit matches decoder attentions (``sites``) and no encoder attention.

    Then no probe is needed to know that all edits take effect.
    """
    heads = model.size("heads")
    before = [Site("encoder", "self", layer) for layer in range(model.size("encoder_layers"))]

    def met(edit: Edit, places: Sequence[Site]) -> bool:
        one = Intervention((edit,))
        return any(matching(one, place, heads, 0) for place in places)

    edits = (intervention or Intervention()).of_the_pass()
    return all(met(edit, sites) and not met(edit, before) for edit in edits)


def sites_of(layers: int, cross: bool) -> list[Site]:
    """Return the attentions of a decoder, in execution order."""
    kinds = ("self", "cross") if cross else ("self",)
    return [Site("decoder", kind, layer) for layer in range(layers) for kind in kinds]


def may_read_apart(model: Model, source: Tensor, intervention: Intervention) -> bool:
    """Return True if a captured run may reuse encoder outputs and give the same trace."""
    module = model.module
    twofold = type(module) is Transformer and model.kind == "encoder-decoder"
    if not twofold or source.is_floating_point() or len(source) != 1:
        return False
    sites = sites_of(model.size("decoder_layers"), cross=True)
    return all_after_encoder(model, intervention, sites)


def watched(
    model: Model,
    tensors: tuple[Tensor, Tensor | None, Tensor | None],
    intervention: Intervention,
    request: CaptureRequest,
    asked: Hashable,
    known: ReadSources,
) -> tuple[Capture, Tensor]:
    """Capture a run whose encoder runs once per source.

    Returns the capture of both stacks, and logits ``[1, target token, vocabulary]``.

    Args:
        model: Model to run.
        tensors: Ids of source and target, and the source's mask.
        intervention: Edits of the decoder only (`may_read_apart`).
        request: Parts to capture.
        asked: Cache key for all that ``request`` depends on.
        known: Cache of encoder outputs.
    """
    source, target, given = tensors
    # a module masks its padding id by itself
    mask = source.ne(model.config["pad_id"]) if given is None else given

    def names() -> Names:
        return known.names(model)

    def encode(calls: Calls) -> Tensor:
        assert calls.encode is not None
        states: Tensor = calls.encode(source, mask)
        return states

    def decode(calls: Calls) -> Tensor:
        assert calls.decode is not None and target is not None
        return calls.decode(target, states, mask)

    def read() -> tuple[Capture, Tensor]:
        return watched_call(model, encode, Intervention(), request, names=names)

    before, states = known.get(("watched", ref(model), *_key(source, mask), asked), read)
    seen, output = watched_call(model, decode, intervention, request, names=names)
    return joined(before, seen), output


def joined(before: Capture, after: Capture) -> Capture:
    """Return the captures of two passes as one; neither is changed."""
    return replace(
        after,
        attentions=[*before.attentions, *after.attentions],
        norms=[*before.norms, *after.norms],
        residuals=[*before.residuals, *after.residuals],
        sums=[*before.sums, *after.sums],
        positions={**before.positions, **after.positions},
        streams={**before.streams, **after.streams},
        replaced=[*before.replaced, *after.replaced],
        unrecognised=[*before.unrecognised, *after.unrecognised],
        others={**before.others, **after.others},
    )
