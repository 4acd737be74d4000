"""Two workers behind one port: visits that stay, a class that loses a worker, and the end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from benchmarks.memory import workers_of
from benchmarks.pupil import Pupil
from tests.soak.cut import link_of, processes, worker_of
from tests.support.browser import PATIENCE, free_port, wait_for
from tests.support.exposition import Read, read
from tests.support.paths import ROOT
from tests.support.waiting import until
from transformer_viz import settings
from transformer_viz.app.balancer import workers
from transformer_viz.checkpoints.files.upload_rooms import PREFIX

pytestmark = pytest.mark.process
SENTENCES = ("The cat sat.", "The dog sat.", "The cat.", "The dog.")
PAGE = 5.0  # seconds that a page waits for a worker before it comes from another one
LINK = {"model": "tiny", "block": "cross", "layer": "1", "head": "1"}


def got(url: str, path: str, **headers: str) -> tuple[int, bytes]:
    """Return the status and body of an answer."""
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def metrics(url: str) -> dict[str, Read]:
    status, body = got(url, "/metrics")
    assert status == 200
    return read(body.decode())


def is_alive(process: int) -> bool:
    """Whether it runs; one that ended and that nobody has asked about (a zombie) does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_workers_behind_one_port(shelf: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    around = os.environ | {settings.MODEL.variable: str(shelf / "tiny")}
    around |= {settings.RUN_LOG.variable: "on"}
    words = [sys.executable, "-m", "transformer_viz", "app", "--workers", "2", "--port"]
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(
            [*words, url.rpartition(":")[2]], cwd=ROOT, env=around, stderr=log
        )
    try:
        wait_for(url, server)
        until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
        every = {*processes(url).items()}
        assert {number for number, _ in every} == {"0", "1"}
        front = {one for child in workers_of(server.pid) for one in (child, *workers_of(child))}
        assert len(front) >= 4  # the workers, Caddy, and what ends it with the server
        _visits_stay(url)
        _a_class_goes_on(url)
        _one_stands_still(url)
        _what_is_refused(url)
        every |= {*processes(url).items()}
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=PATIENCE) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait(timeout=PATIENCE)
    front |= {process for _, process in every}
    until(lambda: not [process for process in front if is_alive(process)])
    rooms = {path.name.split("-")[3] for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    assert not rooms & {str(process) for _, process in every}
    said = (tmp_path / "log").read_text()
    assert '"outcome": "done"' in said and "Traceback" not in said
    assert not [words for words in SENTENCES if words in said]


def _visits_stay(url: str) -> None:
    """Two visits have a worker each, which alone knows their live frames."""
    both = [Pupil(url) for _ in range(2)]
    assert worker_of(both[0]) != worker_of(both[1])
    for pupil in both:
        pupil.open(LINK | {"text": SENTENCES[0]})
        pupil.frame("2.0", 1)
    told = metrics(url)
    for number in ("0", "1"):
        assert told["transformer_viz_visitors"].of(worker=number) == 1
        assert told["transformer_viz_frames_total"].of(worker=number, outcome="made") == 1
    path = f"/{both[0].slider['line']}?temperature=2.0&seq=2"
    assert [got(url, path, **pupil.headers)[0] for pupil in both] == [200, 404]
    for pupil in both:
        pupil.end()
    until(lambda: not any(metrics(url)["transformer_viz_visitors"].numbers.values()))


def _a_class_goes_on(url: str) -> None:
    """Four pupils, and one worker is killed: nobody loses anything, and the worker comes back.

    The first two pupils have only opened their link, the others have moved the slider.
    """

    def moves(pupil: Pupil, value: str) -> None:
        pupil.tell(value, int(pupil.slider["seq"]) + 1)

    def screen(pupil: Pupil) -> np.ndarray:
        return pupil.seen.parts["head"][1]["weights"]

    pupils = [Pupil(url)]
    told = metrics(url)["transformer_viz_visitors"]
    killed = next(number for number in ("0", "1") if told.of(worker=number))
    pupils += [Pupil(url) for _ in SENTENCES[1:]]
    for number, pupil in enumerate(pupils):
        pupil.open(LINK | {"text": SENTENCES[number]})
        if number > 1:
            moves(pupil, f"{number}.0")
    gone, stays = worker_of(pupils[0]), worker_of(pupils[1])
    cut = [pupil for pupil in pupils if worker_of(pupil) == gone]
    assert len(cut) == 2 and gone != stays  # where fewest are
    shown, before = [screen(pupil) for pupil in pupils], processes(url)
    os.kill(before[killed], signal.SIGKILL)
    for pupil in cut:
        with pytest.raises(ConnectionClosed):
            while pupil.socket.recv(timeout=PATIENCE):  # what was still on its way
                pass
        pupil.again()
        assert worker_of(pupil) == stays
    assert cut[0].seen.session != "" and not cut[0].seen.fragments_last  # it asked for nothing
    for pupil, was in zip(pupils, shown, strict=True):
        assert np.array_equal(screen(pupil), was)
    for number, pupil in enumerate(pupils):
        moves(pupil, f"{number}.5")
        assert link_of(pupil) == (SENTENCES[number], number + 0.5)
        assert pupil.seen.alerts == []
        fresh = Pupil(url)  # somebody who opens the link of a pupil
        fresh.query = pupil.query
        fresh._ask()
        assert np.array_equal(screen(pupil), screen(fresh))
        assert not np.array_equal(screen(pupil), shown[number])
        fresh.end()
        pupil.end()
    until(lambda: metrics(url)["transformer_viz_worker_ready"].of(worker=killed) == 1)
    assert metrics(url)["transformer_viz_worker_restarts"].of(worker=killed) == 1
    assert processes(url)[killed] != before[killed]


def _one_stands_still(url: str) -> None:
    """New visitors are answered by the other worker, and at first after a few seconds at most."""
    page, every = {"Accept": "text/html"}, processes(url)
    both = [Pupil(url) for _ in every]
    cookies = [pupil.headers["Cookie"] for pupil in both]
    for pupil in both:
        pupil.end()
    os.kill(every["0"], signal.SIGSTOP)
    try:
        for _ in range(4):
            began = time.monotonic()
            status, body = got(url, "/", **page)
            assert status == 200 and b"<html" in body
            assert time.monotonic() - began < PAGE + 5
        until(lambda: got(url, "/ready")[1].startswith(b"1 of 2"))
        # Visitors of the silent worker get another one with the next page.
        assert [got(url, "/", **page, Cookie=one)[0] for one in cookies] == [200, 200]
        os.kill(every["1"], signal.SIGSTOP)
        until(lambda: got(url, "/ready") == (503, b"0 of 2 workers are ready.\n"))
    finally:
        for process in every.values():
            os.kill(process, signal.SIGCONT)
    until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
    assert [got(url, "/", **page, Cookie=one)[0] for one in cookies] == [200, 200]


def _what_is_refused(url: str) -> None:
    """No metrics through a proxy, none under an unknown name, and no malformed request."""
    assert got(url, "/metrics", **{"X-Forwarded-For": "10.0.0.1"})[0] == 404
    for path in ("/metrics", "/"):
        assert got(url, path, Host="evil.example")[0] == 403
    parts = urlsplit(url)
    for said in (b"no request\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a" * 100_000):
        with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as line:
            line.sendall(said)
            assert line.recv(20).startswith(b"HTTP/1.1 4")


def test_a_worker_ends_when_the_process_in_front_is_gone(shelf: Path) -> None:
    port = free_port()
    around = os.environ | {settings.MODEL.variable: str(shelf / "tiny")}
    around["STREAMLIT_SERVER_PORT"] = str(port)
    words = [sys.executable, "-m", "transformer_viz.app.balancer.worker"]
    worker = subprocess.Popen(words, cwd=ROOT, env=around, stdin=subprocess.PIPE)
    try:
        wait_for(f"http://127.0.0.1:{port}", worker)
        worker.stdin.close()
        worker.wait(timeout=PATIENCE)
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait(timeout=PATIENCE)


def test_a_worker_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BREATH", 0.0)
    monkeypatch.setattr(sys, "executable", "false")

    reasons: list[str] = []
    workers.Worker(3, free_port()).keep(dict(os.environ), reasons.append)
    assert len(reasons) == 1
    assert reasons[0].startswith("Worker 3 ended 3 times before it answered (status 1)")
