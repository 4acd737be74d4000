"""Connections that the server accepts send at once."""

from __future__ import annotations

import socket

import pytest
from streamlit.web.server.starlette import starlette_server

from transformer_viz.app.serving import no_delay


def delays(listening: socket.socket) -> bool:
    """Whether a connection that this socket accepts keeps small writes back."""
    with socket.create_connection(listening.getsockname()[:2]):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            return not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_what_is_accepted_sends_at_once(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(starlette_server, "_bind_socket", no_delay._bind)
    try:
        plain = starlette_server._bind_socket(address, 0, 5)
    except OSError:
        pytest.skip(f"no {address} here")
    with plain:
        assert delays(plain), "Streamlit itself sends at once now: app/serving/no_delay.py can go"
    no_delay.send_at_once()
    with starlette_server._bind_socket(address, 0, 5) as prompt:
        assert not delays(prompt)
