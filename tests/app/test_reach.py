"""Who can reach the server, and what each default makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import reach_table
from transformer_viz import permissions, reach, settings
from transformer_viz.app.balancer.__main__ import surroundings
from transformer_viz.app.engine import hub_models, model_names
from transformer_viz.checkpoints.hub.ids import parsed

HOME = {reach.ADDRESS: "127.0.0.1"}
#: Environments of a server that others can reach, though it listens on its own machine.
OTHERS = (
    *({reach.ADDRESS: one} for one in ("", "0.0.0.0", "::", "10.0.0.5", "viz.lan", "unix:///s")),
    *({reach.NAMES: one} for one in ("viz.example.org", "*", "localhost,a.example")),
    *({"FORWARDED_ALLOW_IPS": one} for one in ("*", "127.0.0.1", "10.0.0.9, 10.0.0.8")),
    {"STREAMLIT_SERVER_BASE_URL_PATH": "viz"},
    {"STREAMLIT_BROWSER_SERVER_ADDRESS": "viz.example.org"},
    {"STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": '["https://viz.example.org"]'},
    {"STREAMLIT_SERVER_TRUSTED_USER_HEADERS": '{"X-User": "user"}'},
    {"STREAMLIT_SERVER_SSL_CERT_FILE": "cert.pem"},
    {"TRANSFORMER_VIZ_REACH": "others"},
    {"TRANSFORMER_VIZ_REACH": "Machine"},  # no word that it knows: the careful answer
    {reach.PASSED_ON: "a proxy passed on a request (via)"},
    *({one: "x"} for names in reach.HOSTS.values() for one in names),
)
ALONE = (
    *({reach.ADDRESS: one} for one in ("127.0.0.1", "127.0.0.53", "::1", "localhost", "LocalHost")),
    {
        "STREAMLIT_BROWSER_SERVER_ADDRESS": "localhost",
        "STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": "[]",
    },
    {"TRANSFORMER_VIZ_REACH": "auto", reach.NAMES: " ", "FORWARDED_ALLOW_IPS": ""},
    {"TRANSFORMER_VIZ_REACH": "machine", reach.ADDRESS: "0.0.0.0", "CODESPACES": "true"},
    {"JPY_PARENT_PID": "1", "container": "docker", "HOSTNAME": "0f3a"},  # loopback stays inside
)


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The process of a server on this machine, of which nothing is known but its address."""
    monkeypatch.setattr(reach, "option", None)
    known = {*reach.PROXIES, *(one.variable for one in settings.SETTINGS), reach.PASSED_ON}
    for name in (*known, *(one for names in reach.HOSTS.values() for one in names)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(reach.ADDRESS, "127.0.0.1")
    return monkeypatch


def test_each_sign_of_others_is_seen() -> None:
    assert [one for one in OTHERS if not reach.reason(HOME | one)] == []
    assert [one for one in ALONE if reach.reason(HOME | one)] == []


def test_all_defaults_ask_it_in_every_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    told = set()
    for where, why, found in reach_table.combinations():
        host, name, proxy, place, option = where
        alone = (host, name, proxy, place) == ("127.0.0.1", "–", "–", "a machine, a container")
        assert bool(why) is not alone, where
        opened = reach_table.opened(found)
        named = "below `checkpoints`" if option == "`--models`" else None
        assert opened["paths"] == (named or ("below the start folder" if alone else "off")), where
        rest = {"Hub": "any", "token": "the owner's", "shares": "off"}
        closed = {"Hub": "off", "token": "none", "shares": "on"}
        assert opened.items() >= (rest if alone else closed).items(), where
        # A worker listens on this machine alone, whoever reaches the process in front of it.
        monkeypatch.setattr(os, "environ", found)
        worker = {**surroundings(found, 2, 2), reach.ADDRESS: "127.0.0.1"}
        assert permissions.permissions(worker) == permissions.permissions(found), where
        monkeypatch.undo()
        told.add(tuple(opened.items()))
    assert len(told) == 6  # two for each option: nothing in between


def test_the_page_on_security_says_what_a_run_gave() -> None:
    text = reach_table.PAGE.read_text(encoding="utf-8")
    assert reach_table.in_page(text) == reach_table.written(), "python -m tests.support.reach_table"


def test_what_the_owner_states_holds_behind_a_proxy(tmp_path: Path) -> None:
    words = ("--name", "a.example", "--hub", "any")
    stated = {"TRANSFORMER_VIZ_ROOTS": str(tmp_path), "TRANSFORMER_VIZ_REQUESTS": "0"}
    opened = permissions.permissions(reach_table.started(words, stated))
    assert opened["paths"] == f"below {tmp_path}" and opened["Hub"] == "any"
    assert opened["token"] == "none" and "REQUESTS" not in opened["shares"]
    trusted = reach_table.started(words, {"TRANSFORMER_VIZ_REACH": "machine"})
    assert permissions.permissions(trusted)["token"] == "the owner's"
    # A permission alone names no folder.
    on = reach_table.started(("--name", "a.example"), {"TRANSFORMER_VIZ_PATHS": "on"})
    assert permissions.permissions(on)["paths"] == "off"


REQUESTS: tuple[tuple[str, dict[str, str], bool], ...] = (
    ("127.0.0.1", {"host": "localhost:8501"}, False),
    ("::1", {"host": "[::1]:8501"}, False),
    ("127.0.0.1", {"host": "127.0.0.1", "x-forwarded-for": "127.0.0.1"}, False),  # our balancer
    ("", {}, False),
    ("203.0.113.9", {"host": "127.0.0.1:8501"}, True),  # what X-Forwarded-For says
    ("127.0.0.1", {"host": "127.0.0.1", "x-forwarded-for": "203.0.113.9, 127.0.0.1"}, True),
    ("127.0.0.1", {"host": "localhost", "x-forwarded-host": "me.tunnel.example"}, True),
    ("127.0.0.1", {"host": "localhost", "via": "1.1 proxy"}, True),
    ("127.0.0.1", {"host": "203.0.113.9"}, True),
)


def test_a_request_that_was_passed_on_closes_what_is_open_by_default(
    at_home: pytest.MonkeyPatch,
) -> None:
    model = parsed("owner/name")
    assert model is not None
    for peer, headers, passed in REQUESTS:
        at_home.delenv(reach.PASSED_ON, raising=False)
        assert settings.open_roots() and hub_models.require_allowed(model) is None
        reach.note_request(peer, headers)
        assert bool(reach.reason()) is passed, (peer, headers)
        if passed:
            assert not settings.open_roots() and settings.REQUESTS.number == 30
            with pytest.raises(ValueError, match="opens no paths"):
                model_names.find_below("README.md")
            with pytest.raises(ValueError, match="no models of the Hub"):
                hub_models.require_allowed(model)


def test_no_stranger_has_the_owners_token(at_home: pytest.MonkeyPatch) -> None:
    model = parsed("owner/name")
    assert model is not None
    at_home.setenv(settings.HUB.variable, "any")
    for one in OTHERS:
        with pytest.MonkeyPatch.context() as patch:
            for name, text in one.items():
                patch.setenv(name, text)
            if one.get("TRANSFORMER_VIZ_REACH") != "Machine":
                assert hub_models.require_allowed(model) is False, one
    assert hub_models.require_allowed(model) is None


def test_options_of_streamlit_count_wherever_they_were_set(at_home: pytest.MonkeyPatch) -> None:
    told: dict[str, object] = {"server.address": "127.0.0.1", "server.corsAllowedOrigins": []}
    at_home.setattr(reach, "option", told.get)
    assert not reach.reason()
    for name, said in (("server.address", None), ("server.baseUrlPath", "viz")):
        at_home.setattr(reach, "option", (told | {name: said}).get)
        assert reach.reason()
