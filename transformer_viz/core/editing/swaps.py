"""Activation patching: edits that replace activations by those of another sentence, or by a mean.

``source`` is the donor sentence. The donor run is a clean pass on it, with the target tokens of the
edited run. Its tokens are matched with those of the edited run (`token_match.py`).
`inference/donors.py` collects the patches; a handler in `capture/handlers` applies them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from ...i18n import say
from ..plain_numbers import whole, wholes
from .base import Edit, require

SHORT = 44  # characters of a sentence that a chip shows
HASH = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, kw_only=True)
class MeanHead(Edit):
    """Mean ablation: replaces a head's output at every token by its mean, stored under ``mean``.

    ``mean`` is a hash. The mean is taken before the output projection, over all rows of some
    sentences (`inference/head_means.py`).
    """

    kind: ClassVar[str] = "mean_head"
    mean: str

    def __post_init__(self) -> None:
        super().__post_init__()
        named = isinstance(self.mean, str) and HASH.fullmatch(self.mean) is not None
        require(named, self, "mean", "the hash of stored means, 8 to 64 of 0-9 and a-f", self.mean)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return say("gives its mean ({name})", name=self.mean[:8])


@dataclass(frozen=True, kw_only=True)
class Swap(Edit):
    """Base class of edits that patch activations of a donor run.

    Attributes:
        source: Donor sentence: a text, a pair of texts, or token ids.
        token: Row to patch, from 0, in the sentence of the site's queries. None patches all rows
            that have a counterpart.
    """

    source: str | tuple[int, ...] | tuple[str, str]
    token: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        text = isinstance(self.source, str) and bool(self.source.strip())
        ids = wholes(self.source) and len(self.source) > 0
        right = text or ids or _are_two_texts(self.source)
        require(right, self, "source", "the other sentence, or its token ids", self.source)
        if not isinstance(self.source, str):
            object.__setattr__(self, "source", tuple(self.source))
        right = self.token is None or whole(self.token)
        require(right, self, "token", "a number from 0", self.token)

    @property
    def key(self) -> tuple[Any, ...]:
        return (*super().key, self.token)

    @property
    def other(self) -> str:
        """Short form of the donor sentence; a long one is reduced to its end."""
        if wholes(self.source):
            return say("{count} tokens", count=len(self.source))
        whole_text = (
            self.source if isinstance(self.source, str) else " / ".join(map(str, self.source))
        )
        text = " ".join(whole_text.split())
        if len(text) <= SHORT:
            return text
        return "… " + text[-SHORT:].partition(" ")[2]

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return self.named(source if self.stack == "encoder" else None)

    def named(self, labels: tuple[str, ...] | None) -> str:
        """Return a description of the change, the row named by its label.

        ``labels`` belong to the sentence of the queries.
        """
        if self.token is None:
            return self._all()
        if labels is not None and self.token < len(labels):
            return self._at(say("“{word}”", word=labels[self.token]))
        return self._at(say("word {number}", number=self.token))

    def _all(self) -> str:
        raise TypeError(f"{type(self).__name__} does not say what it changes.")

    def _at(self, word: str) -> str:
        raise TypeError(f"{type(self).__name__} does not say what it changes.")


def _are_two_texts(source: Any) -> bool:
    """Return True if a source is a pair of texts, as read by models that classify text pairs."""
    two = isinstance(source, list | tuple) and len(source) == 2
    return two and all(isinstance(text, str) and text.strip() for text in source)


@dataclass(frozen=True, kw_only=True)
class SwapHead(Swap):
    """Patches a head's output before the output projection."""

    kind: ClassVar[str] = "swap_head"

    def _all(self) -> str:
        return say("gives what it gives in “{text}”", text=self.other)

    def _at(self, word: str) -> str:
        return say("at {word} gives what it gives in “{text}”", word=word, text=self.other)


@dataclass(frozen=True, kw_only=True)
class SwapPattern(Swap):
    """Patches a head's attention weights; its values stay those of the edited run."""

    kind: ClassVar[str] = "swap_pattern"

    def _all(self) -> str:
        return say("looks as in “{text}”", text=self.other)

    def _at(self, word: str) -> str:
        return say("at {word} looks as in “{text}”", word=word, text=self.other)


@dataclass(frozen=True, kw_only=True)
class SwapStream(Swap):
    """Patches the residual stream after a layer."""

    kind: ClassVar[str] = "swap_stream"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head is None, self, "head", "left out (the stream has no heads)", self.head)
        none = self.block is None
        require(none, self, "block", "left out (the stream is behind the whole layer)", self.block)

    def _all(self) -> str:
        return say("the stream behind it as in “{text}”", text=self.other)

    def _at(self, word: str) -> str:
        return say("the stream at {word} as in “{text}”", word=word, text=self.other)


SWAPS = (SwapHead, SwapPattern, SwapStream)
LENT = (MeanHead, *SWAPS)
