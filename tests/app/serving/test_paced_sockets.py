"""Frames of a websocket over its rate wait, whatever they are; others come at once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import uvicorn
import websockets
from starlette.types import Receive, Scope, Send

from tests.app.live.test_visit_limits import run
from transformer_viz import settings
from transformer_viz.app.serving import paced_sockets
from transformer_viz.app.serving.paced_sockets import PacedSocket


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send back each message."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


async def _pings(line: Any, count: int) -> None:
    for _ in range(count):
        await line.ping()


async def _pieces(line: Any, count: int) -> None:
    await line.send([b"" for _ in range(count)])


@pytest.mark.parametrize("flood", [_pings, _pieces])
def test_floods_that_no_app_sees_wait(flood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.MESSAGES.variable, "20")
    monkeypatch.setattr(paced_sockets, "A_SECOND", 1000)
    monkeypatch.setattr(paced_sockets, "BURST", 500)

    async def meets() -> tuple[float, list[float]]:
        config = uvicorn.Config(
            echo, port=0, ws=PacedSocket, lifespan="off", log_level="error", ws_ping_interval=None
        )
        server = uvicorn.Server(config)
        serves = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/"
        async with (
            websockets.connect(url, ping_interval=None) as one,
            websockets.connect(url) as other,
        ):
            began = time.monotonic()
            await flood(one, 2000)
            large = b"after" * 100_000  # longer than what is parsed at once
            answer = asyncio.create_task(one.recv())
            await one.send(large)
            others = []
            while not answer.done():
                start = time.monotonic()
                await other.send(b"hello")
                assert await other.recv() == b"hello"
                others.append(time.monotonic() - start)
                await asyncio.sleep(0.05)
            if flood is _pieces:  # the message of empty pieces came first
                assert answer.result() == b"" and await one.recv() == large
            else:
                assert answer.result() == large
            took = time.monotonic() - began
        server.should_exit = True
        await serves
        return took, others

    took, others = run(meets())
    assert took > 1.2  # (2000 - 500) / 1000 s, less what the last piece may be in debt
    assert sorted(others)[len(others) // 2] < 0.2
