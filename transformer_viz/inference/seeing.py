"""Picture beside a text: encoded once, and placed among the text's tokens."""

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
    """Text, or ids, with a picture beside it, as one source."""

    text: Any
    seen: Seen


@dataclass(frozen=True, eq=False)
class Beside:
    """Picture among text tokens: its encoding ``seen``, and the index of its first token."""

    seen: Seen
    first: int

    @property
    def places(self) -> range:
        """Indices of the picture's tokens."""
        return range(self.first, self.first + len(self.seen.names))

    @property
    def patches(self) -> int:
        """Index of the first patch, after tokens without a position in the picture."""
        return self.first + self.seen.before

    def named(self, tokens: Tokens) -> Tokens:
        """Return the tokens of the text, with patch names at the picture's tokens.

        A patch is a separate word, and not special like start and end.
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
    """Return a picture as model input; a `Seen` is returned unchanged.

    Args:
        model: Model of texts and pictures.
        image: PIL image, path or bytes of a picture, or floats ``[channel, height, width]`` as the
            model reads them.

    Raises:
        ValueError: The model reads no picture beside a text, or the picture is invalid.
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
    """Return the ids of a text with a picture's tokens, and their position.

    Without a picture, only the ids of the text.

    Raises:
        ValueError: The text needs a picture and has none; see also `see`.
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
            ids = ids[1:]  # the tokenizer adds a start token, and the processor removes it
    else:
        ids = source_ids(model, model.eyes.framed(source_ids(model, source), count))
    return ids, Beside(seen, _first(ids, token, count))


def _spelled(model: Model) -> bool:
    """Return True if texts are encoded by a tokenizer, not typed as ids."""
    return not types_ids(model.tokenizer)


def _first(ids: Sequence[int], token: int, count: int) -> int:
    """Return the index of the picture's first token; its tokens are consecutive.

    Raises:
        ValueError: They are not.
    """
    places = [n for n, i in enumerate(ids) if i == token]
    if len(places) != count or places[-1] - places[0] != count - 1:
        raise ValueError(
            f"The picture has {count:,} tokens, and the text {len(places):,} places for them "
            f"(token {token}), which must stand one after the other; take the tokenizer that "
            "belongs to the model."
        )
    return places[0]
