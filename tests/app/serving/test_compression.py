"""Compressed answers: the same text in fewer bytes, each file compressed once, others untouched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit import file_util

from transformer_viz.app.live.asset_bundles import Joined
from transformer_viz.app.serving import compression

PAGE = f"{file_util.get_static_dir()}/index.html"
SCRIPT = "/_stcore/bidi-components/transformer_viz.pictures/pictures.js"
GZIP = {"accept-encoding": "gzip, deflate, br"}


async def file(request: Request) -> Response:
    return FileResponse(PAGE, media_type="text/javascript")


async def page(request: Request) -> Response:
    return HTMLResponse("<p>" * 1000)


async def small(request: Request) -> Response:
    return Response("x" * 999, media_type="text/javascript", headers={"ETag": '"s"'})


async def picture(request: Request) -> Response:
    return Response(b"x" * 5000, media_type="image/png", headers={"ETag": '"p"'})


async def media(request: Request) -> Response:
    return Response("word " * 5000, media_type="text/csv", headers={"ETag": '"m"'})


@pytest.fixture
def browser() -> Iterator[TestClient]:
    routes = {"/static/js/a.js": file, "/": page, "/static/small.js": small}
    routes |= {"/static/p.png": picture, "/media/mine.csv": media}
    inner = [Middleware(compression.Compressed), Middleware(Joined)]
    compression.CACHE.files.clear()
    with TestClient(
        Starlette(routes=[*map(Route, routes, routes.values())], middleware=inner)
    ) as c:
        yield c


def test_scripts_and_pages_come_compressed_and_are_the_same_text(browser: TestClient) -> None:
    for path in ("/static/js/a.js", "/", SCRIPT):
        plain = browser.get(path, headers={"accept-encoding": "identity"})
        for _ in range(2):
            packed = browser.get(path, headers=GZIP)
            assert packed.headers["content-encoding"] == "gzip", path
            assert packed.content == plain.content, path
            assert int(packed.headers["content-length"]) < len(plain.content) / 2, path
            assert "Accept-Encoding" in packed.headers["vary"], path
    assert len(compression.CACHE.files) == 2  # the page is another one for each visitor


def test_other_answers_are_untouched(browser: TestClient) -> None:
    refused = {"accept-encoding": "gzip;q=0, br"}
    for path, headers in (
        ("/static/js/a.js", refused),
        ("/static/js/a.js", GZIP | {"range": "bytes=0-9"}),
        ("/static/small.js", GZIP),
        ("/static/p.png", GZIP),
        ("/media/mine.csv", GZIP),
        ("/nothing", GZIP),
    ):
        assert "content-encoding" not in browser.get(path, headers=headers).headers, path


def test_a_browser_that_has_a_script_is_told_so(browser: TestClient) -> None:
    first = browser.get(SCRIPT, headers=GZIP)
    again = browser.get(SCRIPT, headers=GZIP | {"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = browser.get(SCRIPT, headers=GZIP | {"if-none-match": '"other"'})
    assert other.status_code == 200 and other.content == first.content


def test_qualities_of_encodings() -> None:
    for accepted, wanted in (
        ("gzip", True), ("br, *", True), ("*;q=0", False), ("", False), ("GZIP; q=0.5", True),
        ("gzip;q=0.0, *", False), ("gzip;q=1.2.3", False), ("br;q=1", False),
    ):  # fmt: skip
        assert compression.takes_gzip(accepted) is wanted, accepted
