"""Tokenizers that live in another process, which can be killed; here are their faces.

Native libraries read and run what a stranger wrote. Where the app opens such a checkpoint it names
a `Maker`: then `processor` and the openers of the transformers library ask it, and what they get
here is plain data, and a line to the process that does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

MOST_IDS = 2**22  # that one call may give
MOST_PIECES = 2**22
LARGEST = 2**31
#: Special tokens of the library that a model may be asked for.
SPECIAL = ("bos", "eos", "pad", "unk", "mask", "cls", "sep")

Ask = Callable[..., dict[str, Any]]


class Maker(Protocol):
    """Makes tokenizers in another process, from files of a stranger."""

    def pieces(self, content: bytes) -> RemotePieces:
        """A sentencepiece model from the bytes of its file."""

    def library(self, folder: Path, size: int | None) -> tuple[RemoteTokenizer | None, str]:
        """The transformers library's tokenizer of a folder, and what there is to tell of it."""

    def byte_pairs(self, folder: Path, names: Sequence[str]) -> RemoteTokenizer:
        """A tokenizer of byte-level BPE from files of a folder."""

    def plain_pickle(self, path: Path) -> Any:
        """What a pickle of plain data holds."""

    def vocabulary(self, path: Path) -> RemotePieces | RemoteTokenizer | dict[str, Any]:
        """What a vocabulary file holds; of a list of words the words and roles, as plain data."""


_maker: ContextVar[Maker | None] = ContextVar("maker", default=None)


def maker() -> Maker | None:
    """Who makes tokenizers here; None where they are made in this process."""
    return _maker.get()


@contextmanager
def made_by(other: Maker) -> Iterator[None]:
    """Have tokenizers made elsewhere inside ``with``, in this thread."""
    before = _maker.set(other)
    try:
        yield
    finally:
        _maker.reset(before)


class RemotePieces:
    """A sentencepiece processor elsewhere, as far as it is used here."""

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
        """Ids, or with ``out_type=str`` pieces."""
        if out_type is str:
            return texts(self._ask("pieces", text=text).get("pieces"), MOST_IDS)
        return ids(self._ask("encode", text=text).get("ids"))

    def decode(self, given: Sequence[int]) -> str:
        return text_of(self._ask("decode", ids=list(map(int, given))).get("text"))


class RemoteTokenizer:
    """A tokenizer of the transformers library elsewhere, with the part of its face that is used."""

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
    """The ids of a text, and its token types where the tokenizer makes them."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(input_ids=ids(answer.get("ids")))
        if answer.get("segments") is not None:
            self["token_type_ids"] = ids(answer["segments"])


def ids(given: Any) -> list[int]:
    """A list of ids, as another process may have sent anything.

    Raises:
        ValueError: it is none.
    """
    found = _listed(given)
    if len(found) > MOST_IDS or not all(type(i) is int and 0 <= i < LARGEST for i in found):
        raise ValueError("The tokenizer of this model gave no ids. Type token ids as numbers.")
    return found


def texts(given: Any, most: int) -> tuple[str, ...]:
    """Several texts.

    Raises:
        ValueError: they are none, or too many.
    """
    found = _listed(given)
    if len(found) > most or not all(isinstance(one, str) for one in found):
        raise ValueError("The tokenizer of this model gave no pieces. Type token ids as numbers.")
    return tuple(found)


def text_of(given: Any) -> str:
    """One text.

    Raises:
        ValueError: it is none.
    """
    return texts([given], 1)[0]


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _role(given: Any) -> int:
    return given if type(given) is int and -1 <= given < LARGEST else -1
