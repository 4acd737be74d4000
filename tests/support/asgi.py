"""Requests to an ASGI app without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.types import Scope


def run(work: Awaitable[Any]) -> Any:
    """Await something in a thread: a browser of another test may have a loop in this one."""

    async def waits() -> Any:
        return await work

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, waits()).result()


def scope(path: str = "/", client: str = "10.0.0.1", kind: str = "http", **more: Any) -> Scope:
    """Return the scope of a request; ``headers`` are given by name."""
    headers = {
        name.lower().encode(): text.encode() for name, text in more.pop("headers", {}).items()
    }
    found = {"type": kind, "path": path, "method": "GET", "headers": list(headers.items())}
    found |= {"scheme": "ws" if kind == "websocket" else "http", "query_string": b""}
    found |= {"client": (client, 5), "server": ("127.0.0.1", 1), "http_version": "1.1"}
    return found | {"root_path": "", "extensions": {"websocket.http.response": {}}} | more


def messages(app: Any, asked: Scope) -> list[dict[str, Any]]:
    """Return what an app sends as an answer to a request."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    run(app(asked, receive, send))
    return sent


def answered(app: Any, asked: Scope) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an answer."""
    first, *rest = messages(app, asked)
    headers = {name.decode(): value.decode() for name, value in first.get("headers", [])}
    return first["status"], headers, b"".join(part.get("body", b"") for part in rest)
