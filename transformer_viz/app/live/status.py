"""Monitoring of the server: ``/metrics`` and ``/ready``.

Both contain numbers and names of the app only, and no user data.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import settings
from ..counts import server_counts
from ..counts.families import CONTENT_TYPE, Asked
from .addresses import METRICS, READY, may_read_metrics
from .server_engine import server_engine

NOT_CACHED = {"Cache-Control": "no-store"}
CLOSED = "Metrics are not told here.\n"


def routes() -> list[Route]:
    """Return the routes of monitoring."""
    return [Route(METRICS, metrics, methods=["GET"]), Route(READY, ready, methods=["GET"])]


async def metrics(request: Request) -> Response:
    """Return all numbers in Prometheus' exposition format, if the setting allows the client."""
    peer = request.client.host if request.client else ""
    if not may_read_metrics(settings.METRICS.text, peer, request.headers):
        return PlainTextResponse(CLOSED, status_code=404, headers=NOT_CACHED)
    body = await anyio.to_thread.run_sync(lambda: server_counts.text(*engine_families()))
    return Response(body, headers=NOT_CACHED | {"Content-Type": CONTENT_TYPE})


async def ready(request: Request) -> Response:
    """Return 200 if the first model is loaded; otherwise start to load it."""
    return await anyio.to_thread.run_sync(_ready)


def _ready() -> Response:
    engine = server_engine()
    name = next(iter(engine.shelf), "")
    if not name or engine.ready(name):
        return PlainTextResponse("ready\n", headers=NOT_CACHED)
    if name not in engine.models:  # a failed one is not tried again at each request
        engine.models.start(name)
    words = "The first model is not loaded yet.\n"
    return PlainTextResponse(words, status_code=503, headers=NOT_CACHED | {"Retry-After": "2"})


def engine_families() -> list[Asked]:
    """Return the engine's current numbers."""
    engine = server_engine()

    def told(value: float) -> Mapping[tuple[str, ...], float]:
        return {(): float(value)}

    queues: dict[tuple[str, ...], float] = {
        ("all",): float(engine.gate.waiting),
        ("long",): float(engine.gate.waiting_long + engine.shared.waiting),
    }
    loaded = engine.models.loaded()
    return [
        Asked(
            "transformer_viz_queue_length",
            "Runs that wait for their turn; those of many passes wait in a line of their own.",
            ("line",),
            ask=lambda: queues,
        ),
        Asked("transformer_viz_models_loaded", "Models loaded.", ask=lambda: told(len(loaded))),
        Asked("transformer_viz_model_bytes", "Bytes of weights.", ask=lambda: told(sum(loaded))),
        Asked(
            "transformer_viz_cache_bytes",
            "Bytes of runs that are kept.",
            ask=lambda: told(engine.cache.size),
        ),
        Asked(
            "transformer_viz_cache_limit_bytes",
            "Bytes that may be kept.",
            ask=lambda: told(engine.cache.limit),
        ),
    ]


class Visitors:
    """ASGI middleware that counts sessions: each holds one websocket for as long as it lasts."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        server_counts.VISITS.inc()
        server_counts.VISITORS.inc()
        try:
            await self.app(scope, receive, send)
        finally:
            server_counts.VISITORS.dec()
