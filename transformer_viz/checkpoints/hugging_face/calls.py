"""Calls of a transformers model, and choice of the relevant output."""

from __future__ import annotations

import inspect
from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from ..common.eyes import Seen
from ..common.model import Calls
from .eyes import kinds_of
from .parts import sensed

TARGET = "decoder_input_ids"


def make_calls(module: Any, *, causal: bool = False, pad_id: int | None = None) -> Calls:
    """Return the calls of a model that reads ids, pictures or sounds; see :class:`Calls`.

    ``causal``: padding does not count as a position, as in the library's own generation. A decoder
    that classifies counts it, as the library does if nothing is generated.
    """
    names = inspect.signature(module.forward).parameters
    fixed = {"use_cache": False} if "use_cache" in names else {}
    sense = sensed(type(module))
    segmented = "token_type_ids" in names and getattr(module.config, "type_vocab_size", 2) > 1

    def visible(source: Tensor, mask: Tensor | None, seen: Seen | None = None) -> dict[str, Any]:
        if mask is None and pad_id is not None:
            mask = source != pad_id
        given: dict[str, Any] = {}
        if seen is not None:  # the model itself computes the positions on a picture
            given = seen.inputs(len(source)) | kinds_of(module, source, names)
        if mask is None or "attention_mask" not in names:
            return given
        given["attention_mask"] = mask.long()
        if seen is None and causal and "position_ids" in names and not bool(mask.all()):
            given["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)
        return given

    def read(source: Tensor) -> dict[str, Tensor]:
        return {sense: source.to(module.dtype)}

    def forward(
        source: Tensor,
        target: Tensor | None = None,
        source_mask: Tensor | None = None,
        segments: Tensor | None = None,
        seen: Seen | None = None,
    ) -> Tensor:
        heard = source.is_floating_point()
        given = read(source) if heard else visible(source, source_mask, seen)
        if target is not None:
            given[TARGET] = target
        if heard:
            return answer(module(**given, **fixed))
        if segments is not None and segmented:
            given["token_type_ids"] = segments
        return answer(module(input_ids=source, **given, **fixed))

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        if source.is_floating_point():
            return first(module.get_encoder()(**read(source)))
        return first(module.get_encoder()(input_ids=source, **visible(source, source_mask)))

    def decode(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        from transformers.modeling_outputs import BaseModelOutput

        shape, device = memory.shape[:2], memory.device
        states = BaseModelOutput(last_hidden_state=memory)
        given: dict[str, Any] = {"encoder_outputs": states, TARGET: target}
        if "input_ids" in names:
            mask = torch.ones(shape, device=device) if source_mask is None else source_mask
            given["attention_mask"] = mask.long()
            # not read beside states, but FSMT masks the future only if ids are given
            given["input_ids"] = torch.zeros(shape, dtype=torch.long, device=device)
        else:
            states["attention_mask"] = None  # Moonshine needs one from its encoder
        return answer(module(**given, **fixed))

    def begin(memory: Tensor | None, source_mask: Tensor | None) -> CacheReader:
        return CacheReader(module, memory, source_mask, pad_id if memory is None else None)

    twofold = TARGET in names and "encoder_outputs" in names
    keeps = bool(_cache_word(names)) and "use_cache" in names and (twofold or TARGET not in names)
    return Calls(
        forward,
        encode if twofold else None,
        decode if twofold else None,
        reader=begin if keeps else None,
    )


def _cache_word(names: Container[str]) -> str:
    """Return the name of a module's cache argument, which differs from transformers 5.24 on."""
    return next((word for word in ("past_key_values", "cache") if word in names), "")


class CacheReader:
    """Reader with the library's own cache of keys and values; see `model.Reader`.

    Further state of a model family, or other computations with the cache, are not known here.
    Callers compare the results first (`inference/decoding/key_value_cache.py`).
    """

    def __init__(
        self, module: Any, memory: Tensor | None, source_mask: Tensor | None, pad_id: int | None
    ):
        self.module, self.memory, self.mask, self.pad_id = module, memory, source_mask, pad_id
        self.names = inspect.signature(module.forward).parameters
        self.word = _cache_word(self.names)
        self.past: Any = None
        self.told = source_mask is not None  # else the ids show the padding

    def read(self, ids: Tensor) -> Tensor:
        given = self._of_text(ids) if self.memory is None else self._of_memory(ids)
        output = self.module(**given, **{self.word: self.past}, use_cache=True)
        self.past = getattr(output, self.word)
        if self.past is None:
            raise ValueError(f"{type(self.module).__name__} gives no keys and values back.")
        return answer(output)[:, -1:]

    def _of_text(self, ids: Tensor) -> dict[str, Any]:
        seen = torch.ones_like(ids, dtype=torch.bool)
        if self.pad_id is not None and not self.told:
            seen = ids != self.pad_id
        if self.past is None:
            mask = seen if self.mask is None else self.mask
        else:
            assert self.mask is not None
            mask = torch.cat((self.mask, seen), dim=1)
        self.mask = mask
        given: dict[str, Any] = {"input_ids": ids}
        if "attention_mask" not in self.names:
            return given
        given["attention_mask"] = mask.long()
        if "position_ids" in self.names and not bool(mask.all()):
            given["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        return given

    def _of_memory(self, ids: Tensor) -> dict[str, Any]:
        from transformers.modeling_outputs import BaseModelOutput

        assert self.memory is not None
        states = BaseModelOutput(last_hidden_state=self.memory)
        given: dict[str, Any] = {"encoder_outputs": states, TARGET: ids}
        shape, device = self.memory.shape[:2], self.memory.device
        if "input_ids" in self.names:
            mask = torch.ones(shape, device=device) if self.mask is None else self.mask
            given["attention_mask"] = mask.long()
        else:
            states["attention_mask"] = None
        return given

    def select(self, rows: Tensor) -> None:
        self.past.reorder_cache(rows)
        self.memory = None if self.memory is None else self.memory[rows]
        self.mask = None if self.mask is None else self.mask[rows]


def answer(output: Any) -> Tensor:
    """Return the relevant output of a library model: its logits, or else its last states.

    A model that marks answers in a text returns ``[batch, 2, token]``: start and end logits.
    """
    for name in ("logits", "prediction_logits"):
        if isinstance(getattr(output, name, None), Tensor):
            return getattr(output, name)
    if isinstance(getattr(output, "start_logits", None), Tensor):
        return torch.stack((output.start_logits, output.end_logits), dim=1)
    if isinstance(getattr(output, "last_hidden_state", None), Tensor):
        return output.last_hidden_state
    return first(output)


def first(output: Any) -> Tensor:
    """Return the last hidden states, which are first in every output."""
    states: Tensor = output[0]
    return states
