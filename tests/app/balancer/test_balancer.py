"""The balancer: one visit, one worker; and what it passes on of a request."""

from __future__ import annotations

from collections import Counter

import h11
import pytest

from transformer_viz import settings
from transformer_viz.app.balancer.__main__ import COOKIE_SECRET, surroundings
from transformer_viz.app.balancer.balancer import COOKIE, Balancer, Worker
from transformer_viz.app.live.addresses import may_read_metrics

PAGE = {"Accept": "text/html,application/xhtml+xml"}
SOCKET = {"Upgrade": "websocket", "Connection": "Upgrade"}


def asked(path: str = "/", **headers: str) -> h11.Request:
    pairs = [("Host", "viz.example"), *((n.replace("_", "-"), v) for n, v in headers.items())]
    return h11.Request(method="GET", target=path, headers=pairs)


def three(*down: int) -> Balancer:
    """Return a balancer of three workers, some of which do not answer."""
    return Balancer([Worker(n, is_up=n not in down, is_ready=True) for n in range(3)])


def number(balancer: Balancer, request: h11.Request, peer: str = "10.0.0.1") -> tuple[int, bool]:
    """Return the number of the worker, and whether a cookie is set."""
    found = balancer.choose(request, peer)
    assert found is not None
    return found[0].number, bool(found[1])


def test_new_visits_are_shared_out_and_stay() -> None:
    balancer = three()
    found = [number(balancer, asked(**PAGE)) for _ in range(4)]
    assert found == [(0, True), (1, True), (2, True), (0, True)]
    for own in range(3):
        cookie = {"Cookie": f"a=1; {COOKIE}={own}; b"}
        for path, headers in (("/", PAGE), ("/_stcore/stream", SOCKET), ("/live/x", {})):
            assert number(balancer, asked(path, **headers, **cookie)) == (own, False), path
    for value in ("7", "-1", "1x", "", "'; DROP", "0" * 500):  # an unknown cookie is none
        assert number(three(), asked(**PAGE, Cookie=f"{COOKIE}={value}"))[1], value
    assert three(0, 1, 2).choose(asked(**PAGE), "10.0.0.1") is None
    # A new visit goes where fewest are and the model is loaded.
    for worker, visitors in zip(balancer.workers, (4, 1, 0), strict=True):
        worker.visitors = visitors
    balancer.workers[2].is_ready = False
    assert number(balancer, asked(**PAGE)) == (1, True)


def test_a_visit_whose_worker_ended_goes_on_with_another() -> None:
    balancer, cookie = three(1), {"Cookie": f"{COOKIE}=1"}
    back = asked("/_stcore/stream", **SOCKET, **cookie)
    assert [number(balancer, back) for _ in range(2)] == [(0, True), (2, True)]
    found, new = number(balancer, asked("/media/x.png", **cookie))
    assert found != 1 and not new  # the websocket decides


def test_without_cookies_the_address_decides() -> None:
    balancer, without = three(), three(2)
    peers = [f"10.0.{net}.{host}" for net in range(6) for host in range(10)]
    shares: Counter[int] = Counter()
    for peer in peers:
        paths = ("/_stcore/stream", "/_stcore/upload_file/1", "/live/token")
        ((own, new),) = {number(balancer, asked(path), peer) for path in paths}
        shares[own] += 1
        assert not new and (own == 2 or number(without, asked("/live/x"), peer)[0] == own), peer
    assert min(shares[one] for one in range(3)) >= 8
    # Behind a proxy of this machine the visitor's address decides, not the proxy's.
    behind = [asked("/live/x", X_Forwarded_For=f"10.1.0.{host}") for host in range(20)]
    assert {number(balancer, one, "127.0.0.1")[0] for one in behind} == {0, 1, 2}


def passed(peer: str, trusted: frozenset[str] = frozenset(), **headers: str) -> dict[bytes, bytes]:
    request = Balancer([], trusted).passed_on(asked(**headers), peer)
    return {name: bytes(value) for name, value in request.headers}


def test_headers_of_a_request_are_passed_on() -> None:
    forged = {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_Proto": "https", "Forwarded": "for=x"}
    found = passed("10.0.0.9", **forged)
    assert found[b"x-forwarded-for"] == b"10.0.0.9"
    assert b"x-forwarded-proto" not in found and b"forwarded" not in found
    for peer, trusted in (("127.0.0.1", frozenset[str]()), ("10.0.0.9", frozenset({"10.0.0.9"}))):
        found = passed(peer, trusted, X_Forwarded_For="1.2.3.4", X_Forwarded_Proto="https")
        assert found[b"x-forwarded-for"] == b"1.2.3.4, " + peer.encode()
        assert found[b"x-forwarded-proto"] == b"https"
    # A worker is asked once a connection, and a websocket is asked as it came.
    assert passed("10.0.0.9", Connection="keep-alive")[b"connection"] == b"close"
    found = passed("10.0.0.9", **SOCKET, Sec_WebSocket_Key="x")
    assert found[b"connection"] == b"Upgrade" and found[b"sec-websocket-key"] == b"x"


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
    for told, wanted in (  # a worker trusts the proxies that the balancer does
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
