"""Limits of one upload: its bytes count as they arrive, whatever its headers state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.types import Message, Receive, Send

from .rates import Rates

STILL = 30  # seconds without a byte after which an upload ends
SLOW_AFTER = 60  # seconds after which its pace is checked
FULL_AGAIN = 60  # seconds until a retry if all sessions together hold too much
PACE = 4_000  # minimum bytes a second by then, on average


class LimitError(Exception):
    """An upload over a limit: ``what``, and the seconds to ``wait``."""

    def __init__(self, what: str, wait: float) -> None:
        super().__init__(what)
        self.what, self.wait = what, wait


class Counted:
    """Body of one upload, with counted bytes.

    Each piece takes its bytes from the share of its session and address. Bytes of an upload that
    its sender aborts are returned to them.

    Args:
        left: Returns the bytes that uploads of all sessions may still send.
    """

    def __init__(
        self,
        rates: tuple[Rates, Rates],
        whose: tuple[str, str],
        receive: Receive,
        send: Send,
        left: Callable[[], float],
    ) -> None:
        self._rates, self._whose, self._left = rates, whose, left
        self._receive, self._send = receive, send
        self.size, self._begun, self._over = 0, time.monotonic(), False
        self.answered = False

    @property
    def breaks_off(self) -> bool:
        """True if more of the body is still to come."""
        return not self._over

    async def receive(self) -> Message:
        """Return the next piece.

        Raises:
            LimitError: More bytes than the share, or a body that stalls or is too slow.
        """
        if self._over:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), STILL)
        except TimeoutError:
            raise LimitError("slow", 1) from None
        if message["type"] == "http.disconnect":
            self._over = True
            for rates, who in zip(self._rates, self._whose, strict=True):
                rates.give_back(who, self.size)
            return message
        size = len(message.get("body", b""))
        self._over = not message.get("more_body", False)
        if size > self._left():
            raise LimitError("full", FULL_AGAIN)
        own, shared = self._rates
        if wait := own.wait(self._whose[0], size):
            raise LimitError("volume", wait)
        self.size += size
        if wait := shared.wait(self._whose[1], size):
            raise LimitError("volume", wait)
        seconds = time.monotonic() - self._begun
        if not self._over and seconds > SLOW_AFTER and self.size < PACE * seconds:
            raise LimitError("slow", 1)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response, and note that there is one."""
        self.answered = True
        await self._send(message)
