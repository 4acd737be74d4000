"""An opened checkpoint: its module, options, tokenizer, and calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...core.errors import visible_words
from ...core.guesses import guess_entry, with_mark
from ...core.numerics import unit_of
from ...preprocessing.audio import AudioReader
from ...preprocessing.images import ImageReader
from ...preprocessing.tokenizers import Tokenizer
from .eyes import Eyes
from .number_type import name_of, rounding_note
from .provenance import GUESSES, settling

BASE_SIZE = 12  # heads, and layers of a stack, of the usual base models (BERT, GPT-2)


class Reader(Protocol):
    """Decoder with cached keys and values of the tokens it has read."""

    def read(self, ids: Tensor) -> Tensor:
        """Read the next tokens ``[row, token]``.

        Returns:
            Logits ``[row, 1, vocabulary]`` of the token after the last of them.
        """

    def select(self, rows: Tensor) -> None:
        """Continue with these rows ``[row]`` int64; a row may occur several times."""


@dataclass(frozen=True)
class Calls:
    """Calls of a module, independent of its own signature.

    Ids are ``[batch, token]`` int64, vectors ``[batch, token, d_model]``, pictures
    ``[batch, channel, height, width]`` float32, sounds ``[batch, sample]`` or
    ``[batch, mel, time]``. ``source_mask`` is None, or ``[batch, token]``, true for visible source
    tokens. None hides padding ids where the source is given (``forward``, ``encode``); ``decode``
    lacks the source, so None makes the whole memory visible.

    Attributes:
        forward: ``forward(source, target, source_mask)`` returns the whole output. For a pair of
            texts it also takes ``segments=`` ``[batch, token]`` int64, 0 for the first text; for a
            picture in the source, ``seen=``.
        encode: ``encode(source, source_mask)`` returns encoder states.
        decode: ``decode(target, memory, source_mask)`` returns logits
            ``[batch, target token, vocabulary]``.
        following: As ``decode``, but only the last row ``[batch, 1, vocabulary]``, if cheaper.
        reader: ``reader(memory, source_mask)`` starts to read texts token by token. Without an
            encoder the memory is None and the mask is that of the first tokens.
        on: ``on(module)`` returns the same calls of a module that replaces this one; None for calls
            that were themselves replaced.
    """

    forward: Callable[..., Tensor]
    encode: Callable[..., Any] | None = None
    decode: Callable[..., Tensor] | None = None
    following: Callable[..., Tensor] | None = None
    reader: Callable[[Tensor | None, Tensor | None], Reader] | None = None
    on: Callable[[Any], Calls] | None = field(default=None, init=False)

    def standing_in(self, on: Callable[[Any], Calls] | None) -> Calls:
        """Return these calls after setting ``on``, which makes them for another module."""
        object.__setattr__(self, "on", on)
        return self

    def fed(self, dtype: torch.dtype) -> Calls:
        """Return the same calls with vectors and pictures cast to the module's dtype."""

        def narrowed(call: Callable[..., Any]) -> Callable[..., Any]:
            def fed(*inputs: Any, **named: Any) -> Any:
                return call(*(_of_type(x, dtype) for x in inputs), **named)

            return fed

        of = self.on
        return Calls(
            narrowed(self.forward),
            encode=self.encode and narrowed(self.encode),
            decode=self.decode and narrowed(self.decode),
            following=self.following and narrowed(self.following),
            reader=self.reader,
        ).standing_in(of and (lambda module: of(module).fed(dtype)))


def _of_type(given: Any, dtype: torch.dtype) -> Any:
    return given.to(dtype) if isinstance(given, Tensor) and given.is_floating_point() else given


@dataclass(frozen=True, eq=False)
class Pair:
    """Two towers trained together, as in CLIP and SigLIP.

    Attributes:
        whole: Module of both towers.
        picture: Model of the image tower; the text tower is the `Model` that has this pair.
        sigmoid: True if the probability of a caption is independent of the others; else one softmax
            is over all.
        length: Tokens to which each caption is padded with ``pad_id``, as in training; None if not.
        pad_id: Padding token of captions.
    """

    whole: nn.Module
    picture: Model
    sigmoid: bool
    length: int | None
    pad_id: int | None


@dataclass(frozen=True, eq=False)
class Model:
    """Result of `load`: everything about a model, and nothing about a run of it.

    One object serves all users and threads.

    Attributes:
        kind: ``encoder-decoder``, ``encoder-only`` or ``decoder-only``.
        config: Options of the layout.
        further_end_ids: Tokens that end a text, as ``eos_id`` does.
        dtype: Type of number of the computation; ``file_dtype`` is that of the file.
        hash: SHA-256 of the weights file; empty for a module in memory.
        title: Purpose of the model in words, if its author gave one.
        takes: Kind of source: ``text`` (ids included), ``image``, ``audio`` or ``vectors``.
        gives: Kind of output. ``words``: logits ``[token, vocabulary]``; ``classes``: logits
            ``[class]``; ``tags``: logits ``[token, class]``; ``spans``: logits ``[2, token]``,
                start
            and end of an answer; ``vectors``: states.
        image: Reader of pictures; ``audio`` that of sounds.
        eyes: Reader of a picture beside the text; without one, ``blind`` may give the reason.
        pair: The two towers, if this model is the text tower.
        labels: Names of the classes.
        notes: Sentences that every user of the model must know.
        unwrapped: Containers and prefixes around the weights in the file.
        file_size: Bytes of all weights files.
        layer_numbers: The model's own number of each layer with attention, if known.
        provenance: Origin of each option's value, see :mod:`.provenance`.
        task: Meaning of classes and tags (``single_label``, ``multi_label`` or ``regression``, see
            :mod:`transformer_viz.core.numerics`), else empty. ``unit`` is the unit of their scores.
    """

    name: str
    module: nn.Module
    kind: str
    config: dict[str, Any]
    tokenizer: Tokenizer
    device: str
    calls: Calls
    layout: str
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    further_end_ids: tuple[int, ...] = ()
    max_tokens: int | None = None
    dtype: str = "float32"
    hash: str = ""
    file_dtype: str = ""
    folder: Path | None = None
    title: str = ""
    takes: str = "text"
    gives: str = "words"
    mask_id: int | None = None
    image: ImageReader | None = None
    audio: AudioReader | None = None
    eyes: Eyes | None = None
    blind: str = ""
    pair: Pair | None = None
    labels: tuple[str, ...] = ()
    pairs: bool = False
    notes: tuple[str, ...] = ()
    unwrapped: tuple[str, ...] = ()
    file_size: int = 0
    layer_numbers: tuple[int, ...] = ()
    provenance: dict[str, str] = field(default_factory=dict)
    task: str = ""

    def __post_init__(self) -> None:
        """Replace texts from files by forms that pages, terminals and files can show."""
        for name in ("name", "title", "blind", "labels", "notes", "unwrapped", "config"):
            found = getattr(self, name)
            if (shown := visible_words(found)) != found:
                object.__setattr__(self, name, shown)

    @property
    def unit(self) -> str:
        """Unit of its scores: ``nats``, or ``logit`` where outputs have no probability."""
        return unit_of(self.task)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """All tokens that end a text, `eos_id` first."""
        return self.further_end_ids if self.eos_id is None else (self.eos_id, *self.further_end_ids)

    @property
    def guesses(self) -> tuple[str, ...]:
        """Options of the config that no file states for certain."""
        return tuple(word for word, origin in self.provenance.items() if origin in GUESSES)

    @property
    def guessed(self) -> dict[str, Any]:
        """Guessed options that a user should settle, with values that JSON can hold."""
        words = settling(self.guesses)
        values = {word: self.config.get(word, getattr(self, word, None)) for word in words}
        plain = (bool, int, float, str, type(None))
        return {word: v if isinstance(v, plain) else str(v) for word, v in values.items()}

    def __repr__(self) -> str:
        """Return a one-line summary; ``print(model.module)`` lists the layers."""
        told = f" ({self.task})" if self.task else ""
        said = (
            f"<Model {self.name}: {self.kind}, {self.layout}, takes {self.takes}, gives "
            f"{self.gives}{told}, {self.parameters:,} parameters on {self.device}"
        )
        return with_mark(said, guess_entry(self.guessed)) + ">"

    @property
    def parameters(self) -> int:
        """Number of learned parameters; shared tables count once."""
        parts = (part._parameters.values() for part in self.module.modules())  # each run reads it
        return sum({id(p): p.numel() for own in parts for p in own if p is not None}.values())

    def size(self, word: str) -> int:
        """Return a size of the config such as ``heads``; if missing, that of a base model."""
        known = self.config.get(word)
        return BASE_SIZE if known is None else int(known)

    def to(self, device: str) -> Model:
        """Return the model with its module moved to a device (in place, as in PyTorch)."""
        self.module.to(device)
        return replace(self, device=device)

    def cast(self, dtype: torch.dtype) -> Model:
        """Return the model computing in another type of number (in place, as PyTorch casts)."""
        name = name_of(dtype)
        if name == self.dtype:
            return self
        self.module.to(dtype)
        notes = (*self.notes, *rounding_note(name))
        return replace(self, dtype=name, calls=self.calls.fed(dtype), notes=notes)
