"""Edits that put numbers from elsewhere in the place of a run's own: from another sentence
(activation patching), or the mean over many.

``source`` is the other sentence. It goes through the model clean, with the target words of the run
it lends to, and its tokens are matched with those of that run (`token_match.py`). What is lent
is found by `inference/donors.py`, and put in its place in `capture/handlers/lend.py`.
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
    """What a head gives at every token becomes its mean, which is stored under the hash ``mean``.

    The mean is taken before the output projection, over all rows of some sentences
    (`inference/head_means.py`).
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
    """What edits have in common that take something from a run of another sentence, ``source``:
    a text, a pair of texts, or token ids. ``token`` is the row it is taken at, from 0, in the
    sentence that the site's queries come from; left out, all rows that have a counterpart."""

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
        """The other sentence in a few words: its end, where it is long."""
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
        """What is done, the row called by its word; ``labels`` are of the queries' sentence."""
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
    """Return whether a source is a pair of texts, as models that judge two texts read them."""
    two = isinstance(source, list | tuple) and len(source) == 2
    return two and all(isinstance(text, str) and text.strip() for text in source)


@dataclass(frozen=True, kw_only=True)
class SwapHead(Swap):
    """What a head gives before the output projection is what it gives in the other sentence."""

    kind: ClassVar[str] = "swap_head"

    def _all(self) -> str:
        return say("gives what it gives in “{text}”", text=self.other)

    def _at(self, word: str) -> str:
        return say("at {word} gives what it gives in “{text}”", word=word, text=self.other)


@dataclass(frozen=True, kw_only=True)
class SwapPattern(Swap):
    """A head looks as it does in the other sentence, and takes its values from this one."""

    kind: ClassVar[str] = "swap_pattern"

    def _all(self) -> str:
        return say("looks as in “{text}”", text=self.other)

    def _at(self, word: str) -> str:
        return say("at {word} looks as in “{text}”", word=word, text=self.other)


@dataclass(frozen=True, kw_only=True)
class SwapStream(Swap):
    """The residual stream behind a layer is that of the other sentence."""

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
