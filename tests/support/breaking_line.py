"""A line to the app that breaks at a chosen moment, and comes back when it is told to."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

STREAM = b"/_stcore/stream"
WISH = 200  # bytes: what a browser sends to run its page is longer, and its pings are shorter
STEP = 0.005  # seconds


class Line:
    """A TCP relay.

    Attributes:
        url: the app's address over this line.
    """

    def __init__(self, url: str, door: socket.socket) -> None:
        app = urlsplit(url)
        self._app, self._door = (app.hostname, app.port), door
        self.url = f"http://127.0.0.1:{door.getsockname()[1]}"
        self._up = threading.Event()
        self._up.set()
        self._moment: float | None = None
        self._heard = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def break_after(self, moment: float) -> None:
        """Break when a browser next asks for a run, so many seconds later; -1: before it is heard.

        Args:
            moment: in seconds.
        """
        self._heard, self._moment = 0.0, moment

    def mend(self, pause: float = 0.5) -> None:
        """Wait until the line is broken, and for ``pause`` seconds; then carry again."""
        end = time.monotonic() + 10
        while self._up.is_set():
            assert time.monotonic() < end, "Nothing was said over the line, so it did not break."
            time.sleep(STEP)
        time.sleep(pause)
        self._up.set()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                here, _ = self._door.accept()
                if self._up.is_set():
                    threading.Thread(target=self._carry, args=(here,), daemon=True).start()
                else:
                    here.close()

    def _break(self) -> None:
        self._moment = None
        self._up.clear()

    def _carry(self, here: socket.socket) -> None:
        there = socket.create_connection(self._app)
        is_stream = False
        with here, there, suppress(OSError):
            while self._up.is_set():
                since = time.monotonic() - self._heard
                if self._heard and self._moment is not None and since >= self._moment:
                    return self._break()
                for one in select.select([here, there], [], [], STEP)[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    is_wish = one is here and is_stream and len(data) > WISH
                    is_stream |= one is here and STREAM in data
                    if is_wish and self._moment is not None and not self._heard:
                        if self._moment < 0:
                            return self._break()
                        self._heard = time.monotonic()
                    (there if one is here else here).sendall(data)


@contextmanager
def breaking_line(url: str) -> Iterator[Line]:
    """A line to the app at ``url``."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield Line(url, door)
