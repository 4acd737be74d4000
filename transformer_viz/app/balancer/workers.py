"""The processes of the app: started on ports of their own, asked how they are, started again."""

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

LOOK = 0.25  # seconds between two questions to a worker that is not ready yet
LOOK_AGAIN = 1.0  # and to one that is
BREATH = 1.0  # seconds before a worker that ended is started again
ENDING = 10.0  # seconds that a worker may take to end before it is killed
PATIENCE = 5.0  # seconds for one answer about its state
TRIES = 3  # workers in a row that end before they ever answered: something is wrong with all


class CannotStart(Exception):
    """A worker ends again and again before it answers; says so in a sentence."""


@dataclass(eq=False)
class Worker:
    """One process of the app. ``is_up`` since it answered, ``is_ready`` once its model is loaded,
    ``is_silent`` while it runs and answers nothing: it stands still, or has too much to do.

    ``visitors`` have a websocket open to it, ``given`` were ever sent to it.
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
        """Whether it answers now, as far as is known."""
        return self.is_up and not self.is_silent

    async def keep(self, surroundings: Mapping[str, str], changed: asyncio.Event) -> None:
        """Start the process, and again whenever it ends, until `stop`.

        Args:
            surroundings: environment variables of the process.
            changed: set whenever it comes or goes.

        Raises:
            CannotStart: it ends before it answers, time after time.
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
        """Whether `stop` was called meanwhile."""
        return self.stopping

    async def _start(self, surroundings: Mapping[str, str]) -> Process:
        self.port = free_port()
        own = {"STREAMLIT_SERVER_ADDRESS": "127.0.0.1", "STREAMLIT_SERVER_PORT": str(self.port)}
        # Its standard input tells it when this process is gone. In a group of its own it does not
        # hear the terminal's Ctrl-C; this process ends it.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "transformer_viz.app.balancer.worker"),
            env={**surroundings, **own},
            stdin=PIPE,
            start_new_session=True,
        )

    async def _watch(self, changed: asyncio.Event) -> None:
        """Ask whether its model is loaded, which loads it, and from then on whether it answers."""
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
                pass  # it begins, or has ended: the process tells
            await asyncio.sleep(LOOK_AGAIN if self.is_ready else LOOK)

    async def stop(self) -> None:
        """End the process: first asked, then killed."""
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
    """A port of this machine that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(words: str) -> None:
    """A line for whoever runs the server."""
    print(f"transformer-viz: {words}", file=sys.stderr, flush=True)
