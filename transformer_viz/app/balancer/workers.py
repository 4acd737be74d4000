"""The processes of the app: started on ports of their own, asked how they are, started again."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass

from ..live.addresses import HEALTH, READY

LOOK = 0.25  # seconds between two questions to a worker that is not ready yet
LOOK_AGAIN = 1.0  # and to one that is
BREATH = 1.0  # seconds before a worker that ended is started again
ENDING = 10.0  # seconds that a process may take to end before it is killed
PATIENCE = 5.0  # seconds for one answer about its state
TRIES = 3  # workers in a row that end before they ever answered: something is wrong with all


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody uses just now."""
    with ExitStack() as probes:
        found = [probes.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]


@dataclass(eq=False)
class Worker:
    """One process of the app. ``is_up`` since it answered, ``is_ready`` once its model is loaded,
    ``is_silent`` while it runs and answers nothing: it stands still, or has too much to do.

    All processes of one worker have the same port: Caddy knows it by that.
    """

    number: int
    port: int
    process: subprocess.Popen[bytes] | None = None
    is_up: bool = False
    is_ready: bool = False
    is_silent: bool = False
    restarts: int = 0
    stopping: bool = False

    @property
    def answers(self) -> bool:
        """Whether it answers now, as far as is known."""
        return self.is_up and not self.is_silent

    def keep(self, surroundings: Mapping[str, str], give_up: Callable[[str], object]) -> None:
        """Start the process, and again whenever it ends, until it is stopping.

        Args:
            surroundings: environment variables of the process.
            give_up: called with the reason if it ends before it answers, time after time.
        """
        failed = 0
        while not self.stopping:
            with self._start(surroundings) as self.process:
                status = self._watch(self.process)
            failed = 0 if self.is_up else failed + 1
            self.is_up = self.is_ready = self.is_silent = False
            if self._is_stopping():
                return
            if failed == TRIES:
                give_up(
                    f"Worker {self.number} ended {TRIES} times before it answered (status "
                    f"{status}); what it wrote above says why."
                )
                return
            self.restarts += 1
            say(f"worker {self.number} ended (status {status}) and is started again")
            time.sleep(BREATH)

    def _is_stopping(self) -> bool:
        """Return whether `stop` was called meanwhile."""
        return self.stopping

    def _start(self, surroundings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        own = {"STREAMLIT_SERVER_ADDRESS": "127.0.0.1", "STREAMLIT_SERVER_PORT": str(self.port)}
        # Its standard input tells it when this process is gone. In a group of its own it does not
        # hear the terminal's Ctrl-C; this process ends it.
        return subprocess.Popen(
            [sys.executable, "-m", "transformer_viz.app.balancer.worker"],
            env={**surroundings, **own},
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Return the status with which the process ends.

        Until then ask whether its model is loaded, which loads it, and later whether it answers.
        """
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_AGAIN if self.is_ready else LOOK)
            try:
                status, _ = fetch(self.port, HEALTH if self.is_ready else READY)
                self.is_up, self.is_silent = True, False
                self.is_ready = self.is_ready or status == 200
            except TimeoutError:
                self.is_silent = True
            except (OSError, http.client.HTTPException):
                pass  # it begins, or has ended: the process tells


def fetch(port: int, path: str, patience: float = PATIENCE) -> tuple[int, bytes]:
    """Return the status and the body that a worker answers.

    Raises:
        OSError: nobody answers; `TimeoutError` where somebody listens.
        http.client.HTTPException: what answers speaks no HTTP.
    """
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience)) as line:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read()


def stop(workers: Iterable[Worker], *others: subprocess.Popen[bytes]) -> None:
    """End all processes: first asked, then killed. No worker is started again."""
    processes = [*others]
    for worker in workers:
        worker.stopping = True
        processes += [worker.process] if worker.process is not None else []
    for process in processes:
        process.terminate()
    end = time.monotonic() + ENDING
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def say(words: str) -> None:
    """Print a line for whoever runs the server."""
    print(f"transformer-viz: {words}", file=sys.stderr, flush=True)
