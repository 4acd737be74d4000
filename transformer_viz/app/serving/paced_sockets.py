"""Rate limit for the frames of a websocket, below ASGI: pings, pongs, fragments and messages.

uvicorn answers pings and collects fragments itself, so no middleware ever counts them. Here input
is parsed in small pieces, and a socket over its rate is not read until it is within it. Messages
are limited again, by the limits of a page, in :mod:`transformer_viz.app.live.visit_limits`.
"""

from __future__ import annotations

import time
from asyncio import TimerHandle
from typing import Any

from streamlit.web.server.starlette import starlette_server
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ... import settings

A_SECOND, BURST = 200, 1000  # frames of one socket; a browser sends about one for each message
PIECE = 2048  # bytes parsed at once: 340 frames at most
LARGEST = 8_000_000  # bytes of a message; pages send some kilobytes


class PacedSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol, which stops reading from a socket that sends too often."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.max_message_size = min(self.conn.max_message_size or LARGEST, LARGEST)
        self._level, self._since, self._frames = float(BURST), time.monotonic(), 0
        self._rest = bytearray()
        self._timer: TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse the data, or keep it while the socket is over its rate."""
        self._rest += data
        if self._timer is None:
            self._parse()

    def _parse(self) -> None:
        self._timer = None
        while self._rest and not self.transport.is_closing():
            piece = bytes(self._rest[:PIECE])
            del self._rest[:PIECE]
            self._frames = 0
            super().data_received(piece)
            wait = self._taken(self._frames)
            if wait and settings.MESSAGES.number:
                self._timer = self.loop.call_later(wait, self._parse)
                self.transport.pause_reading()
                return
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _taken(self, frames: int) -> float:
        """Take frames from the bucket; return the seconds until it is out of debt."""
        now = time.monotonic()
        self._level = min(BURST, self._level + (now - self._since) * A_SECOND) - frames
        self._since = now
        return max(0.0, -self._level / A_SECOND)

    async def receive(self) -> Any:
        """Return the next message; resume reading only if no data is kept back."""
        message = await super().receive()
        if self._timer is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rest.clear()
        super().connection_lost(exc)

    def handle_ping(self) -> None:
        self._frames += 1
        super().handle_ping()

    def handle_pong(self, event: Any) -> None:
        self._frames += 1
        super().handle_pong(event)

    def handle_text(self, event: Any) -> None:
        self._frames += 1
        super().handle_text(event)

    def handle_bytes(self, event: Any) -> None:
        self._frames += 1
        super().handle_bytes(event)

    def handle_cont(self, event: Any) -> None:
        self._frames += 1
        super().handle_cont(event)


def pace() -> None:
    """Limit the websockets of this process, if it uses uvicorn's sans-I/O implementation."""
    server: Any = starlette_server
    if server._get_websocket_protocol() == "websockets-sansio":
        server._get_websocket_protocol = lambda: PacedSocket
