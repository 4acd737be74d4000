"""Base URL of the app, written into its pages, so that the browser need not search for it.

For ``/explore`` Streamlit's script requests ``/explore/_stcore/health`` and
``/explore/_stcore/host-config`` first, and those at the root only when both fail. Each session
would have two errors in the console and a useless wait. The script skips the search if it finds the
root in ``window.__streamlit``. Under ``streamlit run app.py`` it still searches.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"
#: Relative to the page, as the addresses of its scripts are, so that it is valid below any path.
ROOT = (
    b'<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", location.href).href }</script>'
)
#: Headers that describe the file, which differs from the changed text.
OF_THE_FILE = ("content-length", "etag", "last-modified")


class Rooted:
    """ASGI middleware that writes the root into pages; other responses are unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; change the text of a response that is a page."""
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        headers = [(name, text) for name, text in scope["headers"] if name != b"accept-encoding"]
        await self.app({**scope, "headers": headers}, receive, _Page(send))


class _Page:
    """Response that holds a page back until its text is complete; others pass part by part."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.begun: Message | None = None
        self.text = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(message):
            self.begun = message
        elif self.begun is None:
            await self.send(message)
        else:
            self.text += message.get("body", b"")
            if not message.get("more_body", False):
                await self._answer(self.begun)

    async def _answer(self, begun: Message) -> None:
        headers = MutableHeaders(raw=list(begun["headers"]))
        for name in OF_THE_FILE:
            del headers[name]
        text = self.text.replace(HEAD, HEAD + ROOT, 1)
        if self.text:  # HEAD requests have no body
            headers["content-length"] = str(len(text))
        await self.send({**begun, "headers": headers.raw})
        await self.send({"type": "http.response.body", "body": text})


def _is_page(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("text/html")
