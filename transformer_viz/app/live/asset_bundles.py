"""Each component's script and style in one piece: a browser that fetches dozens waits for each."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

#: Where Streamlit serves a component's script and style sheet, which bear its name.
ENTRY = re.compile(r".*/_stcore/bidi-components/transformer_viz\.([a-z]+)/(\1\.(?:js|css))")


class Joined:
    """Answers for a component's script and style sheet with all that they import.

    Other addresses are Streamlit's. Without this the same files come one by one.
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
        # The address carries no hash: a browser keeps the file, and asks whether it is the same.
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
    """A component's script or style sheet with all that it imports; None where there is none."""
    # Imported here: the server answers before the first page run has imported what this needs.
    from ...components.bundle import HERE, bundle, style

    if not (HERE / name).is_file():
        return None
    return style(name) if name.endswith(".css") else bundle(name)
