"""Incremental decoding with a key-value cache, where it gives the same numbers.

A module is tested once on a few tokens, with and without the cache. Edits under which earlier rows
change as tokens are appended are not cached.
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
from .progress import Progress

CLOSE = 1e-4  # relative to the largest logit; above float32 rounding
TRIED = 4  # tokens read with and without the cache

#: Errors of a cache that is full or unsuited; other errors come from edits.
FAILURES = (RuntimeError, LookupError, TypeError, AttributeError, AssertionError)

#: Edits that never change the rows of earlier tokens.
STEADY = (
    *(Temperature, ScaleHead, UniformHead, Window, BlockKeys, BlockEdges, Pad, ScalePositions),
)
#: Edits that change earlier rows of a decoder, but no encoder states that are read again.
OF_ENCODERS = (Causal, ScaleResidual, ShufflePositions)
_EQUAL: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
_SHOWN: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def may_keep(intervention: Intervention | None) -> bool:
    """Return True if keys and values of earlier tokens stay valid under these edits."""
    return all(
        isinstance(edit, STEADY) or (isinstance(edit, OF_ENCODERS) and edit.stack == "encoder")
        for edit in intervention or ()
    )


def reads_on(
    model: Model, source: list[int] | Tensor, on_pass: Callable[[], None] | None = None
) -> bool:
    """Return True if reading token by token gives this model's results for the whole text.

    False if the model has no cache or cannot be decoded incrementally.

    Args:
        model: Model to test.
        source: Ids, or features of a sound, for the first test of the model.
        on_pass: Called before each pass of the test; its exceptions propagate and leave the result
            open.
    """
    calls = model.calls
    twofold = calls.encode is not None and calls.decode is not None
    if calls.reader is None or not (twofold or model.kind == "decoder-only"):
        return False
    known, step = _EQUAL.get(model.module), Progress(on_pass)
    if known is None:
        try:
            with torch.no_grad():
                known = _tried(model, source, step)
        except Exception:  # an unknown module may raise anything here; then decode without a cache
            if step.error is not None:
                raise
            known = False
        _EQUAL[model.module] = known
    return known


def known_to_read_on(model: Model) -> bool:
    """Return True for the reference Transformer, whose cache is covered by tests."""
    return isinstance(model.module, Transformer)


def forget(model: Model) -> None:
    """Disable the cache for this model, after a longer text showed a difference."""
    _EQUAL[model.module] = False


def shows_steps(model: Model) -> bool:
    """Return True if a captured step with the cache shows the same as a whole pass.

    True until `forget_steps` is called.
    """
    return _SHOWN.get(model.module, True)


def forget_steps(model: Model) -> None:
    """Capture further steps of this model without a cache."""
    _SHOWN[model.module] = False


class CacheError(RuntimeError):
    """Failure of a cache that worked before; the text can be decoded without one."""


def _tried(model: Model, source: list[int] | Tensor, on_pass: Callable[[], None]) -> bool:
    """Compare both ways on two texts that diverge after their second token, at each step."""
    calls = model.calls
    on_pass()
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
        on_pass()
        if not _close(logits, _whole(model, ids, memory)):
            return False
        if step == 1:
            twice = ids.new_zeros(2)
            reader.select(twice)
            ids, logits = ids[twice], logits[twice]
            memory = None if memory is None else memory[twice]
        last = logits[:, -1]
        following = _but(model.pad_id, last, -torch.inf).argmax(-1, keepdim=True)
        # the least likely token is as good a test, except the padding id, which is masked
        following[-1] = _but(model.pad_id, last[-1], torch.inf).argmin(-1)
        ids = torch.cat((ids, following), dim=1)
        on_pass()
        logits = reader.read(following)
    on_pass()
    return _close(logits, _whole(model, ids, memory))


def _but(token: int | None, logits: Tensor, value: float) -> Tensor:
    """Return logits ``[..., vocabulary]`` with another value for one token."""
    if token is None or token >= logits.shape[-1]:
        return logits
    return logits.index_fill(-1, torch.tensor([token], device=logits.device), value)


def _whole(model: Model, ids: Tensor, memory: Tensor | None) -> Tensor:
    """Return logits ``[row, 1, vocabulary]`` of the last token, from one full pass."""
    if memory is None:
        return model.calls.forward(ids, None, None)[:, -1:]
    assert model.calls.decode is not None
    return model.calls.decode(ids, memory, None)[:, -1:]


def _close(one: Tensor, other: Tensor) -> bool:
    one, other = one.float(), other.float()
    scale = max(1.0, float(other.abs().max()))
    return one.shape == other.shape and float((one - other).abs().max()) <= CLOSE * scale


class ReadOn:
    """Rows of a search in a reader, identified by the tokens they have read.

    ``owners`` and ``prefixes`` of a call name rows. Each continues the row of the last call that
    had read all but its last token.
    """

    def __init__(self, reader: Reader, starts: Sequence[Sequence[int | None]], device: str):
        self.reader, self.starts, self.device = reader, starts, device
        self.rows: dict[tuple[int, tuple[int, ...]], int] = {}

    def logits(self, owners: list[int], prefixes: list[tuple[int, ...]]) -> Tensor:
        """Return logits ``[row, 1, vocabulary]`` of the next token of each text.

        Raises:
            CacheError: The cache failed.
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
