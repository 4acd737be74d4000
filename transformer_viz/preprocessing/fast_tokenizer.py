"""Adapter of ``tokenizers.Tokenizer`` to the methods of the transformers library used here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .elsewhere import SPECIAL
from .special_names import special_tokens


class Encoded(dict[str, list[int]]):
    """Ids of a text without padding, and its token types if any is not 0."""

    def __init__(self, encoding: Any) -> None:
        rows = [n for n, seen in enumerate(encoding.attention_mask) if seen]
        super().__init__(input_ids=[encoding.ids[n] for n in rows])
        if any(encoding.type_ids):
            self["token_type_ids"] = [encoding.type_ids[n] for n in rows]


class FastTokenizer:
    """A tokenizer of the package tokenizers.

    Args:
        inner: The ``tokenizers.Tokenizer``.
        roles: Special tokens by role, as named in a file next to it. They take precedence over
            usual names.
    """

    def __init__(self, inner: Any, roles: Mapping[str, str] | None = None) -> None:
        if inner.truncation or inner.padding:  # set for training; texts are not truncated here
            with suppress(Exception):  # components written in Python cannot be copied
                inner = type(inner).from_str(inner.to_str())
                inner.no_truncation()
                inner.no_padding()
        self._inner = inner
        size = inner.get_vocab_size(with_added_tokens=True)
        table = inner.get_vocab(with_added_tokens=True)
        self._pieces = [""] * max(size, max(table.values(), default=-1) + 1)
        for word, token in table.items():
            self._pieces[token] = word
        added = inner.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special}
        found: dict[str, int | None] = dict(special_tokens(self._pieces))
        for role, word in (roles or {}).items():
            found[role] = inner.token_to_id(word)
        model = getattr(inner.model, "unk_token", None)
        if isinstance(model, str) and found.get("unk") is None:
            found["unk"] = inner.token_to_id(model)
        for role in SPECIAL:
            setattr(self, f"{role}_token_id", found.get(role))
        named = {i for role, i in found.items() if role != "mask" and i is not None}
        self.all_special_ids = sorted(special | named)

    eos_token_id: int | None
    unk_token_id: int | None
    declares_types = False  # always returns token types, even if the model has none

    def __len__(self) -> int:
        return len(self._pieces)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] or f"#{i}" for i in ids]

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return int(self._inner.num_special_tokens_to_add(pair))

    def __call__(
        self,
        text: str | None = None,
        text_pair: str | None = None,
        *,
        text_target: str | None = None,
        add_special_tokens: bool = True,
    ) -> Encoded:
        written = text_target if text is None else text
        pair = () if text_pair is None else (text_pair,)
        made = self._inner.encode(written, *pair, add_special_tokens=add_special_tokens)
        return Encoded(made)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=False))
