"""Proxies of tokenizers that run in another process, which can be killed.

Native libraries parse untrusted files of a checkpoint. When the app opens such a checkpoint it sets
a `Maker`. Then `processor` and the loaders of the transformers library call it, and receive plain
data and a connection to that process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

MOST_IDS = 2**22  # maximum per call
MOST_PIECES = 2**22
LARGEST = 2**31
#: Roles of special tokens that are read from a tokenizer of the library.
SPECIAL = ("bos", "eos", "pad", "unk", "mask", "cls", "sep")

Ask = Callable[..., dict[str, Any]]


class Maker(Protocol):
    """Factory of tokenizers in another process, from untrusted files."""

    def pieces(self, content: bytes) -> RemotePieces:
        """Return a sentencepiece model from the bytes of its file."""

    def library(self, folder: Path, size: int | None) -> tuple[RemoteTokenizer | None, str]:
        """Return the transformers library's tokenizer of a folder, and a note about it."""

    def byte_pairs(self, folder: Path, names: Sequence[str]) -> RemoteTokenizer:
        """Return a tokenizer of byte-level BPE from files of a folder."""

    def plain_pickle(self, path: Path) -> Any:
        """Return the contents of a pickle of plain data."""

    def vocabulary(self, path: Path) -> RemotePieces | RemoteTokenizer | dict[str, Any]:
        """Return the contents of a vocabulary file; for a list of words the words and roles."""


_maker: ContextVar[Maker | None] = ContextVar("maker", default=None)


def maker() -> Maker | None:
    """Return the current `Maker`, or None if tokenizers are created in this process."""
    return _maker.get()


@contextmanager
def made_by(other: Maker) -> Iterator[None]:
    """Create tokenizers with another `Maker` inside ``with``, in this thread."""
    before = _maker.set(other)
    try:
        yield
    finally:
        _maker.reset(before)


class RemotePieces:
    """Proxy of a sentencepiece processor, with the methods used here."""

    def __init__(self, ask: Ask, facts: dict[str, Any]) -> None:
        self._ask = ask
        self._pieces = texts(facts.get("pieces"), MOST_PIECES)
        self._control = frozenset(ids(facts.get("control")))
        self._bos, self._eos, self._pad = (_role(facts.get(w)) for w in ("bos", "eos", "pad"))

    def bos_id(self) -> int:
        return self._bos

    def eos_id(self) -> int:
        return self._eos

    def pad_id(self) -> int:
        return self._pad

    def get_piece_size(self) -> int:
        return len(self._pieces)

    def id_to_piece(self, wanted: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in wanted]

    def is_control(self, token: int) -> bool:
        return token in self._control

    def encode(self, text: str, out_type: type = int) -> Any:
        """Return ids, or pieces with ``out_type=str``."""
        if out_type is str:
            return texts(self._ask("pieces", text=text).get("pieces"), MOST_IDS)
        return ids(self._ask("encode", text=text).get("ids"))

    def decode(self, given: Sequence[int]) -> str:
        return text_of(self._ask("decode", ids=list(map(int, given))).get("text"))


class RemoteTokenizer:
    """Proxy of a tokenizer of the transformers library, with the methods used here."""

    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    unk_token_id: int | None
    mask_token_id: int | None
    cls_token_id: int | None
    sep_token_id: int | None

    def __init__(self, ask: Ask, facts: dict[str, Any]) -> None:
        self._ask = ask
        self._pieces = self.pieces = texts(facts.get("pieces"), MOST_PIECES)
        self.target_pieces = texts(facts.get("target") or [], MOST_PIECES)
        self.all_special_ids = ids(facts.get("special"))
        self.added_special_ids = ids(facts.get("added", []))
        self.declares_types = facts.get("declares_types") is not False
        self.needed_size = ids([facts.get("needed", len(self._pieces))])[0]
        if "language" in facts:
            given = facts["language"]
            self.tgt_lang = None if given is None else text_of(given)
        self._pair = ids([facts.get("pair", 0)])[0]
        named = facts.get("named")
        for role in SPECIAL:
            value = named.get(role) if isinstance(named, dict) else None
            setattr(self, f"{role}_token_id", None if value is None else ids([value])[0])

    def __len__(self) -> int:
        return len(self._pieces)

    def convert_ids_to_tokens(self, wanted: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in wanted]

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return self._pair if pair else 0

    def __call__(
        self,
        text: str | None = None,
        text_pair: str | None = None,
        *,
        text_target: str | None = None,
        add_special_tokens: bool = True,
    ) -> RemoteEncoding:
        given = {"text": text, "text_pair": text_pair, "text_target": text_target}
        return RemoteEncoding(self._ask("encode", **given, special=add_special_tokens))

    def decode(self, given: Sequence[int]) -> str:
        return text_of(self._ask("decode", ids=list(map(int, given))).get("text"))


class RemoteEncoding(dict[str, list[int]]):
    """Ids of a text, and its token types if the tokenizer creates them."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(input_ids=ids(answer.get("ids")))
        if answer.get("segments") is not None:
            self["token_type_ids"] = ids(answer["segments"])


def ids(given: Any) -> list[int]:
    """Return a list of ids after validation, since the other process is untrusted.

    Raises:
        ValueError: The value is not a list of ids.
    """
    found = _listed(given)
    if len(found) > MOST_IDS or not all(type(i) is int and 0 <= i < LARGEST for i in found):
        raise ValueError("The tokenizer of this model gave no ids. Type token ids as numbers.")
    return found


def texts(given: Any, most: int) -> tuple[str, ...]:
    """Return several texts after validation.

    Raises:
        ValueError: The value is not a list of texts, or it is too long.
    """
    found = _listed(given)
    if len(found) > most or not all(isinstance(one, str) for one in found):
        raise ValueError("The tokenizer of this model gave no pieces. Type token ids as numbers.")
    return tuple(found)


def text_of(given: Any) -> str:
    """Return one text after validation.

    Raises:
        ValueError: The value is not a text.
    """
    return texts([given], 1)[0]


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _role(given: Any) -> int:
    return given if type(given) is int and -1 <= given < LARGEST else -1
