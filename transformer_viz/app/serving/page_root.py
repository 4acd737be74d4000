"""A page tells the browser where the app begins, so that it need not look for it.

Whoever opens ``/explore`` makes Streamlit's script ask for ``/explore/_stcore/health`` and
``/explore/_stcore/host-config`` first, and only when both fail for those at the root: two errors in
the console of each visit, and a wait for nothing. The script asks no further where it reads the
root in ``window.__streamlit``. Under ``streamlit run app.py`` it still looks.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"
#: Relative to the page, as the addresses of its scripts are: right below a path too.
ROOT = (
    b'<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", location.href).href }</script>'
)
#: What a browser could compare with the file, which is not what it was sent.
OF_THE_FILE = ("content-length", "etag", "last-modified")


class Rooted:
    """ASGI middleware that writes the root into pages; all else passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; of an answer that is a page, the text is changed."""
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        headers = [(name, text) for name, text in scope["headers"] if name != b"accept-encoding"]
        await self.app({**scope, "headers": headers}, receive, _Page(send))


class _Page:
    """Holds a page back until its whole text is there; other answers go on part by part."""

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
        if self.text:  # HEAD asks for none
            headers["content-length"] = str(len(text))
        await self.send({**begun, "headers": headers.raw})
        await self.send({"type": "http.response.body", "body": text})


def _is_page(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("text/html")
