"""Share: the link to the current view, as text to copy and as a QR code for phones."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit, urlunsplit

import segno
import streamlit as st

from ...components.blob import pack
from ...i18n import numeral, say
from ..session import visit
from ..session.keys import private
from ..ui import components

VERSION = 20  # of a code, 97 modules wide: phones still read it from a screen across a classroom
QUIET_ZONE_MODULES = 4  # light modules around a code (ISO/IEC 18004, section 6.3.8)
EVERYWHERE = ("", "0.0.0.0", "::")  # server addresses that listen on all networks of the machine
ELSEWHERE = ("192.0.2.1", 9)  # a reserved address (RFC 5737), used to find the route
CUT = (".", "-", "_", "~")  # messengers take these at the end of a link for punctuation
OWN_VIEW = ("present",)  # keys of the teacher's screen that are not shared
SERVE = "transformer-viz app --host 0.0.0.0"


@dataclass(frozen=True)
class Shared:
    """Link to share, and its reachability.

    Attributes:
        reach: ``all``, ``closed`` (the server listens on its own machine only) or ``unknown`` (it
            listens on all networks, but the machine's address is unknown).
    """

    link: str
    reach: str = "all"


@st.fragment
def share() -> None:
    """Draw the button ⟨Share⟩ with its panel; a fragment, so that it opens at once."""
    visit.speak_first()  # a fragment run alone starts in a thread without a language
    popover = st.popover(say("Share"), key="share", on_change="rerun")
    if popover.open:
        with popover:
            words = st.query_params.to_dict()
            _opened(share_link(st.context.url or "", words, private.here))
            _follow(words)


def _follow(query: Mapping[str, str]) -> None:
    """Run the fragment again at each new address while it is open and the page changes."""
    components.address(pack({"part": "address", "seq": 0, "words": dict(query)}), key="address")


def written_link(address: str, words: Mapping[str, str], page: str = "") -> str:
    """Return an address with a query that messengers do not damage.

    Args:
        address: Address of the browser, without the slash of the first page, as Streamlit gives it.
            Below a base path a proxy would redirect such an address, and may drop its query.
        words: The query.
        page: Name of the open page; a path that does not end with it is that of the first.
    """
    parts = urlsplit(address)
    path = parts.path or "/"
    if page and not path.endswith(("/", f"/{page}")):
        path += "/"
    query = urlencode(words)
    if query.endswith(CUT):  # a query need not escape it
        query = f"{query[:-1]}%{ord(query[-1]):02X}"
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def share_link(address: str, query: Mapping[str, str], page: str = "") -> Shared:
    """Return the link to share, from the browser's address, the query, and the page.

    If the browser runs on the server's machine, the machine's network address replaces
    ``localhost``, if the server listens there.
    """
    kept = {name: text for name, text in query.items() if name not in OWN_VIEW}
    found = written_link(address, kept, page)
    parts = urlsplit(found)
    if not is_local(parts.hostname or ""):
        return Shared(found)
    if str(st.get_option("server.address") or "") not in EVERYWHERE:
        return Shared(found, "closed")
    here = own_address()
    if here is None:
        return Shared(found, "unknown")
    port = f":{parts.port}" if parts.port else ""
    return Shared(urlunsplit(urlsplit(found)._replace(netloc=f"{here}{port}")))


def is_local(host: str) -> bool:
    """Return True if a host means the local machine."""
    if host in ("", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


def own_address() -> str | None:
    """Return this machine's address in its network, or None if it has none.

    A datagram socket is connected to find the route; nothing is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(ELSEWHERE)
            found = str(way.getsockname()[0])
        except OSError:
            return None
    return None if is_local(found) else found


@lru_cache(maxsize=64)
def code(link: str) -> str | None:
    """Return a link as a QR code, an SVG data URI; None if phones could not read it.

    It is dark on light regardless of the page's colours: many phones read no other (ISO/IEC 18004).
    """
    try:
        made = segno.make_qr(link, error="l", boost_error=True)
    except segno.DataOverflowError:  # more than any code holds
        return None
    if int(made.version) > VERSION:
        return None
    picture: str = made.svg_data_uri(
        border=QUIET_ZONE_MODULES, dark="#000000", light="#ffffff", scale=8
    )
    return picture


def _opened(found: Shared) -> None:
    picture = code(found.link) if found.reach == "all" else None
    if found.reach == "closed":
        st.html(f'<p class="tv-note">{escape(_closed())}</p>')
    elif found.reach == "unknown":
        st.html(f'<p class="tv-note">{escape(_unknown(found.link))}</p>')
    elif picture is None:
        st.html(f'<p class="tv-note">{escape(_long(found.link))}</p>')
    else:
        alt = escape(say("QR code of the link below"), quote=True)
        st.html(f'<img class="tv-code" src="{picture}" alt="{alt}">')
        words = say("Scan it, or copy the link: it opens what you see here.")
        st.html(f'<p class="tv-note">{escape(words)}</p>')
    st.code(found.link, language=None, wrap_lines=True)


def _closed() -> str:
    return say(
        "This address leads to your own machine only: nobody else can open it. For a class, start "
        "the app with “{command}”, open it at the machine's own address, and share from there.",
        command=SERVE,
    )


def _unknown(link: str) -> str:
    return say(
        "Others cannot open “{host}”. Open the app at this machine's own address in the network, "
        "and share from there.",
        host=urlsplit(link).hostname or "",
    )


def _long(link: str) -> str:
    return say(
        "This link has {count} characters: too many for a code that phones read. Copy it instead, "
        "or take back some changes.",
        count=numeral(len(link), ","),
    )
