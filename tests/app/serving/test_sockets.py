"""Sockets of the server: how many, sent without delay, and none faster than its rate."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any

import pytest
import uvicorn
import websockets
from starlette.types import Receive, Scope, Send
from streamlit.web.server.starlette import starlette_server

from tests.support.asgi import run
from transformer_viz import settings
from transformer_viz.app.live import server
from transformer_viz.app.serving import descriptors, no_delay, paced_sockets
from transformer_viz.app.serving.paced_sockets import PacedSocket


def test_the_server_takes_as_many_descriptors_as_the_system_grants(monkeypatch) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    little, most = 300, max(descriptors.WANTED)  # many systems begin a program with few

    def refuse(kind: int, wanted: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    resource.setrlimit(resource.RLIMIT_NOFILE, (little, hard))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(resource, "setrlimit", refuse)
            assert descriptors.make_room() == little
        expected = most if hard == resource.RLIM_INFINITY else min(most, hard)
        for _ in range(2):  # a second time changes nothing
            assert descriptors.make_room() == expected > little
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_server_makes_room_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class App:
        def run(self, config: dict[str, object]) -> None:
            asked.append("run")

    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(server, "application", App)
    monkeypatch.setattr(descriptors, "make_room", lambda: asked.append("room"))
    server.main([], standalone_mode=False)
    assert asked == ["room", "run"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_accepted_connections_send_at_once(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    def delays(listening: socket.socket) -> bool:
        """Return whether a connection that this socket accepts delays small writes."""
        with socket.create_connection(listening.getsockname()[:2]):
            listening.setblocking(True)
            with listening.accept()[0] as accepted:
                return not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    monkeypatch.setattr(starlette_server, "_bind_socket", no_delay._bind)
    try:
        plain = starlette_server._bind_socket(address, 0, 5)
    except OSError:
        pytest.skip(f"no {address} here")
    with plain:
        assert delays(plain), "Streamlit itself sends at once now: app/serving/no_delay.py can go"
    no_delay.send_at_once()
    with starlette_server._bind_socket(address, 0, 5) as prompt:
        assert not delays(prompt)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send back each message."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


@pytest.mark.slow
@pytest.mark.parametrize("flood", ["pings", "pieces"])
def test_floods_that_no_app_sees_wait(flood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second connection is answered at once meanwhile."""
    monkeypatch.setenv(settings.MESSAGES.variable, "20")
    monkeypatch.setattr(paced_sockets, "A_SECOND", 1000)
    monkeypatch.setattr(paced_sockets, "BURST", 500)
    large = b"after" * 100_000  # longer than what is parsed at once

    async def floods(line: Any) -> None:
        if flood == "pieces":
            return await line.send([b""] * 2000)
        for _ in range(2000):
            await line.ping()

    async def meets(url: str) -> tuple[float, list[float]]:
        others = []
        connect = websockets.connect
        async with connect(url, ping_interval=None) as one, connect(url) as other:
            began = time.monotonic()
            await floods(one)
            answer = asyncio.create_task(one.recv())
            await one.send(large)
            while not answer.done():
                start = time.monotonic()
                await other.send(b"hello")
                assert await other.recv() == b"hello"
                others.append(time.monotonic() - start)
                await asyncio.sleep(0.05)
            if flood == "pieces":  # the message of empty pieces came first
                assert answer.result() == b"" and await one.recv() == large
            else:
                assert answer.result() == large
            return time.monotonic() - began, others

    async def served() -> tuple[float, list[float]]:
        config = uvicorn.Config(
            echo, port=0, ws=PacedSocket, lifespan="off", log_level="error", ws_ping_interval=None
        )
        server = uvicorn.Server(config)
        serves = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found = await meets(f"ws://127.0.0.1:{port}/")
        server.should_exit = True
        await serves
        return found

    took, others = run(served())
    assert took > 1.2  # (2000 - 500) / 1000 s, less what the last piece may be in debt
    assert sorted(others)[len(others) // 2] < 0.2
