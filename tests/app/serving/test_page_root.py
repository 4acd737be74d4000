"""The root written into a page: nothing else of an answer changes, and no other answer."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit import file_util

from transformer_viz.app.serving.page_root import HEAD, ROOT, Rooted

PAGE = f"{file_util.get_static_dir()}/index.html"
ASKED_BY_A_BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def page(request: Request) -> Response:
    return FileResponse(PAGE)


async def missing(request: Request) -> Response:
    return HTMLResponse("<head></head>", status_code=404)


async def text(request: Request) -> Response:
    return PlainTextResponse("<head>" * 1000)


def client(*, packs: bool = False) -> TestClient:
    """A browser of an app that is Streamlit's page and two other answers."""
    inner = [Middleware(GZipMiddleware, minimum_size=10)] if packs else []
    routes = [Route("/text", text), Route("/missing", missing), Route("/{rest:path}", page)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Rooted), *inner]))


@pytest.fixture(scope="module")
def stored() -> bytes:
    with open(PAGE, "rb") as file:
        return file.read()


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("path", ["/", "/explore", "/below/explore"])
def test_a_page_says_its_root_before_any_script_runs(path: str, packs: bool, stored: bytes) -> None:
    found = client(packs=packs).get(path, headers=ASKED_BY_A_BROWSER)
    assert found.content == stored.replace(HEAD, HEAD + ROOT) != stored
    assert found.content.index(ROOT) < found.content.index(b'type="module"')
    assert int(found.headers["content-length"]) == len(found.content)
    assert not {"etag", "last-modified", "content-encoding"} & {*found.headers}


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/explore", {"accept": "*/*"}),
        ("GET", "/text", ASKED_BY_A_BROWSER),
        ("GET", "/missing", ASKED_BY_A_BROWSER),
    ],
)  # fmt: skip
def test_all_else_passes_as_it_is(method: str, path: str, headers: dict[str, Any]) -> None:
    found = client().request(method, path, headers=headers)
    assert ROOT not in found.content and "content-length" in found.headers


def test_asked_for_no_text_none_comes() -> None:
    found = client().head("/explore", headers=ASKED_BY_A_BROWSER)
    assert found.status_code == 200 and found.content == b""


def test_what_is_no_page_stays_packed() -> None:
    found = client(packs=True).get("/text", headers={"accept-encoding": "gzip"})
    assert found.headers["content-encoding"] == "gzip"
    assert found.content == b"<head>" * 1000
