"""Answers on their way out: compressed, with the page's root, and scripts in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit import file_util

from tests.support.asgi import answered, scope
from transformer_viz.app.live.asset_bundles import Joined
from transformer_viz.app.serving import compression
from transformer_viz.app.serving.page_root import HEAD, ROOT, Rooted
from transformer_viz.components.bundle import bundle, style, text

PAGE = f"{file_util.get_static_dir()}/index.html"
BUNDLES = "/_stcore/bidi-components/transformer_viz."
SCRIPT = f"{BUNDLES}pictures/pictures.js"
GZIP = {"accept-encoding": "gzip, deflate, br"}
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ANSWERS = {
    "/": lambda _: HTMLResponse("<p>" * 1000),
    "/static/js/a.js": lambda _: FileResponse(PAGE, media_type="text/javascript"),
    "/static/small.js": lambda _: Response("x" * 999, media_type="text/javascript"),
    "/static/p.png": lambda _: Response(b"x" * 5000, media_type="image/png"),
    "/media/mine.csv": lambda _: Response("word " * 5000, media_type="text/csv"),
    "/text": lambda _: PlainTextResponse("<head>" * 1000),
    "/missing": lambda _: HTMLResponse("<head></head>", status_code=404),
    "/explore": lambda _: FileResponse(PAGE),
    "/below/explore": lambda _: FileResponse(PAGE),
}


def client(*middleware: Middleware) -> TestClient:
    routes = [Route(path, answer) for path, answer in ANSWERS.items()]
    return TestClient(Starlette(routes=routes, middleware=middleware))


@pytest.fixture
def browser() -> Iterator[TestClient]:
    compression.CACHE.files.clear()
    with client(Middleware(compression.Compressed), Middleware(Joined)) as found:
        yield found


def test_scripts_and_pages_are_compressed_and_the_same_text(browser: TestClient) -> None:
    for path in ("/static/js/a.js", "/", SCRIPT):
        plain = browser.get(path, headers={"accept-encoding": "identity"})
        for _ in range(2):
            packed = browser.get(path, headers=GZIP)
            assert packed.headers["content-encoding"] == "gzip", path
            assert packed.content == plain.content, path
            assert int(packed.headers["content-length"]) < len(plain.content) / 2, path
            assert "Accept-Encoding" in packed.headers["vary"], path
    assert len(compression.CACHE.files) == 2  # the page is another one for each visitor
    for path, headers in (
        ("/static/js/a.js", {"accept-encoding": "gzip;q=0, br"}),
        ("/static/js/a.js", GZIP | {"range": "bytes=0-9"}),
        ("/static/small.js", GZIP),
        ("/static/p.png", GZIP),
        ("/media/mine.csv", GZIP),
        ("/nothing", GZIP),
    ):
        assert "content-encoding" not in browser.get(path, headers=headers).headers, path


def test_a_browser_that_has_a_script_gets_no_second_copy(browser: TestClient) -> None:
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


def test_a_page_names_its_root_before_any_script_runs() -> None:
    with open(PAGE, "rb") as file:
        stored = file.read()
    rooted, packs = Middleware(Rooted), Middleware(GZipMiddleware, minimum_size=10)
    for middleware in ([rooted], [rooted, packs]):
        for path in ("/explore", "/below/explore"):
            found = client(*middleware).get(path, headers=BROWSER)
            assert found.content == stored.replace(HEAD, HEAD + ROOT) != stored, path
            assert found.content.index(ROOT) < found.content.index(b'type="module"'), path
            assert int(found.headers["content-length"]) == len(found.content), path
            assert not {"etag", "last-modified", "content-encoding"} & {*found.headers}, path
    # All other answers pass as they are.
    for path, headers in (
        ("/explore", {"accept": "*/*"}),
        ("/text", BROWSER),
        ("/missing", BROWSER),
    ):
        found = client(rooted).get(path, headers=headers)
        assert ROOT not in found.content and "content-length" in found.headers, path
    found = client(rooted).head("/explore", headers=BROWSER)
    assert found.status_code == 200 and found.content == b""
    found = client(rooted, packs).get("/text", headers={"accept-encoding": "gzip"})
    assert found.headers["content-encoding"] == "gzip" and found.content == b"<head>" * 1000


def test_scripts_and_styles_come_in_one_piece() -> None:
    def fetched(path: str, method: str = "GET") -> tuple[str, str]:
        """Return content type and text; behind the middleware stands Streamlit."""
        streamlit = Joined(PlainTextResponse("Streamlit's"))
        _, headers, body = answered(streamlit, scope(path, method=method))
        return headers["content-type"], body.decode()

    for name in ("pictures", "panels"):
        for base in ("", "/lessons"):
            kind, script = fetched(f"{base}{BUNDLES}{name}/{name}.js")
            assert kind.startswith("text/javascript") and script == bundle(f"{name}.js"), name
            assert not re.search(r"^import\b", script, re.MULTILINE), name
            assert len(re.findall(r"^export default", script, re.MULTILINE)) == 1, name
            assert "function showIn" in script, name
    assert "export function showIn" in text("shared/streamlit_view.js")
    kind, sheet = fetched(f"{BUNDLES}pictures/pictures.css")
    assert kind.startswith("text/css") and sheet == style("pictures.css")
    assert "@import" not in sheet and ".tv-slider-track" in sheet
    for path in (
        "/", "/live/token", BUNDLES + "pictures/shared/dom.js", BUNDLES + "pictures/panels.js",
        BUNDLES + "nothing/nothing.js", BUNDLES + "nothing/nothing.css",
        BUNDLES + "pictures/../pictures.js", BUNDLES + "pictures/..%2fpictures.css",
        "/_stcore/bidi-components/another.pictures/pictures.js",
        BUNDLES + "pictures/pictures.js.map",
    ):  # fmt: skip
        assert fetched(path)[1] == "Streamlit's", path
    assert fetched(SCRIPT, "OPTIONS")[1] == "Streamlit's"  # only reading is answered here
