"""Server of the app: Streamlit's, with further routes: live frames, metrics, readiness.

python -m transformer_viz.app.live.server        (transformer-viz app starts this)

It takes the settings of ``streamlit run``: options, environment variables, config file. Without it,
as under ``streamlit run app.py``, a slider sends each step to the page instead, which is slower
with the same result.
"""

from __future__ import annotations

import runpy
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from threading import Thread
from typing import Any

import anyio.to_thread
import click
import streamlit as st
from anyio import CapacityLimiter
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from streamlit.web.cli import configurator_options

from ... import reach
from ...checkpoints.files import upload_rooms
from ...core.errors import is_fault
from ...paths import ROOT
from ..counts.server_counts import FRAMES, FRAMES_ENDED, REFUSALS, computing
from ..engine.task import Abandoned
from ..engine.turns.priority import PRIORITY
from ..serving import (
    descriptors,
    message_batches,
    no_delay,
    paced_sockets,
    state_lookups,
    uploaded_files,
)
from ..serving.compression import Compressed
from ..serving.old_pages import OldPages
from ..serving.page_root import Rooted
from . import status
from .allowed_hosts import AllowedHosts
from .asset_bundles import Joined
from .registry import EXCHANGE, FAR, PATH, TILE, WORDS
from .security_headers import SecurityHeaders
from .status import Visitors
from .visit_limits import VisitLimits

APP = ROOT / "app.py"
AT_ONCE = 64  # frames made at once; most of them wait for one of the few run slots
OUTCOMES = {200: "made", 204: "abandoned", 500: "failed"}  # of frames, by status
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Encoding": "identity",  # else all would be compressed, which takes longer
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def application() -> st.App:
    """Return the app with its further routes."""
    EXCHANGE.is_open, reach.option = True, st.get_option
    message_batches.gather()
    state_lookups.look_up()
    uploaded_files.spool()
    middleware = [
        Middleware(SecurityHeaders),
        Middleware(AllowedHosts),
        Middleware(VisitLimits),
        Middleware(Visitors),
    ]
    middleware += [Middleware(OldPages), Middleware(Compressed), Middleware(Joined)]
    middleware += [Middleware(Rooted)]
    every = [*status.routes(), *routes()]
    return st.App(APP, routes=every, middleware=middleware, lifespan=_tidy)


@asynccontextmanager
async def _tidy(app: st.App) -> AsyncIterator[None]:
    """Remove uploads of a killed server at the start, and those of this one at the end."""
    await anyio.to_thread.run_sync(upload_rooms.sweep)
    Thread(target=_import_pages, daemon=True).start()
    try:
        yield
    finally:
        await anyio.to_thread.run_sync(upload_rooms.clear)


def _import_pages() -> None:
    """Import the script's modules while the first browser loads Streamlit's code."""
    runpy.run_path(str(APP))  # not as "__main__": it draws nothing


def routes() -> list[Route]:
    """Return the routes of live frames."""
    limiter: list[CapacityLimiter] = []

    async def answer(request: Request) -> Response:
        if not limiter:  # it belongs to the event loop, which did not run before
            limiter.append(CapacityLimiter(AT_ONCE))
        began = time.perf_counter()
        found = await anyio.to_thread.run_sync(_answer, request, limiter=limiter[0])
        _count(found.status_code, time.perf_counter() - began)
        return found

    # Settings are not read yet, so any base path is accepted: the token decides.
    paths = (f"{PATH}/{{token}}", f"/{{base:path}}{PATH}/{{token}}")
    asked = ("", TILE, WORDS, FAR)
    return [Route(path + more, answer, methods=["GET"]) for more in asked for path in paths]


def _answer(request: Request) -> Response:
    """Return a frame or a part of a long map, or a one-sentence error."""
    # Imported here: the server answers before the first page run has imported them.
    from ...components import edit_sliders
    from ..ui.text_format import spoken
    from . import frames, map_answers, tiles

    door = "/" + request.url.path.rpartition("/")[2]
    try:
        line = EXCHANGE.line(request.path_params["token"])
    except KeyError:
        return _sentence(404, "There is no such visit any more.")
    try:
        query = dict(request.query_params)
        # ?temperature=2&seq=7 or ?window=3&seq=8; frames.frame makes an edit of it
        make: Callable[[], bytes]
        if door == TILE:
            make = partial(tiles.tile, line, tiles.asked(query))
        elif door in (WORDS, FAR):
            asked = map_answers.words if door == WORDS else map_answers.far
            make = partial(asked, line, query)
        elif line.view.long:
            shown = tiles.region(query)
            make = partial(frames.long_frame, line, *edit_sliders.asked(query), shown)
        else:
            make = partial(frames.frame, line, *edit_sliders.asked(query))
    except ValueError as error:
        return _sentence(400, str(error))
    try:
        # A list of links takes seconds, so it has no priority over other runs.
        is_frame = door not in (TILE, WORDS)
        urgent = PRIORITY.urgent(line.token, newest=is_frame)
        with nullcontext() if door == FAR else urgent, computing("frames"):
            body = make()
    except Abandoned:
        return Response(status_code=204, headers=HEADERS)
    except (ValueError, LookupError, OSError) as error:
        return _sentence(409, spoken(error))
    except BaseException as error:  # the page's own run meets it again, and explains it
        if not is_fault(error):
            raise
        traceback.print_exc(file=sys.stderr)
        return _sentence(500, f"This did not work ({type(error).__name__}).")
    return Response(body, media_type="application/octet-stream", headers=HEADERS)


def _count(status: int, seconds: float) -> None:
    outcome = OUTCOMES.get(status, "refused")
    FRAMES_ENDED.labels(outcome).inc()
    if outcome == "made":
        FRAMES.observe(seconds)
    elif outcome == "refused":
        REFUSALS.labels("frame").inc()


def _sentence(status: int, words: str) -> Response:
    return PlainTextResponse(words, status_code=status, headers=HEADERS)


@click.command()
@configurator_options
def main(**options: Any) -> None:
    """Serve the app until it is stopped."""
    given = {
        name.replace("_", "."): value
        for name, value in options.items()
        if value is not None and value != ()
    }
    descriptors.make_room()
    no_delay.send_at_once()
    paced_sockets.pace()
    sys.argv = [str(APP)]  # as `streamlit run app.py`: its folder, its config
    application().run(config=given)


if __name__ == "__main__":
    main()
