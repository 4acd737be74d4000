"""Two workers behind one port: who goes where, what a killed one leaves, and the end of all."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from benchmarks.pupil import Pupil
from tests.support.browser import PATIENCE, free_port, wait_for
from tests.support.exposition import Read, read
from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.app.balancer import workers
from transformer_viz.app.balancer.balancer import COOKIE, PAGE
from transformer_viz.checkpoints.files.upload_rooms import PREFIX

pytestmark = pytest.mark.process
WORDS = "The cat sat."
LINK = {"model": "tiny", "text": WORDS, "block": "cross", "layer": "1"}


def got(url: str, path: str, **headers: str) -> tuple[int, bytes]:
    """The status and body of an answer."""
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def until(wanted: Callable[[], bool]) -> None:
    """Wait for something that comes by itself.

    Raises:
        TimeoutError: it did not come.
    """
    end = time.monotonic() + PATIENCE
    while not wanted():
        if time.monotonic() > end:
            raise TimeoutError("It did not come.")
        time.sleep(0.2)


def metrics(url: str) -> dict[str, Read]:
    status, body = got(url, "/metrics")
    assert status == 200
    return read(body.decode())


def processes(url: str) -> dict[str, int]:
    """The process of each worker, by its number."""
    found = {}
    for _, labels in metrics(url)["transformer_viz_info"].numbers:
        named = dict(label.split("=", 1) for label in labels)
        found[named["worker"].strip('"')] = int(named["process"].strip('"'))
    return found


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def cookie(pupil: Pupil) -> str:
    return pupil.headers["Cookie"].rpartition(f"{COOKIE}=")[2]


def test_two_workers_behind_one_port(shelf: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    surroundings = os.environ | {settings.MODEL.variable: str(shelf / "tiny")}
    surroundings |= {settings.RUN_LOG.variable: "on"}
    words = [sys.executable, "-m", "transformer_viz", "app", "--workers", "2"]
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(
            [*words, "--port", url.rpartition(":")[2]], cwd=ROOT, env=surroundings, stderr=log
        )
    try:
        wait_for(url, server)
        until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
        every = processes(url)
        assert set(every) == {"0", "1"}
        _visits_stay(url)
        _another_goes_on(url, every)
        _one_stands_still(url, processes(url))
        _what_is_not_told(url)
        every |= processes(url)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=PATIENCE) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait(timeout=PATIENCE)
    assert not any(map(is_alive, every.values()))
    rooms = {path.name.split("-")[3] for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    assert not rooms & {str(process) for process in every.values()}
    said = (tmp_path / "log").read_text()
    assert '"outcome": "done"' in said and WORDS not in said and "Traceback" not in said


def _visits_stay(url: str) -> None:
    """Two visits have a worker each, which alone knows their live frames."""
    both = [Pupil(url) for _ in range(2)]
    assert {cookie(pupil) for pupil in both} == {"0", "1"}
    for pupil in both:
        pupil.open(LINK)
        pupil.frame("2.0", 1)
    told = metrics(url)
    for number in ("0", "1"):
        assert told["transformer_viz_visitors"].of(worker=number) == 1
        assert told["transformer_viz_frames_total"].of(worker=number, outcome="made") == 1
    path = f"/{both[0].slider['line']}?temperature=2.0&seq=2"
    assert got(url, path, **both[0].headers)[0] == 200
    assert got(url, path, **both[1].headers)[0] == 404
    for pupil in both:
        pupil.end()


def _another_goes_on(url: str, every: dict[str, int]) -> None:
    """A visit whose worker is killed goes on with the other one; the worker comes back."""
    pupil = Pupil(url)
    pupil.open(LINK)
    before = pupil.seen.parts["head"][1]["weights"]
    killed = cookie(pupil)
    os.kill(every[killed], signal.SIGKILL)
    with pytest.raises(ConnectionClosed):
        while pupil.socket.recv(timeout=PATIENCE):  # what was still on its way
            pass
    again = Pupil(url, pupil.headers)
    assert cookie(again) != killed
    again.open(LINK)
    assert np.array_equal(again.seen.parts["head"][1]["weights"], before)
    assert again.seen.alerts == []
    until(lambda: metrics(url)["transformer_viz_worker_ready"].of(worker=killed) == 1)
    assert metrics(url)["transformer_viz_worker_restarts"].of(worker=killed) == 1
    assert processes(url)[killed] != every[killed]
    pupil.end()
    again.end()


def _one_stands_still(url: str, every: dict[str, int]) -> None:
    """New visitors are answered by the other worker, and at first after a few seconds at most."""
    page = {"Accept": "text/html"}
    os.kill(every["0"], signal.SIGSTOP)
    try:
        for _ in range(4):
            began = time.monotonic()
            status, body = got(url, "/", **page)
            assert status == 200 and b"<html" in body
            assert time.monotonic() - began < PAGE + 5
        until(lambda: got(url, "/ready")[1].startswith(b"1 of 2"))
        # Whoever was there already gets another worker with the next page.
        assert got(url, "/", **page, Cookie=f"{COOKIE}=0")[0] == 200
        os.kill(every["1"], signal.SIGSTOP)
        until(lambda: got(url, "/ready") == (503, b"0 of 2 workers are ready.\n"))
    finally:
        for process in every.values():
            os.kill(process, signal.SIGCONT)
    until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
    assert got(url, "/", **page, Cookie=f"{COOKIE}=0")[0] == 200


def _what_is_not_told(url: str) -> None:
    """No metrics through a proxy, none under a strange name, no request that is none."""
    assert got(url, "/metrics", **{"X-Forwarded-For": "10.0.0.1"})[0] == 404
    assert got(url, "/metrics", Host="evil.example")[0] == 403
    assert got(url, "/", Host="evil.example")[0] == 403
    parts = urlsplit(url)
    for said in (b"no request\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a" * 100_000):
        with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as line:
            line.sendall(said)
            assert line.recv(20).startswith(b"HTTP/1.1 4")


def test_a_worker_ends_when_the_process_in_front_is_gone(shelf: Path) -> None:
    port = free_port()
    surroundings = os.environ | {
        settings.MODEL.variable: str(shelf / "tiny"),
        "STREAMLIT_SERVER_PORT": str(port),
    }
    words = [sys.executable, "-m", "transformer_viz.app.balancer.worker"]
    worker = subprocess.Popen(words, cwd=ROOT, env=surroundings, stdin=subprocess.PIPE)
    try:
        wait_for(f"http://127.0.0.1:{port}", worker)
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait(timeout=PATIENCE)
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait(timeout=PATIENCE)


def test_a_worker_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BREATH", 0.0)
    monkeypatch.setattr(sys, "executable", "false")

    def keep() -> None:
        asyncio.run(workers.Worker(3).keep(dict(os.environ), asyncio.Event()))

    # In a thread: a browser's test before this one leaves a running event loop in its own.
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.raises(workers.CannotStart, match="Worker 3 ended 3 times before it answered"),
    ):
        thread.submit(keep).result()
