"""A proxy on this machine that serves an app below a path, and takes the path away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.support.browser import free_port, wait_for
from transformer_viz.app.balancer import caddy

CADDYFILE = """{{
	admin off
	auto_https off
	persist_config off
	log {{
		level ERROR
	}}
}}
http://127.0.0.1:{port} {{
	handle_path {path}* {{
		reverse_proxy {app}
	}}
}}
"""


@contextmanager
def stripping_proxy(url: str, path: str) -> Iterator[str]:
    """The address at which the app of ``url`` stands below ``path``."""
    port = free_port()
    with TemporaryDirectory() as folder:
        text = CADDYFILE.format(port=port, path=path, app=urlsplit(url).netloc)
        process = caddy.start(caddy.find(), folder, text)
        try:
            wait_for(found := f"http://127.0.0.1:{port}{path}", process)
            yield found
        finally:
            process.terminate()
            process.wait(timeout=20)
