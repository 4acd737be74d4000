"""The corner of the frame without a browser: sharing, presenting, and the language."""

from __future__ import annotations

import base64
import io
import json
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
from transformer_viz.app.shell.share import (
    QUIET_ZONE_MODULES,
    SERVE,
    code,
    is_local,
    own_address,
    share_link,
)
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature
from transformer_viz.i18n import speaking

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
CLASS = "http://10.11.12.13:8501/step-inside"


def picture(uri: str) -> Image.Image:
    """An SVG data URI drawn by another library."""
    front, _, body = uri.partition(",")
    svg = base64.b64decode(body) if front.endswith("base64") else unquote(body).encode()
    drawn: Image.Image = Image.open(io.BytesIO(cairosvg.svg2png(svg))).convert("L")
    return drawn


def read(uri: str) -> str:
    """What an independent decoder reads from a code."""
    (found,) = zxingcpp.read_barcodes(picture(uri))
    return found.text


def test_a_code_is_read_by_another_decoder_and_opens_the_same_state() -> None:
    edits = Intervention((Temperature(value=2.5, layer=1, head=3), BlockKeys(keys=(3, 4))))
    values = url_state.DEFAULTS | {
        "model": "en-de",
        "edits": edits.to_json(),
        "layer": 2,
        "head": 5,
    }
    values |= {"text": "Größe 10 & 50 % “ok”?", "lang": "zh"}
    found = share_link(CLASS, url_state.write(values, url_state.DEFAULTS | {"model": "en-de"}))
    assert found.reach == "all"
    uri = code(found.link)
    assert uri is not None
    seen = urlsplit(read(uri))
    assert f"{seen.scheme}://{seen.netloc}{seen.path}" == CLASS
    words = {name: texts[0] for name, texts in parse_qs(seen.query).items()}
    again, complaints = url_state.read(words, url_state.DEFAULTS | {"model": "en-de"})
    assert again == values and not complaints


def test_a_code_is_dark_on_light_with_a_quiet_zone() -> None:
    uri = code(CLASS)
    assert uri is not None
    drawn = picture(uri)
    modules = 17 + 4 * share.segno.make_qr(CLASS, error="l").version + 2 * QUIET_ZONE_MODULES
    step = drawn.width / modules
    assert step == int(step) >= 4  # whole pixels: nothing is blurred
    edge = round(QUIET_ZONE_MODULES * step)
    frames = ((0, 0, drawn.width, edge), (0, 0, edge, drawn.height))
    assert all(drawn.crop(box).getextrema() == (255, 255) for box in frames)
    assert drawn.getpixel((edge, edge)) == 0  # the corner of a finder pattern is dark


def test_a_link_too_long_for_phones_has_no_code() -> None:
    limit = 858  # bytes of version 20 at level L (ISO/IEC 18004, table 7)
    start = f"{CLASS}?text="
    fits = start + "a" * (limit - len(start))
    assert code(fits) is not None
    assert code(fits + "a") is None
    assert code(start + "a" * 5000) is None  # more than any code holds


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True)),
        *(("0.0.0.0", True), ("", True), ("app.localhost", True)),
        *(("10.0.0.7", False), ("192.168.1.4", False), ("viz.school.example", False)),
        *(("fe80::1", False), ("localhost.example", False)),
    ],
)
def test_what_only_this_machine_reaches_is_known(host: str, local: bool) -> None:
    assert is_local(host) is local


def server_at(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    """As if the server answered at this address."""
    monkeypatch.setattr(st, "get_option", {"server.address": address}.get)


def test_a_server_for_itself_gives_out_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    server_at(monkeypatch, "127.0.0.1")
    found = share_link("http://localhost:8501/", {"layer": "2"})
    assert found.reach == "closed" and found.link == "http://localhost:8501/?layer=2"
    assert f"“{SERVE}”" in share._closed()


@pytest.mark.parametrize("address", ["0.0.0.0", None, "::"])
def test_on_the_servers_own_machine_the_link_names_it_for_others(
    monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    server_at(monkeypatch, address)
    monkeypatch.setattr(share, "own_address", lambda: "192.168.7.9")
    found = share_link("http://127.0.0.1:8501/norms", {"layer": "2"})
    assert found == share.Shared("http://192.168.7.9:8501/norms?layer=2")


def test_a_machine_without_a_network_gives_out_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    server_at(monkeypatch, "0.0.0.0")
    monkeypatch.setattr(share, "own_address", lambda: None)
    assert share_link("http://localhost:8501/", {}).reach == "unknown"


def test_the_machines_own_address_is_one_that_others_reach() -> None:
    found = own_address()
    assert found is None or not is_local(found)


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
        assert dict(parse_qsl(urlsplit(found).query)) == words


def test_pupils_are_not_given_the_teachers_view() -> None:
    found = share_link(CLASS, {"present": "on", "layer": "2", "utm": "x"})
    assert found.link == f"{CLASS}?layer=2&utm=x"


def keyed(app: AppTest, key: str) -> AppTest:
    """A button of that key, pressed."""
    return app.button(key=key).click().run()


def test_presenting_is_in_the_link_and_steps_through_the_heads(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1")
    assert not app.exception and "present" not in address(app)
    assert "tv-presented" not in html(app).replace(".tv-presented", "")
    keyed(app, "presenting")
    assert address(app)["present"] == "on"
    assert '<p class="tv-presented">The cat sat.</p>' in html(app)
    assert "present" in [shown_part(one.proto) for one in app.get("bidi_component")]
    keyed(app, "step-on")
    assert (address(app)["layer"], address(app).get("head", "0")) == ("2", "0")
    keyed(app, "step-on"), keyed(app, "step-on")  # three layers of two heads: round to the first
    assert (address(app).get("layer", "0"), address(app).get("head", "0")) == ("0", "0")
    keyed(app, "step-back")
    assert (address(app)["layer"], address(app)["head"]) == ("2", "1")
    keyed(app, "presenting")
    assert "present" not in address(app) and not app.exception


def test_presenting_survives_going_to_every_page(visit: Visit) -> None:
    with speaking("zh"):  # the test runner spells options in this thread
        app = visit(present="on", layer="1", lang="zh")
        for page in (*(page.path for page in PAGES[1:]), ""):
            go(app, page)
            assert not app.exception, page
            assert address(app)["present"] == "on" and address(app)["lang"] == "zh", page
    assert address(app)["layer"] == "1"


def test_a_sentence_is_escaped_before_a_class(visit: Visit) -> None:
    app = visit(present="on", text="<b>The cat</b>")
    assert "&lt;b&gt;The cat&lt;/b&gt;" in html(app) and "<b>The cat" not in html(app)


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


def test_an_unknown_language_or_view_falls_back_and_says_so(visit: Visit) -> None:
    app = visit(lang="tlh", present="maybe")
    told = " ".join(warning.value for warning in app.warning)
    assert re.search("lang is 'tlh'; it can be en", told) and "present is 'maybe'" in told
    assert not app.session_state["present"] and app.session_state["lang"] == "en"


def test_the_links_edits_are_those_of_the_screen(visit: Visit) -> None:
    """What is shared is what stands in the address bar: no second way to write a state."""
    app = visit(layer="1")
    found = share_link(CLASS, address(app))
    words = {name: texts[0] for name, texts in parse_qs(urlsplit(found.link).query).items()}
    assert words == address(app) and json.dumps(words)
