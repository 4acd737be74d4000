"""Fork server: a process with all imports done that forks children (Linux).

It starts with an empty environment and no memory of the server, reads requests from a socket and
has one thread. A child starts within milliseconds, and confines itself before any other work. On
platforms without safe fork, each child is a separate Python process (`alone`).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from . import system_calls
from .channel import Channel
from .limits import Limits, confine

REQUEST = 2**16  # bytes
CALM = 0.3  # idle seconds before optional imports
TRIAL = 20  # maximum seconds of the test under the list of allowed calls
Job = Callable[..., None]


def main() -> None:
    """Serve requests on the socket whose number is the first argument.

    The second argument names the function (``module:function``) that imports all that jobs need.
    The third names optional imports, done while idle. The others name jobs.
    """
    jobs = {name: _found(name) for name in sys.argv[4:]}
    prepare = _found(sys.argv[2])
    prepare()
    server = socket.socket(fileno=int(sys.argv[1]))
    _settle()
    listed = _works_listed(prepare)
    children: set[int] = set()
    with suppress(ConnectionError):  # the client may be gone before the reply
        _serve(server, jobs, children, listed)
    for child in children:
        _ended(child, children.copy())
    os._exit(0)  # nothing is left to write, and unloading libraries would take seconds


def _works_listed(prepare: Job) -> bool:
    """Return True if this Python works under the list of allowed calls, tested in a child.

    Another C library may need a call that is not on the list.
    """
    folder = None
    with suppress(OSError):  # the server may use another temporary folder
        folder = tempfile.mkdtemp()
    child = os.fork()
    if not child:
        try:
            signal.alarm(TRIAL)
            system_calls.forgo_privileges()
            system_calls.restrict()
            if folder is not None:
                _exercise(Path(folder))
            prepare()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return status == 0


def _exercise(folder: Path) -> None:
    """Use files, threads and random numbers as libraries do.

    Raises:
        OSError, RuntimeError: Something does not work.
    """
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("{}", encoding="utf-8")
    (folder / "inner" / "file").replace(folder / "moved")
    if json.loads((folder / "moved").read_text(encoding="utf-8")) or not os.listdir(folder):
        raise RuntimeError("a file that was written is not read")
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    os.urandom(8)


def _serve(server: socket.socket, jobs: dict[str, Job], children: set[int], listed: bool) -> None:
    """Serve requests until the connection is closed.

    Args:
        server: Socket of the server.
        jobs: Jobs by name.
        children: Running children, updated in place.
        listed: True if children make listed system calls only.

    Raises:
        ConnectionError: The server is gone.
    """
    server.send(b"{}")
    patience: float | None = CALM
    asked = select.poll()  # select does not support descriptors over 1023
    asked.register(server, select.POLLIN)
    while True:
        if not asked.poll(None if patience is None else 1000 * patience):
            patience = None
            _found(sys.argv[3])()
            _settle()
            continue
        content, handles, _, _ = socket.recv_fds(server, REQUEST, 1)
        if not content:
            return
        request = json.loads(content)
        if request["do"] == "begin":
            (handle,) = handles
            child = os.fork()
            if not child:
                server.close()
                _live(jobs[request["job"]], socket.socket(fileno=handle), request, listed)
            os.close(handle)
            children.add(child)
            answer: dict[str, Any] = {"process": child}
        else:
            answer = _ended(request["process"], children)
        server.send(json.dumps(answer).encode())


def _settle() -> None:
    """Freeze existing objects, so that children do not touch, and thus copy, shared memory."""
    gc.collect()
    gc.freeze()


def alone() -> None:
    """Run as the only child: the first argument names the job, the second holds the limits."""
    job = _found(sys.argv[1])
    channel = Channel(cast(BinaryIO, sys.stdin.buffer), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # output of libraries must not reach the channel
    _confined(job, channel, json.loads(sys.argv[2]))


def _found(name: str) -> Job:
    module, _, function = name.partition(":")
    job: Job = getattr(importlib.import_module(module), function)
    return job


def _ended(process: int, children: set[int]) -> dict[str, Any]:
    """Kill a child and its process group, and return its exit status: a code, or minus a signal.

    A child that ended earlier keeps its own status.
    """
    if process not in children:
        return {"status": None}
    children.discard(process)
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return {"status": os.waitstatus_to_exitcode(status)}


def _live(job: Job, end: socket.socket, request: dict[str, Any], listed: bool) -> NoReturn:
    """Run a child after the fork."""
    try:
        os.setsid()
        system_calls.end_with_parent()
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        channel = Channel(cast(BinaryIO, end.makefile("rb")), cast(BinaryIO, end.makefile("wb")))
        _confined(job, channel, request["limits"], listed)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _confined(job: Job, channel: Channel, limits: dict[str, Any], listed: bool = True) -> None:
    os.chdir(limits["folder"])
    for word in ("TMPDIR", "HOME", "HF_HOME", "TEMP", "TMP"):
        os.environ[word] = limits["folder"]
    own = Limits(**{**limits, "readable": tuple(limits["readable"])})
    channel.send({"enforced": confine(own, listed)})
    job(channel)


if __name__ == "__main__":
    main()
