"""Worker processes: started on their ports, polled, and restarted."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import h11

from ..live.addresses import HEALTH, READY
from .lines import fetch

LOOK = 0.25  # seconds between two requests to a worker that is not ready
LOOK_AGAIN = 1.0  # and to a ready one
BREATH = 1.0  # seconds before a worker that ended is restarted
ENDING = 10.0  # seconds that a worker may take to end before it is killed
PATIENCE = 5.0  # seconds for one status request
TRIES = 3  # consecutive ends before any answer: no worker can start


class CannotStart(Exception):
    """A worker has ended repeatedly before it answered."""


@dataclass(eq=False)
class Worker:
    """Process of the app.

    Attributes:
        is_up: True since it first answered.
        is_ready: True once its model is loaded.
        is_silent: True while it runs and does not answer: it hangs, or is overloaded.
        visitors: Websockets open to it.
        given: Number of users that were ever sent to it.
    """

    number: int
    port: int = 0
    process: Process | None = None
    is_up: bool = False
    is_ready: bool = False
    is_silent: bool = False
    visitors: int = 0
    given: int = 0
    restarts: int = 0
    stopping: bool = False

    @property
    def answers(self) -> bool:
        """True if its last status request was answered."""
        return self.is_up and not self.is_silent

    async def keep(self, surroundings: Mapping[str, str], changed: asyncio.Event) -> None:
        """Start the process, and restart it whenever it ends, until `stop`.

        Args:
            surroundings: Environment variables of the process.
            changed: Set whenever it starts to answer or ends.

        Raises:
            CannotStart: It ends repeatedly before it answers.
        """
        failed = 0
        while not self.stopping:
            process = self.process = await self._start(surroundings)
            watch = asyncio.create_task(self._watch(changed))
            status = await process.wait()
            answered = self.is_up
            watch.cancel()
            self.is_up = self.is_ready = self.is_silent = False
            changed.set()
            if self._is_stopping():
                return
            failed = 0 if answered else failed + 1
            if failed == TRIES:
                raise CannotStart(
                    f"Worker {self.number} ended {TRIES} times before it answered (status "
                    f"{status}); what it wrote above says why."
                )
            self.restarts += 1
            say(f"worker {self.number} ended (status {status}) and is started again")
            await asyncio.sleep(BREATH)

    def _is_stopping(self) -> bool:
        """Return True if `stop` was called meanwhile."""
        return self.stopping

    async def _start(self, surroundings: Mapping[str, str]) -> Process:
        self.port = free_port()
        own = {"STREAMLIT_SERVER_ADDRESS": "127.0.0.1", "STREAMLIT_SERVER_PORT": str(self.port)}
        # It ends when its standard input closes, i.e. with this process. As a session leader it
        # does not receive the terminal's Ctrl-C; this process ends it.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "transformer_viz.app.balancer.worker"),
            env={**surroundings, **own},
            stdin=PIPE,
            start_new_session=True,
        )

    async def _watch(self, changed: asyncio.Event) -> None:
        """Poll the process until its model is loaded, which the request starts; then its health."""
        while True:
            asked = HEALTH if self.is_ready else READY
            try:
                status, _ = await asyncio.wait_for(fetch(self.port, asked), PATIENCE)
                self.is_up, self.is_silent = True, False
                self.is_ready = self.is_ready or status == 200
                changed.set()
            except TimeoutError:
                self.is_silent = True
            except (OSError, h11.RemoteProtocolError):
                pass  # it starts, or has ended, which `keep` notices
            await asyncio.sleep(LOOK_AGAIN if self.is_ready else LOOK)

    async def stop(self) -> None:
        """Terminate the process, and kill it after a while."""
        self.stopping = True
        if self.process is None or self.process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), ENDING)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(words: str) -> None:
    """Write a line for the operator to stderr."""
    print(f"transformer-viz: {words}", file=sys.stderr, flush=True)
