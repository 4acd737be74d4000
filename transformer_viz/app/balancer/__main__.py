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
from .workers import LOOK, Worker, say, stop

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


def run(count: int, host: str, port: int) -> int:
    """Serve until told to stop; return the exit status."""
    reasons: SimpleQueue[str] = SimpleQueue()  # why the server ends; empty: somebody wants it
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: reasons.put(""))
    workers = [Worker(number) for number in range(count)]
    words = surroundings(os.environ, count, os.cpu_count() or 1)
    for one in workers:
        Thread(target=one.keep, args=(words, reasons.put), daemon=True).start()
    status = Status(workers)
    Thread(target=status.serve_forever, daemon=True).start()
    proxies = os.environ.get(FORWARDED_ALLOW, "").split(",")
    fronts: list[Popen[bytes]] = []
    try:
        with TemporaryDirectory(prefix="transformer-viz-caddy-") as folder:
            while not any(one.is_up for one in workers):  # until then nobody listens, as with one
                with suppress(Empty):
                    return _exit_status(reasons.get(timeout=LOOK))
            ports = [one.port for one in workers]
            config = caddy.caddyfile(folder, host, port, ports, status.server_port, proxies)
            fronts.append(caddy.start(caddy.find(), folder, config))
            Thread(target=_tell_end, args=(fronts[0], reasons), daemon=True).start()
            shown = f"[{host}]" if ":" in host else host
            print(f"\n  {count} workers at http://{shown}:{port}\n", flush=True)
            return _exit_status(reasons.get())
    finally:
        stop(workers, *fronts)


def _tell_end(front: Popen[bytes], reasons: SimpleQueue[str]) -> None:
    status = front.wait()
    reasons.put(f"Caddy ended (status {status}); what it wrote above says why.")


def _exit_status(reason: str) -> int:
    if reason:
        say(reason)
    return 1 if reason else 0


def main() -> int:
    """Read where to listen and how many workers to keep, and serve."""
    descriptors.make_room()
    host, port = os.environ["STREAMLIT_SERVER_ADDRESS"], os.environ["STREAMLIT_SERVER_PORT"]
    return run(int(sys.argv[1]), host, int(port))


if __name__ == "__main__":
    sys.exit(main())
