"""Balancer process: python -m transformer_viz.app.balancer N

It listens at ``STREAMLIT_SERVER_ADDRESS`` and ``STREAMLIT_SERVER_PORT``, as one process of the app
would, and ends with all its workers on Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Mapping

from ... import reach, settings
from ..serving import descriptors
from .balancer import Balancer
from .workers import CannotStart, Worker, say

COOKIE_SECRET = "STREAMLIT_SERVER_COOKIE_SECRET"
FORWARDED_ALLOW = "FORWARDED_ALLOW_IPS"  # uvicorn reads it too
BACKLOG = 512  # connections that wait to be accepted


def surroundings(given: Mapping[str, str], workers: int, cores: int) -> dict[str, str]:
    """Return the environment of each worker, with shared limits divided among them.

    Args:
        given: Environment of this process.
        workers: Number of workers.
        cores: Number of CPU cores of this machine.
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
            # A worker listens on loopback only; its clients come from the balancer's address.
            **({settings.REACH.variable: reach.OTHERS} if reach.reason(given) else {}),
            # Only this process connects to a worker, for clients accepted by these proxies. If it
            # is unset, uvicorn trusts 127.0.0.1, and a named proxy is a sign of remote users.
            **({FORWARDED_ALLOW: told} if (told := believed(given)) else {}),
            "STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE": "true",
        }
    )


def believed(given: Mapping[str, str]) -> str:
    """Return the proxies whose X-Forwarded-For a worker trusts: this process and the named ones."""
    proxies = [one for one in map(str.strip, given.get(FORWARDED_ALLOW, "").split(",")) if one]
    if not proxies:
        return ""
    return "*" if "*" in proxies else ",".join(dict.fromkeys(("127.0.0.1", *proxies)))


async def run(count: int, host: str, port: int) -> int:
    """Serve until a stop signal; return the exit status."""
    told = os.environ.get(FORWARDED_ALLOW, "").split(",")
    workers = [Worker(number) for number in range(count)]
    balancer = Balancer(workers, frozenset(filter(None, map(str.strip, told))))
    words = surroundings(os.environ, count, os.cpu_count() or 1)
    stopped = _stop_signal()
    keeping = [asyncio.create_task(one.keep(words, balancer.changed)) for one in workers]
    serving = asyncio.create_task(_serve(balancer, host, port))
    ending = asyncio.create_task(stopped.wait())
    try:
        done, _ = await asyncio.wait(
            {*keeping, serving, ending}, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done - {ending}:
            task.result()
        return 0
    except (CannotStart, OSError) as error:
        say(str(error))
        return 1
    finally:
        serving.cancel()
        ending.cancel()
        for task in balancer.open_lines:
            task.cancel()
        await asyncio.gather(*(one.stop() for one in workers))
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, serving, ending, return_exceptions=True)


async def _serve(balancer: Balancer, host: str, port: int) -> None:
    """Listen once the first worker is up; until then the port is closed, as with one process."""
    while not any(worker.is_up for worker in balancer.workers):
        balancer.changed.clear()
        await balancer.changed.wait()
    server = await asyncio.start_server(balancer.serve, host, port, backlog=BACKLOG)
    shown = f"[{host}]" if ":" in host else host
    print(f"\n  {len(balancer.workers)} workers at http://{shown}:{port}\n", flush=True)
    async with server:
        await asyncio.Event().wait()


def _stop_signal() -> asyncio.Event:
    """Return an event that is set by SIGINT or SIGTERM."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, stopped.set)
        except NotImplementedError:  # Windows
            signal.signal(name, lambda *_: loop.call_soon_threadsafe(stopped.set))
    return stopped


def main() -> int:
    """Serve with the address, the port and the number of workers of this process."""
    descriptors.make_room()
    return asyncio.run(
        run(
            int(sys.argv[1]),
            os.environ["STREAMLIT_SERVER_ADDRESS"],
            int(os.environ["STREAMLIT_SERVER_PORT"]),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
