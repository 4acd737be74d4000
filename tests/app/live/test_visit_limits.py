"""What a visitor may ask for: a class behind one address is served, a flood is told to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from transformer_viz import settings
from transformer_viz.app.live import rates, upload_limits, visit_limits
from transformer_viz.app.live.rates import Rates
from transformer_viz.app.live.visit_limits import VisitLimits, address, sentence

PAGE = [(b"accept", b"text/html,*/*")]
CLASS = 60  # visitors behind the one address of a school


class Clock:
    """Seconds that only a test moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all buckets, which are those of the settings' defaults."""
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    clock = Clock()
    monkeypatch.setattr(visit_limits, "is_known", lambda token: not token.startswith("invented"))
    monkeypatch.setattr(
        visit_limits, "Rates", lambda a_second, burst: Rates(a_second, burst, clock)
    )
    return clock


@pytest.fixture
def limits(clock: Clock) -> VisitLimits:
    return VisitLimits(PlainTextResponse("the app"))


def scope(
    path: str = "/", client: str = "10.0.0.1", kind: str = "http", method: str = "GET",
    headers: list[tuple[bytes, bytes]] | None = None,
) -> Scope:  # fmt: skip
    return {
        "type": kind, "path": path, "method": method, "headers": headers or [],
        "client": (client, 5), "extensions": {"websocket.http.response": {}},
    }  # fmt: skip


def run(work: Awaitable[Any]) -> Any:
    async def waits() -> Any:
        return await work

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        return pool.submit(asyncio.run, waits()).result()


def answered(app: Any, asked: Scope) -> tuple[int, dict[str, str], str]:
    """Status, headers and words of an answer."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    run(app(asked, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0].get("headers", [])}
    return sent[0]["status"], headers, sent[-1].get("body", b"").decode()


def frame(token: str, client: str = "10.0.0.1") -> Scope:
    return scope(f"/live/{token}", client)


def test_a_bucket_fills_with_time_and_is_never_fuller_than_full() -> None:
    clock = Clock()
    bucket = Rates(2, 4, clock)
    assert [bucket.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert bucket.wait("b") == 0  # others have their own
    clock.now += 0.25
    assert bucket.wait("a") == 0.25
    clock.now += 0.25
    assert bucket.wait("a") == 0
    clock.now += 1e6
    assert [bucket.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    clock.now -= 5e6  # a clock that was set back takes nothing away
    assert bucket.wait("a") == 0.5


def test_what_is_more_than_a_bucket_holds_takes_all_of_it() -> None:
    clock = Clock()
    bucket = Rates(1, 10, clock)
    assert bucket.wait("a", 25) == 0 and bucket.wait("a") == 16
    clock.now += 16
    assert bucket.wait("a") == 0


def test_who_asked_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_KEYS", 2)
    bucket = Rates(1, 1, Clock())
    for who in "abc":
        bucket.wait(who)
    assert bucket.wait("a") == 0 and bucket.wait("c") == 1


def test_a_visit_that_floods_is_told_when_to_come_again(limits: VisitLimits, clock: Clock) -> None:
    statuses = [answered(limits, frame("flood"))[0] for _ in range(200)]
    assert statuses == [200] * 150 + [429] * 50
    status, headers, words = answered(limits, scope("/viz/live/flood/tile"))
    assert status == 429 and headers["retry-after"] == "1"
    assert words == sentence("frame", 1) and words.endswith("Try again in 1 s.")
    assert answered(limits, frame("another visit, the same address"))[0] == 200
    clock.now += 1
    assert [answered(limits, frame("flood"))[0] for _ in range(31)] == [200] * 30 + [429]


def test_a_class_behind_one_address_is_served(limits: VisitLimits, clock: Clock) -> None:
    """Sixty sliders in sixty hands: 25 frames a second each, for ten seconds."""
    for _ in range(20):
        clock.now += 0.5
        for pupil in range(CLASS):
            for _ in range(12):
                assert limits._refused(frame(f"pupil {pupil}")) is None


def test_one_address_cannot_be_many_visits(limits: VisitLimits, clock: Clock) -> None:
    most = CLASS * 30 * visit_limits.BURST
    served = sum(limits._refused(frame(f"{n}")) is None for n in range(most + 100))
    assert served == most
    assert limits._refused(frame("x", "10.0.0.2")) is None


def put(session: str, client: str = "10.0.0.1", said: int | None = None) -> Scope:
    length = [] if said is None else [(b"content-length", str(said).encode())]
    path = f"/_stcore/upload_file/{session}/file"
    return scope(path, client, method="PUT", headers=length)


def test_uploads_are_counted(limits: VisitLimits, clock: Clock) -> None:
    assert [limits._refused(put("a")) for _ in range(61)] == [None] * 60 + [("upload", 1.0)]
    over = [limits._refused(put("b", said=2_000_000_000)) for _ in range(2)]
    assert over == [None] * 2, "what is larger than all of a share may begin while it is whole"


async def brought(limits: VisitLimits, asked: Scope, pieces: list[bytes | None]) -> int:
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

    await limits(asked, receive, send)
    return next((one["status"] for one in sent if "status" in one), 0)


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that reads an upload to its end."""
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    if message["type"] == "http.request":
        await PlainTextResponse("taken")(scope, receive, send)


def test_bytes_of_uploads_count_as_they_arrive(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the headers say: a share is 3 MB here. What is broken off takes nothing of it."""
    monkeypatch.setenv(settings.VISIT_MB.variable, "3")
    mega: list[bytes | None] = [bytes(1_000_000)]
    for said in (None, 1, 0):
        limits = VisitLimits(reads)
        for _ in range(3):  # broken off by its sender
            assert run(brought(limits, put("a", said=said), [*mega * 2, None])) == 0
        assert run(brought(limits, put("a", said=said), mega * 3)) == 200, said
        assert run(brought(limits, put("a", said=said), mega)) == 429, said
        elsewhere = put("a", "10.0.0.2", said)
        assert run(brought(limits, elsewhere, mega * 4)) == 429, "another's visit"
        assert run(brought(limits, put("b", said=said), mega * 3)) == 200, said
        assert not limits.coming
    monkeypatch.setenv(settings.UPLOADS_MB.variable, "2")
    assert run(brought(VisitLimits(reads), put("a"), mega * 3)) == 503, "all visits together"
    monkeypatch.delenv(settings.UPLOADS_MB.variable)
    limits = VisitLimits(reads)
    assert run(brought(limits, put("a"), mega)) == 200
    assert run(brought(limits, put("a", said=3_000_000), mega * 3)) == 429, "before it is read"


def test_uploads_that_stand_still_or_crawl_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_limits, "STILL", 0.05)

    async def still(limits: VisitLimits) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(10)
            return {}

        async def send(message: Any) -> None:
            sent.append(message)

        await limits(put("a"), receive, send)
        return int(sent[0]["status"])

    assert run(still(VisitLimits(reads))) == 408
    monkeypatch.setattr(upload_limits, "SLOW_AFTER", 0.0)
    monkeypatch.setattr(upload_limits, "PACE", 1e12)
    assert run(brought(VisitLimits(reads), put("a"), [b"a", b"b"])) == 408


def test_invented_tokens_and_requests_have_the_share_of_their_address(
    limits: VisitLimits, clock: Clock
) -> None:
    most = CLASS * visit_limits.LOADS
    for number in range(most):
        asked = frame(f"invented {number}") if number % 2 else scope("/ready")
        assert limits._refused(asked) is None
    assert limits._refused(frame("invented x")) == ("request", 1 / (CLASS * 2))
    assert limits._refused(frame("a visit")) is None
    assert limits._refused(scope("/", "10.0.0.2")) is None


def test_a_flood_of_messages_delays_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that flood get their rate and are closed in the end; one behind their address that
    does not is never more than one message of each behind."""
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv(settings.MESSAGES.variable, "40")
    monkeypatch.setattr(visit_limits, "ENDLESS", 0.5)

    async def page(
        limits: VisitLimits, pause: float, until: float
    ) -> tuple[int, list[float], list[Any]]:
        loop, waits, sent = asyncio.get_running_loop(), [], []
        began = loop.time()

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(pause)
            if loop.time() > until:
                return {"type": "websocket.disconnect"}
            waits.append(-loop.time())
            return {"type": "websocket.receive", "bytes": b"\x5a\x00"}

        async def send(message: Any) -> None:
            sent.append(message)

        await limits(scope("/_stcore/stream", kind="websocket"), receive, send)
        return round(loop.time() - began), waits, sent

    heard: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "websocket.disconnect":
            heard.append(asyncio.get_running_loop().time())

    async def meets() -> list[Any]:
        limits = VisitLimits(app)
        until = asyncio.get_running_loop().time() + 3
        return await asyncio.gather(
            *(page(limits, 0, until) for _ in range(3)), page(limits, 0.1, until)
        )

    *floods, quiet = run(meets())
    for _, asked, sent in floods:
        assert len(asked) <= 5 * 40 + 3 * 40 and sent[-1]["code"] == visit_limits.TRY_AGAIN
    assert len(quiet[1]) >= 15 and not quiet[2]


class Held:
    """An app whose websockets stay open until they are let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = 0, asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        await self.let_go.wait()


async def opened(
    limits: Callable[..., Awaitable[None]], held: Held, pages: list[str]
) -> list[dict[str, Any]]:
    """Open a page for each address; what those that were refused were sent."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    tasks = []
    for client in pages:
        asked = scope("/_stcore/stream", client, kind="websocket")
        tasks.append(asyncio.create_task(limits(asked, receive, send)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
    held.let_go.set()
    await asyncio.gather(*tasks)
    return sent


def test_pages_are_counted_in_all_and_by_address(clock: Clock) -> None:
    async def meets() -> tuple[int, list[dict[str, Any]], VisitLimits]:
        held = Held()
        limits = VisitLimits(held)
        pages = ["10.0.0.1"] * 125 + [f"10.1.{n // 200}.{n % 200}" for n in range(490)]
        return held.begun, await opened(limits, held, pages), limits

    _, sent, limits = run(meets())
    refused = [one for one in sent if one["type"] == "websocket.http.response.start"]
    assert len(refused) == 5 + 10  # 120 for an address, 600 in all
    assert {one["status"] for one in refused} == {503}
    assert not limits.open  # all have gone


def test_a_page_that_cannot_be_served_says_so_in_the_visitors_language(
    limits: VisitLimits, clock: Clock
) -> None:
    limits.open["10.0.0.1"] = 120
    status, headers, words = answered(limits, scope(headers=PAGE))
    assert status == 503 and headers["retry-after"] == "20" and words == sentence("page", 20)
    chinese = [*PAGE, (b"accept-language", b"zh-CN,zh;q=0.9,en;q=0.8")]
    assert "20" in (said := answered(limits, scope(headers=chinese))[2]) and said != words
    assert answered(limits, scope("/_stcore/health"))[0] == 200
    assert answered(limits, scope(client="10.0.0.2", headers=PAGE))[0] == 200


@pytest.mark.parametrize("name", ["REQUESTS", "CONNECTIONS", "UPLOADS_A_MINUTE"])
def test_a_limit_can_be_lifted(name: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.PREFIX + name, "0")
    limits = VisitLimits(PlainTextResponse("the app"))
    limits.open["10.0.0.1"] = 10_000
    asked = {
        "REQUESTS": frame("a"),
        "CONNECTIONS": scope(headers=PAGE),
        "UPLOADS_A_MINUTE": scope("/_stcore/upload_file/a/b", method="PUT"),
    }[name]
    assert {limits._refused(asked) for _ in range(500)} == {None}


@pytest.mark.parametrize(
    ("peer", "trusted", "said", "whose"),
    [
        ("10.0.0.9", "127.0.0.1", "1.2.3.4", "10.0.0.9"),  # a stranger may say what it likes
        ("127.0.0.1", "127.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", "127.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # what came before is forged
        ("127.0.0.1", "127.0.0.1,10.0.0.9", "1.2.3.4, 10.0.0.9", "1.2.3.4"),
        ("127.0.0.1", "127.0.0.1", "", "127.0.0.1"),
        ("2001:db8:1:2:3::4", "", "", "2001:0db8:0001:0002"),
        ("::ffff:10.0.0.9", "", "", "10.0.0.9"),
    ],
)
def test_an_address_is_what_a_proxy_that_is_believed_says(
    peer: str, trusted: str, said: str, whose: str
) -> None:
    found = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(address(scope))

    headers = [(b"x-forwarded-for", said.encode())] if said else []
    behind: Any = ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type]
    run(behind(scope(client=peer, headers=headers), None, None))
    assert found == [whose]


@pytest.mark.parametrize("what", ["frame", "upload", "volume", "page", "slow", "full", "request"])
def test_each_refusal_is_a_sentence_with_the_time_to_wait(what: str) -> None:
    words = sentence(what, 7)
    assert words.endswith("Try again in 7 s.") and len(words) < 120
