"""Children that do a job for the server, seen from the server: asked, timed, ended, counted."""

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

SPLITS = sys.platform.startswith("linux")  # elsewhere a process with libraries loaded may not
STARTING = 120.0  # seconds for a Python with all libraries to be there
ANSWER = 90.0  # seconds for the nursery, which begins and ends processes, and may import meanwhile
REQUEST = 2**16  # bytes
#: What a child may know of the server's environment; everything else stays here.
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
QUIET = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
WATCH = Watch()
NURSERY = "from transformer_viz.confinement.nursery import {0}; {0}()"


class StoppedError(Exception):
    """A child that gave no answer.

    Attributes:
        late: its time was over.
        status: how it ended, a code or minus a signal; None where that is not known.
        full: it was stopped as its files took more of the disk than they may.
    """

    def __init__(self, late: bool, status: int | None, full: bool = False) -> None:
        said = "wrote too much" if full else f"ended ({ending(status)})"
        super().__init__("took too long" if late else said)
        self.late, self.status, self.full = late, status, full


def ending(status: int | None) -> str:
    """How a process ended, in a word: the name of a signal, or a code."""
    if status is None:
        return "unknown"
    try:
        return signal.Signals(-status).name if status < 0 else f"code {status}"
    except ValueError:
        return f"signal {-status}"


class Nursery:
    """The process that begins children, started when it is first needed, again if it is gone."""

    def __init__(self, prepare: str, later: str, *jobs: str) -> None:
        """``prepare`` imports what the jobs need, ``later`` what only some need, when nothing else
        is to be done; all are named ``module:function``."""
        self._jobs = (prepare, later, *jobs)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def begin(self, job: str, handle: int, limits: Limits) -> int:
        """Begin a child with one end of a socket; its number.

        Raises:
            OSError: no process can be begun.
        """
        request = {"do": "begin", "job": job, "limits": asdict(limits)}
        with self._lock:
            try:
                answer = self._asked(request, handle)
            except OSError:  # it is gone: killed, or never there
                self._leave()
                answer = self._asked(request, handle)
        return int(answer["process"])

    def end(self, process: int) -> int | None:
        """Kill a child, if it still lives, and say how it ended; None if nobody knows."""
        with self._lock:
            if self._socket is None:
                return None
            try:
                status = self._asked({"do": "end", "process": process}).get("status")
            except OSError:  # with it all its children are gone
                self._leave()
                return None
        return status if isinstance(status, int) else None

    def warm(self) -> None:
        """Have it started."""
        with self._lock, suppress(OSError):
            self._started()

    @property
    def process(self) -> int | None:
        """The number of its process; None before the first child."""
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
        except OSError:  # a greeting that comes later would be read as the first answer
            self._leave()
            raise
        ours.settimeout(ANSWER)
        return ours

    def _leave(self) -> None:
        """Let go of a nursery that answers no more, and of its children with it."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None


class Child:
    """One process at work for the server, by itself and confined.

    ``enforced`` says after the first answer what the platform holds it to, ``limits`` are its own.
    """

    def __init__(self, nursery: Nursery, job: str, limits: Limits) -> None:
        """Begin it.

        Raises:
            OSError: no process can be begun.
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
        """What the child answers.

        Raises:
            StoppedError: it did not answer in so many seconds, or ended; it is killed and reaped.
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
        """Kill the child if its files take more of the disk than they may; `ask` finds it so."""
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
            else:  # not by the nursery, which may be busy
                os.kill(self._number, signal.SIGKILL)

    def end(self) -> int | None:
        """Kill the child, if it still lives, and reap it; how it ended."""
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
        """End it and let go of the line to it; not while somebody asks."""
        self.end()
        self._channel.close()
        if self._socket is not None:
            self._socket.close()


def environment() -> dict[str, str]:
    """What a child's environment holds: where Python is, one thread, and no secrets."""
    kept = {word: os.environ[word] for word in KEPT if word in os.environ}
    own = str(Path(__file__).parents[2])  # this very package, and no other of its name
    places = [own, *(os.path.abspath(place) for place in sys.path if place)]
    return kept | ONE_THREAD | QUIET | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places))}
