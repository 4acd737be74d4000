"""Parent side of confined child processes: start, request, timeout, stop, disk usage."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

from .channel import BadMessageError, Channel
from .disk import Watch, kept
from .limits import Limits

SPLITS = sys.platform.startswith("linux")  # elsewhere forking with loaded libraries is unsafe
STARTING = 120.0  # seconds for the start of Python with all libraries
ANSWER = 90.0  # seconds for a reply of the fork server, which may import meanwhile
REQUEST = 2**16  # bytes
#: Environment variables of the server that are passed to a child.
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
QUIET = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
WATCH = Watch()
NURSERY = "from transformer_viz.confinement.nursery import {0}; {0}()"


class StoppedError(Exception):
    """A child stopped without a reply.

    Attributes:
        late: True if it timed out.
        status: Exit code, or minus a signal; None if unknown.
        full: True if it was stopped because its files exceeded the disk limit.
    """

    def __init__(self, late: bool, status: int | None, full: bool = False) -> None:
        said = "wrote too much" if full else f"ended ({ending(status)})"
        super().__init__("took too long" if late else said)
        self.late, self.status, self.full = late, status, full


def ending(status: int | None) -> str:
    """Return the exit status of a process as text: the name of a signal, or a code."""
    if status is None:
        return "unknown"
    try:
        return signal.Signals(-status).name if status < 0 else f"code {status}"
    except ValueError:
        return f"signal {-status}"


class Nursery:
    """Client of the fork server, which is started on first use and restarted if it is gone."""

    def __init__(self, prepare: str, later: str, *jobs: str) -> None:
        """Store the names of functions, all as ``module:function``.

        ``prepare`` imports the modules that all jobs need, ``later`` optional ones while idle.
        """
        self._jobs = (prepare, later, *jobs)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def begin(self, job: str, handle: int, limits: Limits) -> int:
        """Start a child with one end of a socket, and return its process id.

        Raises:
            OSError: No process can be started.
        """
        request = {"do": "begin", "job": job, "limits": asdict(limits)}
        with self._lock:
            try:
                answer = self._asked(request, handle)
            except OSError:  # it was killed, or never started
                self._leave()
                answer = self._asked(request, handle)
        return int(answer["process"])

    def end(self, process: int) -> int | None:
        """Kill a child, if it still runs, and return its exit status, or None if unknown."""
        with self._lock:
            if self._socket is None:
                return None
            try:
                status = self._asked({"do": "end", "process": process}).get("status")
            except OSError:  # its children ended with it
                self._leave()
                return None
        return status if isinstance(status, int) else None

    def warm(self) -> None:
        """Start the fork server if it does not run."""
        with self._lock, suppress(OSError):
            self._started()

    @property
    def process(self) -> int | None:
        """Process id of the fork server; None before the first child."""
        return None if self._process is None else self._process.pid

    def _asked(self, request: dict[str, Any], *handles: int) -> dict[str, Any]:
        server = self._started()
        socket.send_fds(server, [json.dumps(request).encode()], handles)
        content = server.recv(REQUEST)
        if not content:
            raise OSError("the process that begins children is gone")
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _started(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-c", NURSERY.format("main"), str(theirs.fileno()), *self._jobs]
        with theirs:
            self._process = subprocess.Popen(
                words,
                env=environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket = ours
        ours.settimeout(STARTING)
        try:
            if not ours.recv(REQUEST):
                raise OSError("it ended while it started")
        except OSError:  # a late greeting would be read as the first reply
            self._leave()
            raise
        ours.settimeout(ANSWER)
        return ours

    def _leave(self) -> None:
        """Stop a fork server that does not reply, and its children with it."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None


class Child:
    """A confined child process of the server.

    ``enforced`` holds after the first reply the limits that the platform enforces; ``limits`` are
    the requested ones.
    """

    def __init__(self, nursery: Nursery, job: str, limits: Limits) -> None:
        """Start the process.

        Raises:
            OSError: No process can be started.
        """
        self._nursery, self.limits, self._ended = nursery, limits, threading.Lock()
        self._status: int | None = None
        self._over = self.full = False
        self.enforced: tuple[str, ...] = ()
        self._greeted = False
        if SPLITS:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._number = nursery.begin(job, theirs.fileno(), limits)
                except OSError:
                    ours.close()
                    raise
            self._own: subprocess.Popen[bytes] | None = None
            self._socket: socket.socket | None = ours
            files = (ours.makefile("rb"), ours.makefile("wb"))
        else:
            self._own = subprocess.Popen(
                [sys.executable, "-c", NURSERY.format("alone"), job, json.dumps(asdict(limits))],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._socket, files = None, (self._own.stdout, self._own.stdin)  # type: ignore[assignment]
        self._channel = Channel(cast(BinaryIO, files[0]), cast(BinaryIO, files[1]))
        WATCH.add(self)

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a message and return the reply.

        Raises:
            StoppedError: No reply within ``seconds``, or the child ended; it is killed and reaped.
        """
        late = threading.Event()

        def over() -> None:
            late.set()
            self.end()

        timer = threading.Timer(seconds if self._greeted or SPLITS else seconds + STARTING, over)
        timer.daemon = True
        timer.start()
        try:
            if not self._greeted:
                self.enforced = tuple(map(str, self._channel.receive()["enforced"]))
                self._greeted = True
            self._channel.send(message)
            return self._channel.receive()
        except (OSError, EOFError, BadMessageError, KeyError, TypeError, ValueError) as error:
            status = self.end()
            raise StoppedError(late.is_set(), status, self.full) from error
        finally:
            timer.cancel()

    def check_disk(self) -> None:
        """Kill the child if its files exceed the disk limit; `ask` then raises."""
        number = self._number if self._own is None else None
        found = kept(Path(self.limits.folder), number)
        if found is not None and found <= self.limits.most_on_disk:
            return
        with self._ended:
            if self._over or self.full:
                return
            self.full = True
            if self._own is not None:
                self._own.kill()
            else:  # not through the fork server, which may be busy
                os.kill(self._number, signal.SIGKILL)

    def end(self) -> int | None:
        """Kill the child, if it still runs, reap it, and return its exit status."""
        WATCH.remove(self)
        with self._ended:
            if self._over:
                return self._status
            self._over = True
            if self._own is not None:
                self._own.kill()
                self._status = self._own.wait()
            else:
                self._status = self._nursery.end(self._number)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        return self._status

    def close(self) -> None:
        """Stop the child and close its connection; not thread-safe with `ask`."""
        self.end()
        self._channel.close()
        if self._socket is not None:
            self._socket.close()


def environment() -> dict[str, str]:
    """Return a child's environment: paths of Python, one thread, and no secrets."""
    kept = {word: os.environ[word] for word in KEPT if word in os.environ}
    own = str(Path(__file__).parents[2])  # this package, and no other of the same name
    places = [own, *(os.path.abspath(place) for place in sys.path if place)]
    return kept | ONE_THREAD | QUIET | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places))}
