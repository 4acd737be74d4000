"""Bundled script and style sheet of each component, so that a browser does not fetch dozens."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

#: Address at which Streamlit serves a component's script or style sheet, named after it.
ENTRY = re.compile(r".*/_stcore/bidi-components/transformer_viz\.([a-z]+)/(\1\.(?:js|css))")


class Joined:
    """ASGI middleware that serves a component's script and style sheet with all their imports.

    Other addresses are passed to Streamlit. Without it the same files are served one by one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = ENTRY.fullmatch(scope["path"]) if scope["type"] == "http" else None
        text = whole(asked[2]) if asked and scope["method"] == "GET" else None
        if asked is None or text is None:
            await self.app(scope, receive, send)
            return
        kind = "text/css" if asked[2].endswith(".css") else "text/javascript"
        version = f'"{sha256(text.encode()).hexdigest()[:32]}"'
        # The address has no hash, so a browser has to revalidate its copy.
        headers = {"Cache-Control": "no-cache", "ETag": version}
        known = Headers(scope=scope).get("if-none-match", "")
        is_known = version in (tag.strip().removeprefix("W/") for tag in known.split(","))
        answer = Response(
            None if is_known else text,
            status_code=304 if is_known else 200,
            media_type=kind,
            headers=headers,
        )
        await answer(scope, receive, send)


@cache
def whole(name: str) -> str | None:
    """Return a component's script or style sheet with all its imports; None if there is none."""
    # Imported here: the server answers before the first page run has imported its dependencies.
    from ...components.bundle import HERE, bundle, style

    if not (HERE / name).is_file():
        return None
    return style(name) if name.endswith(".css") else bundle(name)
