"""Self-contained HTML page: our components, their data, and no network access."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from ..i18n import mark, say, spoken_language
from .bundle import bundle, style

#: Content security policy: run the page's script, given by its hash, and use its style sheet.
POLICY = (
    "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
NEEDS_SCRIPTS = mark("The pictures on this page are drawn by a script of its own; allow it to run.")
PAGE = """<!doctype html>
<html lang="{language}"{theme}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
<noscript><p>{needs}</p></noscript>
<script type="application/octet-stream" id="tv-data">{data}</script>
{parts}<script>{script}</script>
</body>
</html>
"""
PART = '<script type="application/octet-stream" id="tv-part-{number}">{letters}</script>\n'


def page(
    data: bytes,
    *,
    title: str,
    body: str,
    parts: Sequence[str] = (),
    theme: str = "",
    script: str = "report/report.js",
    sheet: str = "report.css",
) -> str:
    """Return a page that shows a script's rendering of some data.

    Args:
        data: A blob from `pack`; it is embedded deflated, as base64.
        title: Plain text.
        body: Ready HTML with ``<main id="tv-report">``; the caller escapes every token and name.
        parts: Further blobs, deflated and base64, each unpacked on demand.
        theme: ``light`` or ``dark``; if omitted, the reader's setting.
        script, sheet: The entry module and the style sheet, in ``browser/``.
    """
    joined = "(() => {\n" + bundle(script) + "\n})();"
    digest = base64.b64encode(hashlib.sha256(joined.encode("utf-8")).digest()).decode("ascii")
    return PAGE.format(
        policy=POLICY.format(hash=digest),
        title=html.escape(title),
        style=style(sheet),
        body=body,
        needs=html.escape(say(NEEDS_SCRIPTS)),
        language=spoken_language(),
        data=base64.b64encode(zlib.compress(data, 9)).decode("ascii"),
        parts="".join(PART.format(number=n, letters=one) for n, one in enumerate(parts)),
        script=joined,
        theme=f' data-theme="{theme}"' if theme else "",
    )


def framed(content: str, *, title: str, height: int) -> str:
    """Return an iframe that contains a page, to embed it in another one, such as a notebook."""
    return (
        f'<iframe srcdoc="{html.escape(content)}" title="{html.escape(title)}" width="100%" '
        f'height="{height}" style="border:0" sandbox="allow-scripts"></iframe>'
    )


def header(data: bytes) -> dict[str, Any]:
    """Return the header of a blob from `pack`, without its arrays."""
    _, length = struct.unpack_from("<II", data)
    fields: dict[str, Any] = json.loads(data[8 : 8 + length])
    return fields
