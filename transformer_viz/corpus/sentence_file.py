"""Sentences of a text file, one a line, or source and target with a tabulator between them.

Read line by line, so that a file may be of any size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

BOM = "\ufeff"
LONGEST = 1_000_000  # bytes of a line

#: A sentence, or a source and a target.
Item = Any


@dataclass(frozen=True)
class Line:
    """One line with words: its number from 1, where it begins in the file, what it says."""

    number: int
    start: int
    item: Item


def text_file(file: str | Path) -> Path:
    """The file of this name.

    Raises:
        ValueError: there is none, or it is a folder.
    """
    path = Path(file)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise ValueError(f"FILE names a text of one sentence a line; {str(file)!r} is {what}.")
    return path


def sentences(file: str | Path) -> list[Item]:
    """The sentences of a file, or its pairs, all at once.

    Raises:
        ValueError: no such file, no text, no sentence, or lines of different kinds; says which.
    """
    return [line.item for line in lines(file)]


def lines(file: str | Path, digest: Any = None) -> Iterator[Line]:
    """Every line that holds words; a ``digest`` of hashlib is fed with the whole file.

    Raises:
        ValueError: as `sentences`.
    """
    path, some = text_file(file), False
    with path.open("rb") as stream:
        for number, start, raw in _raw(stream, path):
            if digest is not None:
                digest.update(raw)
            item = _item(raw, number, path)
            if item is not None:
                some = True
                yield Line(number, start, item)
    if not some:
        raise ValueError(f"{path} is empty; give one sentence a line.")


def some_lines(file: str | Path, start: int, count: int, number: int) -> list[Item]:
    """``count`` sentences from the byte ``start`` on, where line ``number`` begins.

    Raises:
        ValueError: the file has become another.
    """
    path = text_file(file)
    found: list[Item] = []
    with path.open("rb") as stream:
        stream.seek(start)
        for at, _, raw in _raw(stream, path, number):
            item = _item(raw, at, path)
            if item is not None:
                found.append(item)
            if len(found) == count:
                return found
    raise ValueError(f"{path} has become shorter since the plan was made; make a new atlas.")


def hash_of(items: list[Item]) -> str:
    """SHA-256 of what some sentences say."""
    return hashlib.sha256(repr(items).encode()).hexdigest()


def _raw(stream: BinaryIO, path: Path, number: int = 1) -> Iterator[tuple[int, int, bytes]]:
    while raw := stream.readline(LONGEST + 1):
        if len(raw) > LONGEST:
            raise ValueError(
                f"Line {number} of {path} has more than {LONGEST:,} bytes; give one sentence a "
                "line."
            )
        yield number, stream.tell() - len(raw), raw
        number += 1


def _item(raw: bytes, number: int, path: Path) -> Item | None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8 (line {number}); convert it first."
        ) from error
    if "\0" in text:
        raise ValueError(f"{path} is no text: it holds zero bytes. Give one sentence a line.")
    text = text.removeprefix(BOM) if number == 1 else text
    parts = tuple(part.strip() for part in text.split("\t"))
    if not any(parts):
        return None
    if len(parts) > 2 or not all(parts):
        raise ValueError(
            f"Line {number} of {path} has {len(parts)} columns, {sum(map(bool, parts))} of "
            "them with words; give one sentence, or source and target with a tabulator "
            "between them."
        )
    return parts if len(parts) == 2 else parts[0]
