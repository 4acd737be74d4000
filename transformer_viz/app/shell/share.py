"""Share: the link to what is on the screen, as text to copy and as a code for phones."""

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

VERSION = 20  # of a code, 97 modules wide: phones still read it from a screen across a room
QUIET_ZONE_MODULES = 4  # modules of light around a code (ISO/IEC 18004, section 6.3.8)
EVERYWHERE = ("", "0.0.0.0", "::")  # server addresses that all of the machine's networks reach
ELSEWHERE = ("192.0.2.1", 9)  # nobody's address (RFC 5737): it is asked which way leads there
CUT = (".", "-", "_", "~")  # at the end of a link, messengers take it for the sentence's own
OWN_VIEW = ("present",)  # what a teacher's screen has and the pupils' are not given
SERVE = "transformer-viz app --host 0.0.0.0"


@dataclass(frozen=True)
class Shared:
    """A link to hand out, and whether others reach it.

    ``reach`` is ``all``, or why not: ``closed`` (the server answers its own machine only) or
    ``unknown`` (it answers all, but the machine's address is not known).
    """

    link: str
    reach: str = "all"


@st.fragment
def share() -> None:
    """The button ⟨Share⟩ with what it opens; a fragment, so that it opens at once."""
    visit.speak_first()  # a fragment that runs alone begins in a thread that has said nothing yet
    popover = st.popover(say("Share"), key="share", on_change="rerun")
    if popover.open:
        with popover:
            words = st.query_params.to_dict()
            _opened(share_link(st.context.url or "", words, private.here))
            _follow(words)


def _follow(query: Mapping[str, str]) -> None:
    """While it is open, the page may change beside it: each new address runs the fragment again."""
    components.address(pack({"part": "address", "seq": 0, "words": dict(query)}), key="address")


def written_link(address: str, words: Mapping[str, str], page: str = "") -> str:
    """Return an address with the words of a link behind it, safe to send by messengers.

    Args:
        address: the browser's own, of which Streamlit leaves out the slash of the first page.
            Below a base path a proxy would redirect such an address, and may drop its query.
        words: the query.
        page: the name of the open page; a path that does not end with it is that of the first.
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
    """The link to share, from the browser's own address, the words of the link, and the page.

    Where the browser stands on the server's own machine, the machine's address in its network
    takes the place of ``localhost``, if the server answers there.
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
    """Whether a host means the machine that it is said on."""
    if host in ("", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


def own_address() -> str | None:
    """This machine's address in its network, or None where it has none.

    A datagram socket is told where it would send; nothing is sent.
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
    """A link as a QR code, an SVG picture as a data URI; None where phones could not read it.

    Dark on light whatever the page's colours are: many phones read no other (ISO/IEC 18004).
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
