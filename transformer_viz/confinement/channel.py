"""Messages between two processes: a length, and so many bytes of JSON. Nothing is unpickled."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct(">Q")
MOST = 64 * 2**20  # bytes of a message that is read


class BadMessageError(ValueError):
    """What came is no message: too long, cut off, or no JSON object."""


class Channel:
    """The two directions of one conversation, as binary files."""

    def __init__(self, read: BinaryIO, write: BinaryIO) -> None:
        self._read, self._write = read, write

    def send(self, message: dict[str, Any]) -> None:
        """Hand a message over.

        Raises:
            OSError: the other side is gone.
        """
        content = json.dumps(message).encode()
        self._write.write(LENGTH.pack(len(content)) + content)
        self._write.flush()

    def receive(self, most: int = MOST) -> dict[str, Any]:
        """The next message, waited for.

        Raises:
            EOFError: the other side is gone.
            BadMessageError: it sent something else than a message of at most so many bytes.
        """
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        if length > most:
            raise BadMessageError(f"a message of {length:,} bytes; {most:,} are the most")
        content = self._exactly(length)
        try:
            message = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadMessageError("a message that is no JSON") from error
        if not isinstance(message, dict):
            raise BadMessageError("a message that is no JSON object")
        return message

    def close(self) -> None:
        """Say that nothing more comes."""
        for file in (self._write, self._read):
            try:
                file.close()
            except OSError:  # what was not sent yet finds nobody
                continue

    def _exactly(self, length: int) -> bytes:
        content = self._read.read(length)
        if len(content) < length:
            raise EOFError("the other side is gone")
        return content
