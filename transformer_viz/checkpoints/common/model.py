"""A checkpoint made ready: the module, its words, its tokenizer, and how to call it."""

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
    """A decoder in the middle of texts, which keeps the keys and values of what it has read."""

    def read(self, ids: Tensor) -> Tensor:
        """Read the next tokens ``[row, token]``.

        Returns:
            Logits ``[row, 1, vocabulary]`` of what follows the last of them.
        """

    def select(self, rows: Tensor) -> None:
        """Go on with these rows ``[row]`` int64, a row as often as it is named."""


@dataclass(frozen=True)
class Calls:
    """How a module is called, whatever its own signature.

    ``encode(source, source_mask)`` gives encoder states; ``decode(target, memory, source_mask)``
    logits ``[batch, target token, vocabulary]``, and ``following`` the last row of these alone,
    ``[batch, 1, vocabulary]``, where that is cheaper; ``forward(source, target, source_mask)`` the
    model's whole output. Ids are ``[batch, token]`` int64, vectors ``[batch, token, d_model]``;
    ``source_mask`` is None, or true where a source token may be seen, ``[batch, token]``. None
    hides padding ids where the source is at hand (``forward``, ``encode``); ``decode`` does not
    see the source, so that None lets it look at the whole memory. Where a source was a pair of
    texts, ``forward`` is also given ``segments=`` ``[batch, token]`` int64, 0 for the first text;
    where a picture stands in it, ``seen=``. ``reader(memory, source_mask)`` begins to read texts
    token by token, with None for the memory where the model has no encoder; the mask is then that
    of the first tokens. ``on(module)`` are the same calls of a module that stands in for this one;
    calls that are replaced by others have none.
    Pictures are ``[batch, channel, height, width]`` float32, sounds ``[batch, sample]`` or
    ``[batch, mel, time]``.
    """

    forward: Callable[..., Tensor]
    encode: Callable[..., Any] | None = None
    decode: Callable[..., Tensor] | None = None
    following: Callable[..., Tensor] | None = None
    reader: Callable[[Tensor | None, Tensor | None], Reader] | None = None
    on: Callable[[Any], Calls] | None = field(default=None, init=False)

    def standing_in(self, on: Callable[[Any], Calls] | None) -> Calls:
        """These calls, which ``on`` makes of another module."""
        object.__setattr__(self, "on", on)
        return self

    def fed(self, dtype: torch.dtype) -> Calls:
        """The same calls with vectors and pictures brought to the module's type of number."""

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
    """Two towers that were trained to meet, as CLIP's and SigLIP's.

    ``whole`` is the module of both and ``picture`` the tower of pictures alone; that of captions is
    the `Model` that has this pair. ``length`` is how many tokens each caption is filled up to with
    ``pad_id``, as the model was trained; None where it is not. ``sigmoid``: a caption's probability
    says nothing of the others; else one softmax is over all.
    """

    whole: nn.Module
    picture: Model
    sigmoid: bool
    length: int | None
    pad_id: int | None


@dataclass(frozen=True, eq=False)
class Model:
    """What `load` gives: everything about a model, and nothing about any run of it.

    ``kind`` is ``encoder-decoder``, ``encoder-only`` or ``decoder-only``; ``takes`` says what a
    source is (``text``, ids included; ``image``; ``audio``; ``vectors``) and ``gives`` what comes
    out (``words``: logits ``[token, vocabulary]``; ``classes``: logits ``[class]``; ``tags``:
    logits ``[token, class]``; ``spans``: logits ``[2, token]``, where an answer starts and ends;
    ``vectors``: states); ``task`` says what the numbers of classes and tags mean
    (``single_label``, ``multi_label`` or ``regression``, see :mod:`transformer_viz.core.numerics`;
    empty for all else) and ``unit`` in what they are measured; ``config`` are the words of the
    layout;
    ``provenance`` says for each word where its value came from, see :mod:`.provenance`; ``hash`` is
    the SHA-256 of the weights file (empty for a module in memory); ``dtype`` is that of the
    computation, ``file_dtype`` that of the file; ``title`` says in words what the model does, where
    its maker said so; ``labels`` are the names of the classes, ``image`` and ``audio`` how such are
    read; ``eyes`` how a picture beside the text is, and where there are none ``blind`` may say why;
    ``pair`` the two towers of which this is that of the captions; ``notes`` are sentences that
    whoever looks at this model must know; ``unwrapped`` the containers and prefixes that its file
    had around the weights; ``file_size`` the bytes of all its files of weights; ``layer_numbers``
    the model's own number of each layer that attends, where it is told. ``further_end_ids`` end a
    text as ``eos_id`` does. One object serves all visitors and threads.
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
        """Have all that comes from files in a form that pages, terminals and files can show."""
        for name in ("name", "title", "blind", "labels", "notes", "unwrapped", "config"):
            found = getattr(self, name)
            if (shown := visible_words(found)) != found:
                object.__setattr__(self, name, shown)

    @property
    def unit(self) -> str:
        """The unit of its scores: ``nats``, or ``logit`` where outputs have no probability."""
        return unit_of(self.task)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """All tokens that end a text, `eos_id` first."""
        return self.further_end_ids if self.eos_id is None else (self.eos_id, *self.further_end_ids)

    @property
    def guesses(self) -> tuple[str, ...]:
        """The words of the config that nothing on disk says for certain."""
        return tuple(word for word, origin in self.provenance.items() if origin in GUESSES)

    @property
    def guessed(self) -> dict[str, Any]:
        """The guessed words that are to be settled, with their values as JSON can hold them."""
        words = settling(self.guesses)
        values = {word: self.config.get(word, getattr(self, word, None)) for word in words}
        plain = (bool, int, float, str, type(None))
        return {word: v if isinstance(v, plain) else str(v) for word, v in values.items()}

    def __repr__(self) -> str:
        """What it is in one line; ``print(model.module)`` lists the layers."""
        told = f" ({self.task})" if self.task else ""
        said = (
            f"<Model {self.name}: {self.kind}, {self.layout}, takes {self.takes}, gives "
            f"{self.gives}{told}, {self.parameters:,} parameters on {self.device}"
        )
        return with_mark(said, guess_entry(self.guessed)) + ">"

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; shared tables count once."""
        parts = (part._parameters.values() for part in self.module.modules())  # each run asks
        return sum({id(p): p.numel() for own in parts for p in own if p is not None}.values())

    def size(self, word: str) -> int:
        """A size of the config such as ``heads``; where it says none, that of a base model."""
        known = self.config.get(word)
        return BASE_SIZE if known is None else int(known)

    def to(self, device: str) -> Model:
        """The same model with its module moved to a device (in place, as PyTorch moves modules)."""
        self.module.to(device)
        return replace(self, device=device)

    def cast(self, dtype: torch.dtype) -> Model:
        """The same model computing in another type of number (in place, as PyTorch casts)."""
        name = name_of(dtype)
        if name == self.dtype:
            return self
        self.module.to(dtype)
        notes = (*self.notes, *rounding_note(name))
        return replace(self, dtype=name, calls=self.calls.fed(dtype), notes=notes)
