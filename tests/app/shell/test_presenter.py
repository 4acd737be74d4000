"""The corner of the frame without a browser: sharing, presenting, and the language."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import cairosvg
import pytest
import streamlit as st
import zxingcpp
from PIL import Image
from streamlit.testing.v1 import AppTest

from tests.support.page_content import address, go, html, shown_part
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session import url_state
from transformer_viz.app.shell import share
from transformer_viz.app.shell.share import QUIET_ZONE_MODULES, code, is_local, share_link
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature
from transformer_viz.i18n import speaking

Visit = Callable[..., AppTest]
CLASS = "http://10.11.12.13:8501/step-inside"


def picture(uri: str) -> Image.Image:
    """Draw an SVG data URI with another library."""
    front, _, body = uri.partition(",")
    svg = base64.b64decode(body) if front.endswith("base64") else unquote(body).encode()
    drawn: Image.Image = Image.open(io.BytesIO(cairosvg.svg2png(svg))).convert("L")
    return drawn


def query(url: str) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(url).query).items()}


def test_a_code_is_read_by_another_decoder_and_opens_the_same_state() -> None:
    edits = Intervention((Temperature(value=2.5, layer=1, head=3), BlockKeys(keys=(3, 4))))
    defaults = url_state.DEFAULTS | {"model": "en-de"}
    values = defaults | {"edits": edits.to_json(), "layer": 2, "head": 5}
    values |= {"text": "Größe 10 & 50 % “ok”?", "lang": "zh"}
    found = share_link(CLASS, url_state.write(values, defaults))
    assert found.reach == "all"
    (read,) = zxingcpp.read_barcodes(picture(code(found.link)))
    assert read.text.partition("?")[0] == CLASS
    assert url_state.read(query(read.text), defaults) == (values, [])


def test_a_code_is_dark_on_light_with_a_quiet_zone() -> None:
    drawn = picture(code(CLASS))
    modules = 17 + 4 * share.segno.make_qr(CLASS, error="l").version + 2 * QUIET_ZONE_MODULES
    step = drawn.width / modules
    assert step == int(step) >= 4  # whole pixels: nothing is blurred
    edge = round(QUIET_ZONE_MODULES * step)
    for box in ((0, 0, drawn.width, edge), (0, 0, edge, drawn.height)):
        assert drawn.crop(box).getextrema() == (255, 255)
    assert drawn.getpixel((edge, edge)) == 0  # the corner of a finder pattern is dark
    # A link that is too long for phones has no code.
    limit = 858  # bytes of version 20 at level L (ISO/IEC 18004, table 7)
    start = f"{CLASS}?text="
    fits = start + "a" * (limit - len(start))
    assert code(fits) is not None
    assert code(fits + "a") is None
    assert code(start + "a" * 5000) is None  # more than any code holds


def test_a_link_names_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    local = ("localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "", "app.localhost")
    others = ("10.0.0.7", "192.168.1.4", "viz.school.example", "fe80::1", "localhost.example")
    for host in local + others:
        assert is_local(host) is (host in local), host
    own = share.own_address()
    assert own is None or not is_local(own)

    def shared(server: str | None, mine: str | None, url: str) -> share.Shared:
        monkeypatch.setattr(st, "get_option", {"server.address": server}.get)
        monkeypatch.setattr(share, "own_address", lambda: mine)
        return share_link(url, {"layer": "2"})

    closed = shared("127.0.0.1", own, "http://localhost:8501/")
    assert closed.reach == "closed" and closed.link == "http://localhost:8501/?layer=2"
    assert f"“{share.SERVE}”" in share._closed()
    for server in ("0.0.0.0", None, "::"):  # on the server's own machine
        found = shared(server, "192.168.7.9", "http://127.0.0.1:8501/norms")
        assert found == share.Shared("http://192.168.7.9:8501/norms?layer=2"), server
    assert shared("0.0.0.0", None, "http://localhost:8501/").reach == "unknown"  # no network


def test_a_link_keeps_its_query_below_a_path_and_its_last_sign_in_a_message() -> None:
    for url, page, words, wanted in (
        ("http://h/viz", "explore", {"layer": "2"}, "http://h/viz/?layer=2"),
        ("http://h", "explore", {}, "http://h/"),
        ("http://h/a/b", "explore", {}, "http://h/a/b/"),
        ("http://h/viz/norms", "norms", {}, "http://h/viz/norms"),
        ("http://h/explore", "explore", {}, "http://h/explore"),
        ("http://h/why", "explore", {"text": "Why?"}, "http://h/why/?text=Why%3F"),
        ("http://h/", "explore", {"text": "It barks."}, "http://h/?text=It+barks%2E"),
        ("http://h/", "explore", {"text": "so …"}, "http://h/?text=so+%E2%80%A6"),
        ("http://h/", "explore", {"text": "a~"}, "http://h/?text=a%7E"),
        ("http://h/", "explore", {"seen": "b_-"}, "http://h/?seen=b_%2D"),
    ):
        found = share.written_link(url, words, page)
        assert found == wanted
        assert dict(parse_qsl(urlsplit(found).query)) == words, url
    # Pupils are not given the teacher's view.
    found = share_link(CLASS, {"present": "on", "layer": "2", "utm": "x"})
    assert found.link == f"{CLASS}?layer=2&utm=x"


def test_presenting_is_in_the_link_and_steps_through_the_heads(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1", text="<b>The cat</b> sat.")

    def press(key: str) -> tuple[str, str]:
        app.button(key=key).click().run()
        assert not app.exception, key
        return address(app).get("layer", "0"), address(app).get("head", "0")

    assert not app.exception and "present" not in address(app)
    assert "tv-presented" not in html(app).replace(".tv-presented", "")
    assert query(share_link(CLASS, address(app)).link) == address(app)
    press("presenting")
    assert address(app)["present"] == "on"
    assert '<p class="tv-presented">&lt;b&gt;The cat&lt;/b&gt; sat.</p>' in html(app)
    assert "<b>The cat" not in html(app)
    assert "present" in [shown_part(one.proto) for one in app.get("bidi_component")]
    steps = [press(f"step-{way}") for way in ("on", "on", "on", "back")]
    # Three layers of two heads: round to the first.
    assert steps == [("2", "0"), ("2", "1"), ("0", "0"), ("2", "1")]
    press("presenting")
    assert "present" not in address(app)


def test_presenting_survives_going_to_every_page(visit: Visit) -> None:
    with speaking("zh"):  # the test runner spells options in this thread
        app = visit(present="on", layer="1", lang="zh")
        for page in (*(page.path for page in PAGES[1:]), ""):
            go(app, page)
            assert not app.exception, page
            assert address(app)["present"] == "on" and address(app)["lang"] == "zh", page
    assert address(app)["layer"] == "1"


def test_choosing_a_language_keeps_everything_else(visit: Visit) -> None:
    warm = Intervention((Temperature(value=2.0, stack="decoder", block="cross", layer=1, head=1),))
    asked = {"layer": "1", "head": "1", "edits": warm.to_json(), "compare": "difference"}
    app = visit(**asked, scope="layer", sort="entropy")
    before = address(app)
    app.segmented_control(key="lang").set_value("zh").run()
    assert not app.exception and address(app) == before | {"lang": "zh"}
    with speaking("zh"):  # the test runner spells options in this thread
        app.button(key="presenting").click().run()
        assert address(app) == before | {"lang": "zh", "present": "on"}
        app.segmented_control(key="lang").set_value("en").run()
    assert address(app) == before | {"present": "on"}
    assert app.session_state["compare"] == "difference" and app.session_state["scope"] == "layer"
    # An unknown language or view falls back and is reported.
    app = visit(lang="tlh", present="maybe")
    told = " ".join(warning.value for warning in app.warning)
    assert re.search("lang is 'tlh'; it can be en", told) and "present is 'maybe'" in told
    assert not app.session_state["present"] and app.session_state["lang"] == "en"
