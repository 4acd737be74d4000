"""A client that opens 200 connections, and slow ones: they read a sentence, others are served."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from benchmarks.pupil import Pupil
from tests.app.balancer.test_workers import got, until
from tests.support.browser import running_app
from transformer_viz import settings

pytestmark = pytest.mark.process
MANY = 200  # connections of one client
MOST = 120  # pages that one address may have open: those of a class, twice
LINK = {"text": "The cat sat.", "block": "cross", "layer": "1", "head": "1"}
PATIENT = {"X-Forwarded-For": "10.0.0.7"}  # a visitor of another address, as a proxy here says


@pytest.fixture
def url(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two workers, whose visitors are held to the shares of a server for others."""
    monkeypatch.setenv(settings.MODEL.variable, str(shelf / "tiny"))
    for setting in settings.SHARES:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv(settings.CONNECTIONS.variable, str(settings.CONNECTIONS.default))
    with running_app(workers=2) as address:
        # one address leads to one worker; while that one is not up yet, to the other
        until(lambda: got(address, "/ready")[1].startswith(b"2 of 2"))
        yield address


def test_others_do_not_notice_two_hundred_connections_nor_slow_clients(url: str) -> None:
    with ExitStack() as slow:
        for _ in range(20):  # half a request, and then nothing
            parts = urlsplit(url)
            line = socket.create_connection((parts.hostname, parts.port), timeout=20)
            slow.enter_context(line)
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/ht")
        with ThreadPoolExecutor(1) as thread:  # a browser's test before this one left a loop here
            words = thread.submit(asyncio.run, _beside(url)).result()
    assert len(words) == MANY - MOST  # without a cookie all of them go to one worker
    assert {status for status, _ in words} == {503}
    assert all(re.search(r"\. Try again in \d+ s\.$", told) for _, told in words), words[-1]


async def _beside(url: str) -> list[tuple[int, str]]:
    """What one client is told of its 200 pages, of which it reads none; a pupil works meanwhile."""
    address = f"ws://{urlsplit(url).netloc}/_stcore/stream"
    held, words = [], []
    ask = BackMsg()
    ask.rerun_script.query_string = "text=The+dog+sat."
    for number in range(MANY):
        try:
            page = await connect(address, subprotocols=["streamlit"], compression=None, max_queue=1)
        except InvalidStatus as error:
            body = (error.response.body or b"").decode()
            words.append((error.response.status_code, body))
            continue
        held.append(page)
        if number % 20 == 0:
            await page.send(ask.SerializeToString())  # its answer is never read
    await asyncio.to_thread(_works, url)
    for page in held:
        page.transport.abort()
    return words


def _works(url: str) -> None:
    pupil = Pupil(url, dict(PATIENT))
    pupil.open(LINK)
    for number in range(3):
        pupil.frame(f"{number + 2}.0", int(pupil.slider["seq"]) + 1)
        pupil.tell(f"{number + 2}.0", int(pupil.slider["seq"]) + 2)
    assert pupil.seen.alerts == []
    pupil.end()
    assert got(url, "/_stcore/health", **PATIENT)[0] == 200
