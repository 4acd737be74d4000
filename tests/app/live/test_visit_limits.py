"""Limits of a visitor: a class behind one address is served, a flood is told to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tests.support.asgi import answered, run, scope
from transformer_viz import settings
from transformer_viz.app.live import rates, upload_limits, visit_limits
from transformer_viz.app.live.rates import Rates
from transformer_viz.app.live.visit_limits import VisitLimits, address, sentence

CLASS = 60  # visitors behind the one address of a school
MEGABYTE = [bytes(1_000_000)]


class Clock:
    """Seconds that only a test moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all buckets, which are those of the settings' defaults."""
    clock = Clock()
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setattr(visit_limits, "is_known", lambda token: not token.startswith("invented"))
    monkeypatch.setattr(visit_limits, "Rates", lambda *words: Rates(*words, clock))
    return clock


@pytest.fixture
def limits(clock: Clock) -> VisitLimits:
    return VisitLimits(PlainTextResponse("the app"))


def frame(token: str, client: str = "10.0.0.1") -> Scope:
    return scope(f"/live/{token}", client)


def put(session: str, client: str = "10.0.0.1", said: int | None = None) -> Scope:
    headers = {} if said is None else {"content-length": str(said)}
    path = f"/_stcore/upload_file/{session}/file"
    return scope(path, client, method="PUT", headers=headers)


def test_a_bucket_fills_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    bucket = Rates(2, 4, clock)
    full = [0, 0, 0, 0, 0.5]
    assert [bucket.wait("a") for _ in full] == full
    assert bucket.wait("b") == 0  # others have their own
    for seconds, waits in ((0.25, [0.25]), (0.25, [0]), (1e6, full), (-5e6, [0.5])):
        clock.now += seconds  # a clock that was set back takes nothing away
        assert [bucket.wait("a") for _ in waits] == waits, seconds
    # A cost of more than a bucket holds takes all of it.
    bucket = Rates(1, 10, clock)
    assert bucket.wait("a", 25) == 0 and bucket.wait("a") == 16
    clock.now += 16
    assert bucket.wait("a") == 0
    # The key that asked longest ago is forgotten.
    monkeypatch.setattr(rates, "MOST_KEYS", 2)
    bucket = Rates(1, 1, clock)
    assert [bucket.wait(who) for who in "abcac"] == [0, 0, 0, 0, 1]


def test_a_flood_is_told_when_to_come_again(limits: VisitLimits, clock: Clock) -> None:
    statuses = [answered(limits, frame("flood"))[0] for _ in range(200)]
    assert statuses == [200] * 150 + [429] * 50
    status, headers, words = answered(limits, scope("/viz/live/flood/tile"))
    assert (status, headers["retry-after"]) == (429, "1")
    assert words.decode() == sentence("frame", 1)
    assert answered(limits, frame("another visit, the same address"))[0] == 200
    clock.now += 1
    assert [answered(limits, frame("flood"))[0] for _ in range(31)] == [200] * 30 + [429]
    for what in ("frame", "upload", "volume", "page", "slow", "full", "request"):
        told = sentence(what, 7)
        assert told.endswith("Try again in 7 s.") and len(told) < 120, what


def test_a_class_behind_one_address_is_served(limits: VisitLimits, clock: Clock) -> None:
    """Sixty sliders in sixty hands: 25 frames a second each, for ten seconds."""
    for _ in range(20):
        clock.now += 0.5
        for pupil in range(CLASS):
            for _ in range(12):
                assert limits._refused(frame(f"pupil {pupil}")) is None


def test_one_address_has_its_share_whatever_its_tokens(limits: VisitLimits, clock: Clock) -> None:
    most = CLASS * 30 * visit_limits.BURST
    served = sum(limits._refused(frame(f"{n}")) is None for n in range(most + 100))
    assert served == most
    assert limits._refused(frame("x", "10.0.0.2")) is None
    # Invented tokens count as requests of the address.
    limits = VisitLimits(PlainTextResponse("the app"))
    for number in range(CLASS * visit_limits.LOADS):
        asked = frame(f"invented {number}") if number % 2 else scope("/ready")
        assert limits._refused(asked) is None
    assert limits._refused(frame("invented x")) == ("request", 1 / (CLASS * 2))
    assert limits._refused(frame("a visit")) is None
    assert limits._refused(scope("/", "10.0.0.2")) is None


# ---- uploads -----------------------------------------------------------------------------------


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that reads an upload to its end."""
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    if message["type"] == "http.request":
        await PlainTextResponse("taken")(scope, receive, send)


def brought(limits: VisitLimits, asked: Scope, pieces: list[bytes | None]) -> int:
    """Send an upload piece by piece; None breaks it off. Returns the status of its answer."""
    sent: list[Any] = []
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        body = left.pop(0) if left else None
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    run(limits(asked, receive, send))
    return next((one["status"] for one in sent if "status" in one), 0)


def test_uploads_are_counted(limits: VisitLimits, clock: Clock) -> None:
    assert [limits._refused(put("a")) for _ in range(61)] == [None] * 60 + [("upload", 1.0)]
    over = [limits._refused(put("b", said=2_000_000_000)) for _ in range(2)]
    assert over == [None] * 2, "what is larger than all of a share may begin while it is whole"


def test_bytes_of_uploads_count_as_they_arrive(clock, monkeypatch) -> None:
    """Whatever the headers say: a share is 3 MB here. What is broken off takes nothing of it."""
    monkeypatch.setenv(settings.VISIT_MB.variable, "3")
    for said in (None, 1, 0):
        limits = VisitLimits(reads)
        for _ in range(3):  # broken off by its sender
            assert brought(limits, put("a", said=said), [*MEGABYTE * 2, None]) == 0, said
        for visit, client, count, status in (
            ("a", "10.0.0.1", 3, 200),
            ("a", "10.0.0.1", 1, 429),
            ("a", "10.0.0.2", 4, 429),  # another's visit
            ("b", "10.0.0.1", 3, 200),
        ):
            found = brought(limits, put(visit, client, said), MEGABYTE * count)
            assert found == status, (said, visit, client)
        assert not limits.coming
    monkeypatch.setenv(settings.UPLOADS_MB.variable, "2")
    assert brought(VisitLimits(reads), put("a"), MEGABYTE * 3) == 503, "all visits together"
    monkeypatch.delenv(settings.UPLOADS_MB.variable)
    limits = VisitLimits(reads)
    assert brought(limits, put("a"), MEGABYTE) == 200
    assert brought(limits, put("a", said=3_000_000), MEGABYTE * 3) == 429, "before it is read"


def test_refused_uploads_are_read_to_their_end_for_a_share_alone(clock, monkeypatch) -> None:
    """A browser learns of a refusal after its last byte; a client that goes on is cut off."""
    monkeypatch.setenv(settings.UPLOADS_A_MINUTE.variable, "1")
    limits = VisitLimits(reads)

    def closes(said: int | None) -> bool:
        status, headers, _ = answered(limits, put("a", said=said))
        assert status == 429
        return headers.get("connection") == "close"

    assert limits._refused(put("a")) is None
    assert closes(None), "without a length"
    assert [closes(40_000_000) for _ in range(4)] == [False, False, True, True]
    clock.now += 30  # a megabyte comes back each second
    assert [closes(40_000_000) for _ in range(2)] == [False, True]


def test_uploads_that_stand_still_or_crawl_end(clock, monkeypatch) -> None:
    monkeypatch.setattr(upload_limits, "STILL", 0.05)
    sent: list[Any] = []

    async def still() -> dict[str, Any]:
        await asyncio.sleep(10)
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    run(VisitLimits(reads)(put("a"), still, send))
    assert sent[0]["status"] == 408
    monkeypatch.setattr(upload_limits, "SLOW_AFTER", 0.0)
    monkeypatch.setattr(upload_limits, "PACE", 1e12)
    assert brought(VisitLimits(reads), put("a"), [b"a", b"b"]) == 408


# ---- pages and their messages ------------------------------------------------------------------


@pytest.mark.slow
def test_a_flood_of_messages_delays_itself_alone(clock, monkeypatch) -> None:
    """Pages that flood get their rate and are closed in the end; one behind their address that
    does not is never more than one message of each behind."""
    monkeypatch.setattr(visit_limits, "Rates", Rates)  # with a real clock
    monkeypatch.setenv(settings.MESSAGES.variable, "40")
    monkeypatch.setattr(visit_limits, "ENDLESS", 0.5)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async def page(limits: VisitLimits, pause: float, until: float) -> tuple[int, list[Any]]:
        """Return how many messages were taken from a page, and what it was told."""
        taken, sent = [], []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(pause)
            if asyncio.get_running_loop().time() > until:
                return {"type": "websocket.disconnect"}
            taken.append(1)
            return {"type": "websocket.receive", "bytes": b"\x5a\x00"}

        async def send(message: Any) -> None:
            sent.append(message)

        await limits(scope("/_stcore/stream", kind="websocket"), receive, send)
        return len(taken), sent

    async def meets() -> list[Any]:
        limits = VisitLimits(app)
        until = asyncio.get_running_loop().time() + 3
        return await asyncio.gather(*(page(limits, pause, until) for pause in (0, 0, 0, 0.1)))

    *floods, (taken, told) = run(meets())
    for count, sent in floods:
        assert count <= 5 * 40 + 3 * 40 and sent[-1]["code"] == visit_limits.TRY_AGAIN
    assert taken >= 15 and not told


def refused(limits: VisitLimits, pages: list[str]) -> list[int]:
    """Open a page for each address at once; return the status of those that were refused."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    async def meets() -> None:
        let_go = asyncio.Event()

        async def held(scope: Scope, receive: Receive, send: Send) -> None:
            await let_go.wait()

        limits.app, tasks = held, []
        for client in pages:
            asked = scope("/_stcore/stream", client, kind="websocket")
            tasks.append(asyncio.create_task(limits(asked, receive, send)))
            await asyncio.sleep(0)
        let_go.set()
        await asyncio.gather(*tasks)

    run(meets())
    return [one["status"] for one in sent if one["type"] == "websocket.http.response.start"]


def test_pages_are_counted_in_all_and_by_address(limits: VisitLimits, clock: Clock) -> None:
    # An address opens a page for each visitor at once.
    for seconds, count in ((0, 1), (1, CLASS), (60, 1)):
        clock.now += seconds
        assert refused(limits, ["10.0.0.1"] * (CLASS + 1)) == [503] * count, seconds
    limits = VisitLimits(PlainTextResponse("the app"))
    limits.rates["open"][1].burst = 1000  # opened one after the other
    pages = ["10.0.0.1"] * 125 + [f"10.1.{n // 200}.{n % 200}" for n in range(490)]
    assert refused(limits, pages) == [503] * (5 + 10)  # 120 for an address, 600 in all
    assert not limits.open  # all have gone


def test_a_page_that_cannot_be_served_says_so_in_the_visitors_language(limits, clock) -> None:
    page = {"accept": "text/html,*/*"}
    limits.open["10.0.0.1"] = 120
    status, headers, words = answered(limits, scope(headers=page))
    assert (status, headers["retry-after"]) == (503, "20")
    assert words.decode() == sentence("page", 20)
    chinese = page | {"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}
    said = answered(limits, scope(headers=chinese))[2]
    assert b"20" in said and said != words
    assert answered(limits, scope("/_stcore/health"))[0] == 200
    assert answered(limits, scope(client="10.0.0.2", headers=page))[0] == 200


def test_a_limit_can_be_lifted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    page = scope(headers={"accept": "text/html,*/*"})
    cases = {"REQUESTS": frame("a"), "CONNECTIONS": page, "UPLOADS_A_MINUTE": put("a")}
    for name, asked in cases.items():
        with monkeypatch.context() as patch:
            patch.setenv(settings.PREFIX + name, "0")
            limits = VisitLimits(PlainTextResponse("the app"))
            limits.open["10.0.0.1"] = 10_000
            assert {limits._refused(asked) for _ in range(500)} == {None}, name


def test_an_address_is_what_a_trusted_proxy_says() -> None:
    found: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(address(scope))

    for peer, trusted, said, whose in (
        ("10.0.0.9", "127.0.0.1", "1.2.3.4", "10.0.0.9"),  # no proxy: may say what it likes
        ("127.0.0.1", "127.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", "127.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # what came before is forged
        ("127.0.0.1", "127.0.0.1,10.0.0.9", "1.2.3.4, 10.0.0.9", "1.2.3.4"),
        ("127.0.0.1", "127.0.0.1", "", "127.0.0.1"),
        ("2001:db8:1:2:3::4", "", "", "2001:0db8:0001:0002"),
        ("::ffff:10.0.0.9", "", "", "10.0.0.9"),
    ):
        headers = {"x-forwarded-for": said} if said else {}
        behind = ProxyHeadersMiddleware(app, trusted)
        run(behind(scope(client=peer, headers=headers), None, None))
        assert found.pop() == whose, (peer, trusted, said)
