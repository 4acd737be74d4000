"""A proxy on this machine that serves an app below a path, and takes the path away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import h11

from transformer_viz.app.balancer.balancer import Balancer
from transformer_viz.app.balancer.lines import Line, connect, exchange


@contextmanager
def stripping_proxy(url: str, path: str) -> Iterator[str]:
    """The address at which the app of ``url`` stands below ``path``."""
    port = urlsplit(url).port
    assert port is not None
    started, found, ends = threading.Event(), [0], asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        browser = Line(reader, writer, to_worker=False)
        passed = Balancer([])
        try:
            while isinstance(request := await browser.event(), h11.Request):
                assert request.target.startswith(path.encode())
                asked = passed.passed_on(request, "127.0.0.1")
                target = request.target.removeprefix(path.encode()) or b"/"
                asked = h11.Request(method=asked.method, target=target, headers=asked.headers)
                worker = await connect(port)
                try:
                    if not await exchange(browser, worker, asked, ()):
                        break
                finally:
                    worker.close()
        except (OSError, h11.ProtocolError, asyncio.CancelledError):
            pass
        finally:
            browser.close()

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        found[0] = server.sockets[0].getsockname()[1]
        started.set()
        await ends.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield f"http://127.0.0.1:{found[0]}{path}"
    finally:
        loops[0].call_soon_threadsafe(ends.set)
        thread.join(10)
