"""HTTP/1.1 connections, one request after the other, and forwarding between two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import h11

CHUNK = 65_536  # bytes read at once
LONGEST_HEAD = 65_536  # bytes of a request head, which contains the session's link
PATIENCE = 60.0  # seconds for the first byte of a response
#: Hop-by-hop headers, which are not forwarded.
OWN = {b"connection", b"keep-alive", b"proxy-connection"}
Header = tuple[bytes, bytes]


class Line:
    """Connection to a browser or to a worker."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_worker: bool
    ) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(
            h11.CLIENT if to_worker else h11.SERVER, max_incomplete_event_size=LONGEST_HEAD
        )

    async def event(self) -> h11.Event | type[h11.PAUSED]:
        """Return the next event from the other side.

        Raises:
            h11.RemoteProtocolError: The other side does not use HTTP/1.1.
        """
        while True:
            event = self.http.next_event()
            if isinstance(event, h11.Event) or event is h11.PAUSED:
                return event
            self.http.receive_data(await self.reader.read(CHUNK))

    async def send(self, event: h11.Event) -> None:
        """Send an event to the other side."""
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.writer.close()


async def connect(port: int) -> Line:
    """Return a connection to a local worker.

    Raises:
        OSError: No process listens there.
    """
    return Line(*await asyncio.open_connection("127.0.0.1", port), to_worker=True)


async def fetch(port: int, path: str) -> tuple[int, bytes]:
    """Return status and body of a worker's response.

    Raises:
        OSError: There is no response.
        h11.RemoteProtocolError: The response is no HTTP.
    """
    line = await connect(port)
    try:
        headers = [("Host", "127.0.0.1"), ("Connection", "close")]
        await line.send(h11.Request(method="GET", target=path, headers=headers))
        await line.send(h11.EndOfMessage())
        status, body = 0, b""
        while True:
            event = await line.event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif not isinstance(event, h11.InformationalResponse):
                return status, body
    finally:
        line.close()


async def exchange(
    browser: Line,
    worker: Line,
    request: h11.Request,
    more: Sequence[Header],
    patience: float = PATIENCE,
) -> bool:
    """Forward one request and its response; a websocket is forwarded until it ends.

    Args:
        browser: Connection that has sent ``request``, whose headers are forwarded as they are.
        worker: A new connection.
        more: Headers added to the response.
        patience: Seconds for the first byte of a response, once the whole request was sent.

    Returns:
        True if the browser may send another request on the same connection.

    Raises:
        TimeoutError: No response began; nothing was sent to the browser.
    """
    await worker.send(request)
    sending = asyncio.create_task(_send_body(browser, worker, patience))
    coming = asyncio.create_task(worker.event())
    try:
        await asyncio.wait({coming, sending}, return_when=asyncio.FIRST_COMPLETED)
        event = await asyncio.wait_for(coming, patience)
        while True:
            if isinstance(event, h11.InformationalResponse):
                switched = event.status_code == 101
                headers = [*event.headers, *more] if switched else event.headers
                await browser.send(
                    h11.InformationalResponse(
                        status_code=event.status_code, headers=headers, reason=event.reason
                    )
                )
                if switched:
                    await sending
                    await _pass_through(browser, worker)
                    return False
            elif isinstance(event, h11.Response):
                kept = [(name, value) for name, value in event.headers if name not in OWN]
                await browser.send(
                    h11.Response(
                        status_code=event.status_code, headers=[*kept, *more], reason=event.reason
                    )
                )
            elif isinstance(event, h11.Data):
                await browser.send(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await browser.send(h11.EndOfMessage(headers=event.headers))
                break
            else:  # the worker closed the connection
                return False
            event = await worker.event()
    finally:
        coming.cancel()
        if not sending.done():  # a response before the end of the request: it was refused
            sending.cancel()
        with suppress(asyncio.CancelledError, OSError, h11.ProtocolError):
            await sending
    if browser.http.our_state is not h11.DONE or browser.http.their_state is not h11.DONE:
        return False
    browser.http.start_next_cycle()
    return True


async def _send_body(browser: Line, worker: Line, patience: float) -> None:
    """Forward the rest of a request as it arrives."""
    if browser.http.their_state not in (h11.IDLE, h11.SEND_BODY):  # a repeated request
        await worker.send(h11.EndOfMessage())
        return
    while True:
        event = await browser.event()
        if isinstance(event, h11.Data):
            await asyncio.wait_for(worker.send(h11.Data(data=event.data)), patience)
        elif isinstance(event, h11.EndOfMessage):
            await worker.send(h11.EndOfMessage(headers=event.headers))
            return
        else:
            return


async def _pass_through(browser: Line, worker: Line) -> None:
    """Forward bytes in both directions until one side ends."""
    both = [
        asyncio.create_task(_copy(one, other))
        for one, other in ((browser, worker), (worker, browser))
    ]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _copy(source: Line, sink: Line) -> None:
    data = source.http.trailing_data[0]  # received along with the handshake
    while True:
        if data:
            sink.writer.write(data)
            await sink.writer.drain()
        data = await source.reader.read(CHUNK)
        if not data:
            return
