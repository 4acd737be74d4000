"""Messages between two processes: a length, followed by JSON of that many bytes, without pickle."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct(">Q")
MOST = 64 * 2**20  # maximum bytes of a message


class BadMessageError(ValueError):
    """Invalid message: too long, truncated, or no JSON object."""


class Channel:
    """Both directions of a connection, as binary files."""

    def __init__(self, read: BinaryIO, write: BinaryIO) -> None:
        self._read, self._write = read, write

    def send(self, message: dict[str, Any]) -> None:
        """Send a message.

        Raises:
            OSError: The connection is closed.
        """
        content = json.dumps(message).encode()
        self._write.write(LENGTH.pack(len(content)) + content)
        self._write.flush()

    def receive(self, most: int = MOST) -> dict[str, Any]:
        """Return the next message; blocks until it arrives.

        Raises:
            EOFError: The connection is closed.
            BadMessageError: The message is invalid, or longer than ``most`` bytes.
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
        """Close the connection."""
        for file in (self._write, self._read):
            try:
                file.close()
            except OSError:  # unsent data has no receiver
                continue

    def _exactly(self, length: int) -> bytes:
        content = self._read.read(length)
        if len(content) < length:
            raise EOFError("the other side is gone")
        return content
