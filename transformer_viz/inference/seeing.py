"""A picture beside a text: looked at once, and set among the tokens of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..checkpoints.common.eyes import Seen
from ..checkpoints.common.model import Model
from ..core.trace_parts import Tokens
from ..preprocessing.vocabularies import types_ids
from .token_ids import source_ids


@dataclass(frozen=True, eq=False)
class Pictured:
    """A text, or ids, with the picture beside it: both as one source."""

    text: Any
    seen: Seen


@dataclass(frozen=True, eq=False)
class Beside:
    """A picture among words: what was ``seen``, and the number of its first token."""

    seen: Seen
    first: int

    @property
    def places(self) -> range:
        """The numbers of the tokens that stand for the picture."""
        return range(self.first, self.first + len(self.seen.names))

    @property
    def patches(self) -> int:
        """The number of the first patch, after what has no place on the picture."""
        return self.first + self.seen.before

    def named(self, tokens: Tokens) -> Tokens:
        """The tokens of the text, with the names of the patches at their places.

        A patch is a word of its own, and no mark such as start and end.
        """
        pieces, labels, special = list(tokens.pieces), list(tokens.labels), list(tokens.special)
        places = slice(self.places.start, self.places.stop)
        pieces[places] = labels[places] = self.seen.names
        special[places] = [n < self.seen.before for n in range(len(self.seen.names))]
        words, last = [], -1
        for place, word in enumerate(tokens.words):
            begins = place in self.places or place - 1 in self.places
            if begins or place == 0 or word != tokens.words[place - 1]:
                last += 1
            words.append(last)
        return replace(
            tokens,
            pieces=tuple(pieces),
            labels=tuple(labels),
            words=tuple(words),
            special=tuple(special),
        )


def see(model: Model, image: Any) -> Seen:
    """A picture as the model sees it; one that was seen before comes back as it is.

    Args:
        image: a PIL image, the path or the bytes of a picture, or floats ``[channel, height,
            width]`` as the model reads them.

    Raises:
        ValueError: a model that reads no picture beside a text, or no picture; says which.
    """
    if isinstance(image, Seen):
        return image
    if model.takes != "text":
        raise ValueError(
            f"The model {model.name!r} reads no text, and image goes beside a text; leave it out"
            + (", and give the picture as the source." if model.takes == "image" else ".")
        )
    if model.pair is not None:
        raise ValueError(
            f"The model {model.name!r} reads captions and pictures in two towers; compare them by "
            "tv.match(model, captions, image)."
        )
    if model.eyes is None:
        raise ValueError(
            model.blind
            or f"The model {model.name!r} reads text alone and has no eyes; leave image out."
        )
    return model.eyes.look(Path(image) if isinstance(image, str) else image)


def set_beside(model: Model, source: Any, image: Any) -> tuple[list[int], Beside | None]:
    """The ids of a text in which a picture has its places, and which these are.

    Without a picture they are the ids of the text alone.

    Raises:
        ValueError: a text that needs a picture and has none, or as `see`.
    """
    if isinstance(source, Pictured):
        source, image = source.text, source.seen
    if image is None:
        ids = source_ids(model, source)
        if model.eyes is not None and model.eyes.token in ids:
            raise ValueError(
                "The text has a place for a picture, and none came; give one (image=), or take "
                "the place out."
            )
        return ids, None
    if isinstance(source, tuple) and any(isinstance(part, str) for part in source):
        raise ValueError("A picture goes beside one text; got several of them.")
    seen = see(model, image)
    assert model.eyes is not None
    count, token = len(seen.names), model.eyes.token
    if isinstance(source, str) and token < len(model.tokenizer.pieces) and _spelled(model):
        worded = model.eyes.worded(source, count)
        ids = source_ids(model, worded)
        if model.eyes.leads and ids[0] == model.bos_id:
            ids = ids[1:]  # its tokenizer begins each text so, and its processor takes that away
    else:
        ids = source_ids(model, model.eyes.framed(source_ids(model, source), count))
    return ids, Beside(seen, _first(ids, token, count))


def _spelled(model: Model) -> bool:
    """Whether texts are words, and not ids typed as numbers."""
    return not types_ids(model.tokenizer)


def _first(ids: Sequence[int], token: int, count: int) -> int:
    """Where the places of the picture begin; they stand one after the other.

    Raises:
        ValueError: they do not.
    """
    places = [n for n, i in enumerate(ids) if i == token]
    if len(places) != count or places[-1] - places[0] != count - 1:
        raise ValueError(
            f"The picture has {count:,} tokens, and the text {len(places):,} places for them "
            f"(token {token}), which must stand one after the other; take the tokenizer that "
            "belongs to the model."
        )
    return places[0]
