"""Sentences of a text file, one per line, or source and target separated by a tab.

Files are read line by line and may be of any size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

BOM = "\ufeff"
LONGEST = 1_000_000  # maximum bytes of a line

#: A sentence, or a source and a target.
Item = Any


@dataclass(frozen=True)
class Line:
    """A line that is not blank: its number from 1, its offset in the file, and its content."""

    number: int
    start: int
    item: Item


def text_file(file: str | Path) -> Path:
    """Return the path of a file after checking it.

    Raises:
        ValueError: The file is missing, or it is a folder.
    """
    path = Path(file)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise ValueError(f"FILE names a text of one sentence a line; {str(file)!r} is {what}.")
    return path


def sentences(file: str | Path) -> list[Item]:
    """Return all sentences of a file, or its pairs.

    Raises:
        ValueError: No such file, no text, no sentence, or lines of different kinds.
    """
    return [line.item for line in lines(file)]


def lines(file: str | Path, digest: Any = None) -> Iterator[Line]:
    """Yield every line that is not blank; a ``digest`` of hashlib is updated with the whole file.

    Raises:
        ValueError: As in `sentences`.
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
    """Return ``count`` sentences from the byte ``start``, where line ``number`` begins.

    Raises:
        ValueError: The file has changed.
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
    """Return the SHA-256 of some sentences."""
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
