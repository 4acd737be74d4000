"""Headers that restrict a page to the browser features that the app needs.

A proxy may add further ones; browsers enforce both of two policies.
"""

from __future__ import annotations

import os

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import settings

#: Origins of notebooks of this machine and of VS Code, which show the app in a frame.
OWN_FRAMES = (
    *("'self'", "http://localhost:*", "https://localhost:*", "http://127.0.0.1:*"),
    *("https://127.0.0.1:*", "vscode-webview:", "vscode-file:"),
)
SPACE, SPACE_PAGE = "SPACE_ID", "https://huggingface.co"  # a Space is shown in a frame of its page
#: Streamlit writes styles and two scripts into the page, and creates workers and downloads from
#: blobs. Nothing is loaded from elsewhere.
POLICY = (
    *("default-src 'self'", "script-src 'self' 'unsafe-inline' blob:"),
    *("style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:", "font-src 'self' data:"),
    *("media-src 'self' data: blob:", "worker-src 'self' blob:", "frame-src 'self' data: blob:"),
    *("object-src 'none'", "base-uri 'self'", "form-action 'self'"),
)
ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


class SecurityHeaders:
    """ASGI middleware that adds the headers to each response; existing ones stay."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and add the headers to its response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                for name, text in ALWAYS.items():
                    headers.setdefault(name, text)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.setdefault("Content-Security-Policy", policy(headers_host(scope)))
                message = {**message, "headers": headers.raw}
            await send(message)

        await self.app(scope, receive, answer)


def headers_host(scope: Scope) -> str:
    """Return the Host header if it can be part of a policy, else an empty string."""
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    return host if host and all(one.isalnum() or one in ".:-[]" for one in host) else ""


def policy(host: str) -> str:
    """Return the policy: sources that a page may load, and sites that may frame it.

    Args:
        host: Host of the request; Safari before 15.4 rejects websockets for ``'self'``.
    """
    given = settings.FRAMES.text.replace(",", " ").split()
    frames = (*OWN_FRAMES, *((SPACE_PAGE,) if os.environ.get(SPACE) else ()), *given)
    sockets = f" ws://{host} wss://{host}" if host else ""
    own = (f"connect-src 'self'{sockets}", f"frame-ancestors {' '.join(frames)}")
    return "; ".join((*POLICY, *own) if "*" not in given else (*POLICY, own[0]))
