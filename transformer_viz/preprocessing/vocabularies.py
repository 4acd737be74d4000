"""Vocabularies of a model: one for both sides, or separate ones for source and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..core.trace_parts import Tokens
from .tokenizers import PairTokenizer, PlainIds, Tokenizer

Ids = Mapping[str, Any]  # pad_id, bos_id and eos_id; None or missing if there is none

ONE_OF_TWO = (
    "The source and the target of this model have a vocabulary each, and one was found: target "
    "tokens are shown as ids, and typed as ids. Give the other as target_tokenizer= "
    "(--target-tokenizer), or the same one if it serves both sides."
)
NO_SOURCE = (
    "Only the vocabulary of the target was found: source tokens are shown as ids, and typed as "
    "ids. Give that of the source as tokenizer= (--tokenizer)."
)


class TwoVocabularies:
    """Tokenizer with separate vocabularies for sources and targets."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self.source, self.target = source, target

    @property
    def pieces(self) -> Sequence[str]:
        return self.source.pieces

    def source_ids(self, text: str) -> list[int]:
        return self.source.source_ids(text)

    def target_ids(self, text: str) -> list[int]:
        return self.target.target_ids(text)

    def prompt_ids(self, text: str) -> list[int]:
        return self.source.prompt_ids(text)

    def pair_ids(self, first: str, second: str) -> tuple[list[int], list[int] | None]:
        return cast(PairTokenizer, self.source).pair_ids(first, second)

    def decode(self, ids: Sequence[int]) -> str:
        return self.source.decode(ids)

    def tokens(self, ids: Sequence[int]) -> Tokens:
        return self.source.tokens(ids)

    def lost(self, text: str) -> tuple[str, ...]:
        return self.source.lost(text)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A vocabulary before the special ids of the model are known.

    Attributes:
        make: Factory of the tokenizer with these special ids; omitted ones are its own.
        named: Special ids that the vocabulary names: ``pad_id``, ``bos_id``, ``eos_id``.
        size: Number of ids; None if unknown.
        given: Object that it was made from.
        target: Vocabulary of the target, if one file or object holds both.
        serves_both: True if it encodes sources and targets, as our own tokenizers do.
        needs_end: True if a source must end with a token.
        name: Name of its file.
    """

    make: Callable[[Ids], Tokenizer]
    named: Mapping[str, int] = field(default_factory=dict)
    size: int | None = None
    given: Any = None
    target: Vocabulary | None = None
    serves_both: bool = False
    needs_end: bool = False
    name: str = "The vocabulary"


@dataclass(frozen=True)
class Tables:
    """Facts about the two embedding tables of a model.

    Attributes:
        source: Rows of the source table; None if unknown.
        target: Rows of the target table.
        shared: True if one vocabulary serves both; None for a model with one side only.
    """

    source: int | None = None
    target: int | None = None
    shared: bool | None = None


class Vocabularies(TwoVocabularies):
    """Vocabularies that were given or found for a model.

    It works as a tokenizer with the special ids that the vocabularies name; `settle` makes the
    tokenizer of a particular model.

    Args:
        source: Vocabulary of the source; None if only that of the target is known.
        target: Vocabulary of the target; None if unknown.
    """

    def __init__(self, source: Vocabulary | None, target: Vocabulary | None = None) -> None:
        one = source or target
        assert one is not None
        self.of_source, self.of_target = source, target or one.target
        super().__init__(one.make({}), (self.of_target or one).make({}))

    @property
    def named(self) -> dict[str, int]:
        """Special ids that the vocabularies name.

        Start and end are those of the target, padding that of the source.
        """
        sides = [side for side in (self.of_target, self.of_source) if side is not None]
        found: dict[str, int] = {}
        for side in sides:
            found = {**side.named, **found}
        padding = [side.named["pad_id"] for side in reversed(sides) if "pad_id" in side.named]
        return found | ({"pad_id": padding[0]} if padding else {})

    def fill(self, other: Tokenizer | None) -> Vocabularies:
        """Return the vocabularies with missing sides filled from the files next to the weights."""
        if other is None:
            return self
        if isinstance(other, Vocabularies):
            source, target = other.of_source, other.of_target
        else:
            source, target = Vocabulary(lambda ids: other, serves_both=True), None
        if self.of_source is not None:
            found = Vocabularies(self.of_source, self.of_target or target)
        else:
            found = Vocabularies(source or target, self.of_target)
        return found

    def settle(self, ids: Ids, tables: Tables) -> tuple[Tokenizer, str]:
        """Return the tokenizer of a model.

        Args:
            ids: Special ids of the model.
            tables: Its embedding tables.

        Returns:
            The tokenizer, and a note, which may be empty.

        Raises:
            ValueError: Two vocabularies for a model with one side, or more words than embedding
                rows.
        """
        source, target = self.of_source, self.of_target
        one = source or target
        assert one is not None
        if tables.shared is None:
            if source is not None and target not in (None, source, source.target):
                raise ValueError(
                    "tokenizer= and target_tokenizer= both came, and this model has one side "
                    "only; give one of them."
                )
            self._refuse_larger(one, tables.source or tables.target)
            return one.make(ids), ""
        joined = source is target or tables.shared or one.serves_both
        if joined and (source is None or target is None or source is target):
            sizes = [size for size in (tables.source, tables.target) if size]
            self._refuse_larger(one, max(sizes, default=None))
            return one.make(ids), ""
        self._refuse_swapped(source, target, tables)
        self._refuse_larger(source, tables.source)
        self._refuse_larger(target, tables.target)
        reads: Tokenizer = PlainIds(tables.source, **_plain(ids))
        writes: Tokenizer = PlainIds(
            tables.target, **_plain(ids), advice="The target of this model has no vocabulary"
        )
        if source is not None:  # the model's special ids refer to the target
            end = {"eos_id": ids.get("eos_id")} if source.needs_end else {}
            reads = source.make({**self._shared(ids), **end, **source.named})
        if target is not None:
            writes = target.make(ids)
        note = ONE_OF_TWO if target is None else NO_SOURCE if source is None else ""
        return TwoVocabularies(reads, writes), note

    def _shared(self, ids: Ids) -> dict[str, int]:
        """Return the special ids with the same word in both vocabularies.

        Lists may name these tokens in any way, such as ``ENDE``.
        """
        if self.of_source is None or self.of_target is None:
            return {}
        both = self.source.pieces, self.target.pieces
        known = {word: i for word, i in _plain(ids).items() if i is not None and i >= 0}
        known = {word: i for word, i in known.items() if i < min(map(len, both))}
        return {word: i for word, i in known.items() if both[0][i] == both[1][i]}

    @staticmethod
    def _refuse_swapped(source: Vocabulary | None, target: Vocabulary | None, to: Tables) -> None:
        """Raise if two vocabularies fit only the other side."""
        sizes = [None if side is None else side.size for side in (source, target)]
        if not (sizes[0] and sizes[1] and to.source and to.target and source and target):
            return
        swapped = sizes[0] <= to.target and sizes[1] <= to.source
        if swapped and (sizes[0] > to.source or sizes[1] > to.target):
            raise ValueError(
                f"{source.name} has {sizes[0]:,} pieces and {target.name} {sizes[1]:,}, but the "
                f"source of the model has {to.source:,} and its target {to.target:,}. They fit the "
                "other way round: swap them."
            )

    @staticmethod
    def _refuse_larger(vocabulary: Vocabulary | None, rows: int | None) -> None:
        size = None if vocabulary is None else vocabulary.size
        if vocabulary is not None and size is not None and rows and size > rows:
            raise ValueError(
                f"{vocabulary.name} has {size:,} pieces, but the model knows {rows:,}; they do not "
                "belong together. Take the vocabulary that the model was trained with."
            )


def _plain(ids: Ids) -> dict[str, Any]:
    return {word: ids.get(word) for word in ("pad_id", "bos_id", "eos_id")}


def source_side(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of a model's first input."""
    source: Tokenizer = getattr(tokenizer, "source", tokenizer)
    return source


def types_ids(tokenizer: Tokenizer) -> bool:
    """Return True if sources are typed as ids because no vocabulary is known."""
    return isinstance(source_side(tokenizer), PlainIds)
