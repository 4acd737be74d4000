"""Run N workers behind Caddy: python -m transformer_viz.app.balancer N

Caddy listens where ``STREAMLIT_SERVER_ADDRESS`` and ``STREAMLIT_SERVER_PORT`` say, as one process
of the app would. On Ctrl-C or SIGTERM all processes end.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from subprocess import Popen
from tempfile import TemporaryDirectory
from threading import Thread

from ... import reach, settings
from ..serving import descriptors
from . import caddy
from .status import Status
from .workers import LOOK, Worker, free_ports, say, stop

COOKIE_SECRET = "STREAMLIT_SERVER_COOKIE_SECRET"
FORWARDED_ALLOW = "FORWARDED_ALLOW_IPS"  # the server below reads it too


def surroundings(given: Mapping[str, str], workers: int, cores: int) -> dict[str, str]:
    """The environment of each worker: what all of them share is shared out.

    Args:
        given: the environment of this process.
        workers: how many there are.
        cores: of this machine.
    """
    threads = settings.THREADS.number or max(1, cores // (workers * settings.FORWARDS.number))
    uploads = max(1, settings.UPLOADS_MB.number // workers)
    pages = -(-settings.CONNECTIONS.number // workers)
    return (
        {"OMP_NUM_THREADS": str(threads), COOKIE_SECRET: secrets.token_hex(32)}
        | {name: text for name, text in given.items() if name != FORWARDED_ALLOW}
        | ({"OMP_NUM_THREADS": str(threads)} if settings.THREADS.number else {})
        | {
            settings.UPLOADS_MB.variable: str(uploads),
            **({settings.CONNECTIONS.variable: str(pages)} if pages else {}),
            # A worker listens on this machine alone, and its visitors come from where we listen.
            **({settings.REACH.variable: reach.OTHERS} if reach.reason(given) else {}),
            # Only this process speaks to a worker, of visitors whom these proxies let in. Left out,
            # the server below believes 127.0.0.1, and a proxy that is named is a sign of others.
            **({FORWARDED_ALLOW: told} if (told := believed(given)) else {}),
            "STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE": "true",
        }
    )


def believed(given: Mapping[str, str]) -> str:
    """Return whose word about the visitor a worker believes: ours, and that of named proxies."""
    proxies = [one for one in map(str.strip, given.get(FORWARDED_ALLOW, "").split(",")) if one]
    if not proxies:
        return ""
    return "*" if "*" in proxies else ",".join(dict.fromkeys(("127.0.0.1", *proxies)))


def run(path: str, count: int, host: str, port: int) -> int:
    """Serve until told to stop; return the exit status.

    Args:
        path: of Caddy.
        count: how many workers to keep.
        host: address to listen on.
        port: port to listen on.
    """
    reasons: SimpleQueue[str] = SimpleQueue()  # why the server ends; empty: somebody wants it
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: reasons.put(""))
    workers = [Worker(*each) for each in enumerate(free_ports(count))]
    words = surroundings(os.environ, count, os.cpu_count() or 1)
    for one in workers:
        Thread(target=one.keep, args=(words, reasons.put), daemon=True).start()
    status = Status(workers)
    Thread(target=status.serve_forever, daemon=True).start()
    proxies = os.environ.get(FORWARDED_ALLOW, "").split(",")
    with TemporaryDirectory(prefix="transformer-viz-caddy-") as folder:
        try:
            while True:
                # Until a worker answers nobody listens, as with one process.
                if status.front is None and any(one.is_up for one in workers):
                    ports = [one.port for one in workers]
                    text = caddy.caddyfile(folder, host, port, ports, status.server_port, proxies)
                    status.front = caddy.start(path, folder, text)
                    Thread(target=_wait, args=(status.front, reasons), daemon=True).start()
                    shown = f"[{host}]" if ":" in host else host
                    print(f"\n  {count} workers at http://{shown}:{port}\n", flush=True)
                with suppress(Empty):
                    reason = reasons.get(timeout=LOOK)
                    if reason:
                        say(reason)
                    return 1 if reason else 0
        finally:
            stop(workers, *filter(None, [status.front]))


def _wait(front: Popen[bytes], reasons: SimpleQueue[str]) -> None:
    reasons.put(f"Caddy ended (status {front.wait()}); what it wrote above says why.")


def main() -> int:
    """Read where to listen and how many workers to keep, and serve."""
    descriptors.make_room()
    host, port = os.environ["STREAMLIT_SERVER_ADDRESS"], os.environ["STREAMLIT_SERVER_PORT"]
    try:
        path = caddy.find()
    except ValueError as error:
        say(str(error))
        return 2
    return run(path, int(sys.argv[1]), host, int(port))


if __name__ == "__main__":
    sys.exit(main())
