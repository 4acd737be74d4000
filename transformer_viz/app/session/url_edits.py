"""Edits in a link: canonical JSON, compressed if long."""

from __future__ import annotations

import base64
import binascii
import zlib

from ...core.interventions import Intervention
from ...i18n import say

CLEAN = Intervention().to_json()
TEXT_FROM_CHARS = 2_000  # characters of a text from which on it is compressed
PACK_FROM_CHARS = 200  # characters of edits from which on they are compressed
MAX_UNPACKED_CHARS = 200_000  # characters of unpacked edits: links must not hold more
PACKED_PREFIX = "z."  # prefix of compressed values


def pack(edits: str) -> str:
    """Return edits for a link: canonical JSON, compressed if long."""
    if len(edits) < PACK_FROM_CHARS:
        return edits
    return _packed(edits)


def pack_text(text: str) -> str:
    """Return a text for a link, compressed if long."""
    plain = len(text) < TEXT_FROM_CHARS and not text.startswith(PACKED_PREFIX)
    return text if plain else _packed(text)


def _packed(text: str) -> str:
    return PACKED_PREFIX + base64.urlsafe_b64encode(
        zlib.compress(text.encode("utf-8", errors="replace"), 9)
    ).decode().rstrip("=")


def read_text(text: str) -> str:
    """Return the inverse of `pack_text`. The error message continues the name of the key.

    A text that only starts like a compressed one was typed by the user.
    """
    if not text.startswith(PACKED_PREFIX) or not text[len(PACKED_PREFIX) :].isascii():
        return text
    try:
        return _unfold(text.removeprefix(PACKED_PREFIX))
    except ValueError as error:
        raise ValueError(say("cannot be read: {reason}", reason=error)) from error


def unpack(text: str) -> str:
    """Return the canonical JSON of edits from a link.

    Raises:
        ValueError: No edits, or damaged ones; the message gives the reason.
    """
    if text.startswith(PACKED_PREFIX):
        text = _unfold(text.removeprefix(PACKED_PREFIX))
    return Intervention.from_json(text).to_json()


def _unfold(text: str) -> str:
    unfold = zlib.decompressobj()
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found = unfold.decompress(packed, MAX_UNPACKED_CHARS)
        if unfold.unconsumed_tail or not unfold.eof:
            raise ValueError(say("they are cut off, or larger than a link may hold"))
        return found.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(say("the compressed text is damaged")) from error


def read_edits(text: str) -> str:
    """Return edits as `unpack` does; the error message continues the name of the key."""
    try:
        return unpack(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(say("cannot be read: {reason}", reason=error)) from error
