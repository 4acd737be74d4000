"""Reading on without reading again: when a decoder may keep the keys and values of its tokens.

Only where that gives the same numbers. A module is asked once, on a few tokens, both ways; edits
under which an earlier row changes as later tokens come are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ...checkpoints.common.model import Model, Reader
from ...core.errors import is_card_full
from ...core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    ShufflePositions,
    Temperature,
    UniformHead,
    Window,
)
from ...model import Transformer

CLOSE = 1e-4  # of the largest logit: float32 sums in another order; a wrong cache is far off
TRIED = 4  # tokens that are read both ways

#: What a cache raises that holds no more, or was not made for this; not what an edit refuses.
FAILURES = (RuntimeError, LookupError, TypeError, AttributeError, AssertionError)

#: Edits under which the rows of earlier tokens stay as they were, whatever follows.
STEADY = (
    *(Temperature, ScaleHead, UniformHead, Window, BlockKeys, BlockEdges, Pad, ScalePositions),
)
#: Edits that change earlier rows of a decoder, but of the encoder nothing that is read again.
OF_ENCODERS = (Causal, ScaleResidual, ShufflePositions)
_EQUAL: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
_SHOWN: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def may_keep(intervention: Intervention | None) -> bool:
    """Whether keys and values of earlier tokens stay right under these edits."""
    return all(
        isinstance(edit, STEADY) or (isinstance(edit, OF_ENCODERS) and edit.stack == "encoder")
        for edit in intervention or ()
    )


def reads_on(model: Model, source: list[int] | Tensor) -> bool:
    """Whether this model, read token by token, gives what it gives for a whole text.

    ``source``, ids or the features of a sound, is what is tried when the model is asked first.
    False too where the model keeps nothing, or cannot be read on.
    """
    calls = model.calls
    twofold = calls.encode is not None and calls.decode is not None
    if calls.reader is None or not (twofold or model.kind == "decoder-only"):
        return False
    known = _EQUAL.get(model.module)
    if known is None:
        try:
            with torch.no_grad():
                known = _tried(model, source)
        except Exception:  # whatever a stranger's module raises here, it is decoded without a cache
            known = False
        _EQUAL[model.module] = known
    return known


def known_to_read_on(model: Model) -> bool:
    """Whether the cache is that of the reference Transformer, which tests hold to its one pass."""
    return isinstance(model.module, Transformer)


def forget(model: Model) -> None:
    """From now on this model is decoded without a cache: a longer text showed a difference."""
    _EQUAL[model.module] = False


def shows_steps(model: Model) -> bool:
    """Whether what is seen of a step with the cache is what a pass over the whole text shows.

    True until `forget_steps` was told otherwise.
    """
    return _SHOWN.get(model.module, True)


def forget_steps(model: Model) -> None:
    """From now on steps of this model are watched without a cache."""
    _SHOWN[model.module] = False


class CacheError(RuntimeError):
    """A cache that served for a while has failed; the text can be read without one."""


def _tried(model: Model, source: list[int] | Tensor) -> bool:
    """Two texts that part after their second token, each step both ways."""
    calls = model.calls
    assert calls.reader is not None
    memory: Tensor | None = None
    heard = isinstance(source, Tensor)
    ids = torch.tensor([[model.bos_id or 0] if heard else source[:TRIED]], device=model.device)
    if model.kind != "decoder-only":
        assert calls.encode is not None
        memory = calls.encode(source if heard else ids, None)
        ids = ids.new_full((1, 1), model.bos_id or 0)
    reader = calls.reader(memory, None)
    logits = reader.read(ids)
    for step in range(TRIED):
        if not _close(logits, _whole(model, ids, memory)):
            return False
        if step == 1:
            twice = ids.new_zeros(2)
            reader.select(twice)
            ids, logits = ids[twice], logits[twice]
            memory = None if memory is None else memory[twice]
        last = logits[:, -1]
        following = _but(model.pad_id, last, -torch.inf).argmax(-1, keepdim=True)
        # a text that nobody would write is as good a test, but for the padding's id: it is hidden
        following[-1] = _but(model.pad_id, last[-1], torch.inf).argmin(-1)
        ids = torch.cat((ids, following), dim=1)
        logits = reader.read(following)
    return _close(logits, _whole(model, ids, memory))


def _but(token: int | None, logits: Tensor, value: float) -> Tensor:
    """Logits ``[..., vocabulary]`` with another value for one token."""
    if token is None or token >= logits.shape[-1]:
        return logits
    return logits.index_fill(-1, torch.tensor([token], device=logits.device), value)


def _whole(model: Model, ids: Tensor, memory: Tensor | None) -> Tensor:
    """Logits ``[row, 1, vocabulary]`` of the last token, from one pass over the whole text."""
    if memory is None:
        return model.calls.forward(ids, None, None)[:, -1:]
    assert model.calls.decode is not None
    return model.calls.decode(ids, memory, None)[:, -1:]


def _close(one: Tensor, other: Tensor) -> bool:
    one, other = one.float(), other.float()
    scale = max(1.0, float(other.abs().max()))
    return one.shape == other.shape and float((one - other).abs().max()) <= CLOSE * scale


class ReadOn:
    """The rows of a search in a reader, found again by what they have read.

    ``owners`` and ``prefixes`` of a call name rows; each goes on from the row of the last call that
    had read all but its last token.
    """

    def __init__(self, reader: Reader, starts: Sequence[Sequence[int | None]], device: str):
        self.reader, self.starts, self.device = reader, starts, device
        self.rows: dict[tuple[int, tuple[int, ...]], int] = {}

    def logits(self, owners: list[int], prefixes: list[tuple[int, ...]]) -> Tensor:
        """Logits ``[row, 1, vocabulary]`` of what follows each text.

        Raises:
            CacheError: the cache failed.
        """
        if not self.rows:
            given: list[Any] = [self.starts[own] for own in owners]
        else:
            came = [self.rows[own, ids[:-1]] for own, ids in zip(owners, prefixes, strict=True)]
            if came != list(range(len(self.rows))):
                self._call(self.reader.select, came)
            given = [ids[-1:] for ids in prefixes]
        keys = zip(owners, prefixes, strict=True)
        self.rows = {(own, tuple(ids)): row for row, (own, ids) in enumerate(keys)}
        return self._call(self.reader.read, given)

    def _call(self, act: Callable[[Tensor], Any], given: list[Any]) -> Any:
        try:
            return act(torch.tensor(given, device=self.device))
        except FAILURES as error:
            if is_card_full(error):
                raise
            raise CacheError(str(error)) from error
