"""Who answers whom: one visit, one worker; and what is passed on of a request."""

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
    """Three workers, some of which do not answer."""
    workers = [Worker(number, is_up=number not in down, is_ready=True) for number in range(3)]
    return Balancer(workers)


def number(balancer: Balancer, request: h11.Request, peer: str = "10.0.0.1") -> tuple[int, bool]:
    """The number of the worker, and whether a cookie is set."""
    found = balancer.choose(request, peer)
    assert found is not None
    return found[0].number, bool(found[1])


def test_new_visits_are_shared_out_and_stay() -> None:
    balancer = three()
    assert [number(balancer, asked(**PAGE)) for _ in range(4)] == [
        (0, True), (1, True), (2, True), (0, True)
    ]  # fmt: skip
    for own in range(3):
        for request in (asked(**PAGE), asked("/_stcore/stream", **SOCKET), asked("/live/x")):
            with_cookie = h11.Request(
                method="GET",
                target=request.target,
                headers=[*request.headers, ("Cookie", f"a=1; {COOKIE}={own}; b")],
            )
            assert number(balancer, with_cookie) == (own, False)


def test_a_new_visit_goes_where_fewest_are_and_the_model_is_loaded() -> None:
    balancer = three()
    for worker, visitors in zip(balancer.workers, (4, 1, 0), strict=True):
        worker.visitors = visitors
    balancer.workers[2].is_ready = False
    assert number(balancer, asked(**PAGE)) == (1, True)


def test_a_visit_whose_worker_ended_goes_on_with_another() -> None:
    balancer = three(1)
    back = SOCKET | {"Cookie": f"{COOKIE}=1"}
    assert number(balancer, asked("/_stcore/stream", **back)) == (0, True)
    assert number(balancer, asked("/_stcore/stream", **back)) == (2, True)
    found, new = number(balancer, asked("/media/x.png", Cookie=f"{COOKIE}=1"))
    assert found != 1 and not new  # the websocket decides


@pytest.mark.parametrize("value", ["7", "-1", "1x", "", "'; DROP", "0" * 500])
def test_a_strange_cookie_is_none(value: str) -> None:
    assert number(three(), asked(**PAGE, Cookie=f"{COOKIE}={value}"))[1]


def test_without_cookies_the_address_decides() -> None:
    balancer = three()
    paths = ("/_stcore/stream", "/_stcore/upload_file/1", "/live/token")
    peers = [f"10.0.{net}.{host}" for net in range(6) for host in range(10)]
    for peer in peers:
        found = {number(balancer, asked(path), peer) for path in paths}
        assert len(found) == 1 and not found.pop()[1]
    shares = Counter(number(balancer, asked("/live/x"), peer)[0] for peer in peers)
    assert min(shares[one] for one in range(3)) >= 8
    without = three(2)
    for peer in peers:
        before = number(balancer, asked("/live/x"), peer)[0]
        assert before == 2 or number(without, asked("/live/x"), peer)[0] == before


def test_behind_a_proxy_of_this_machine_the_visitor_decides_not_the_proxy() -> None:
    balancer = three()
    found = {
        number(balancer, asked("/live/x", X_Forwarded_For=f"10.1.0.{host}"), "127.0.0.1")[0]
        for host in range(20)
    }
    assert found == {0, 1, 2}


def test_nobody_there() -> None:
    assert three(0, 1, 2).choose(asked(**PAGE), "10.0.0.1") is None


def passed(peer: str, trusted: frozenset[str] = frozenset(), **headers: str) -> dict[bytes, bytes]:
    balancer = Balancer([], trusted)
    return {
        name: bytes(value) for name, value in balancer.passed_on(asked(**headers), peer).headers
    }


def test_strangers_cannot_say_who_they_are() -> None:
    forged = {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_Proto": "https", "Forwarded": "for=x"}
    found = passed("10.0.0.9", **forged)
    assert found[b"x-forwarded-for"] == b"10.0.0.9"
    assert b"x-forwarded-proto" not in found and b"forwarded" not in found
    for peer, trusted in (("127.0.0.1", frozenset[str]()), ("10.0.0.9", frozenset({"10.0.0.9"}))):
        found = passed(peer, trusted, X_Forwarded_For="1.2.3.4", X_Forwarded_Proto="https")
        assert found[b"x-forwarded-for"] == b"1.2.3.4, " + peer.encode()
        assert found[b"x-forwarded-proto"] == b"https"


@pytest.mark.parametrize(
    ("told", "wanted"),
    [("", None), ("10.0.0.9, ", "127.0.0.1,10.0.0.9"), ("*", "*"), ("10.0.0.9,*", "*")],
)
def test_a_worker_believes_the_proxies_that_the_balancer_does(
    told: str, wanted: str | None
) -> None:
    found = surroundings({"FORWARDED_ALLOW_IPS": told}, workers=2, cores=2)
    assert found.get("FORWARDED_ALLOW_IPS") == wanted


def test_a_worker_is_asked_once_a_connection_and_a_websocket_is_asked_as_it_came() -> None:
    assert passed("10.0.0.9", Connection="keep-alive")[b"connection"] == b"close"
    found = passed("10.0.0.9", **SOCKET, Sec_WebSocket_Key="x")
    assert found[b"connection"] == b"Upgrade" and found[b"sec-websocket-key"] == b"x"


def test_what_workers_share_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.CONNECTIONS.variable)  # what no test is held to
    found = surroundings({}, workers=2, cores=16)
    assert found["OMP_NUM_THREADS"] == "4"  # two runs at once in each of two
    assert found[settings.UPLOADS_MB.variable] == "4000" and len(found[COOKIE_SECRET]) == 64
    assert found[settings.CONNECTIONS.variable] == "300"
    assert surroundings({}, workers=4, cores=2)["OMP_NUM_THREADS"] == "1"
    mine = {"OMP_NUM_THREADS": "3", COOKIE_SECRET: "mine"}
    assert surroundings(mine, 2, 16)["OMP_NUM_THREADS"] == "3"
    assert surroundings(mine, 2, 16)[COOKIE_SECRET] == "mine"
    monkeypatch.setenv(settings.THREADS.variable, "5")
    assert surroundings(mine, 2, 16)["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize(
    ("who", "peer", "headers", "wanted"),
    [
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
    ],
)
def test_metrics_are_for_this_machine_unless_said_otherwise(
    who: str, peer: str, headers: dict[str, str], wanted: bool
) -> None:
    assert may_read_metrics(who, peer, headers) is wanted
