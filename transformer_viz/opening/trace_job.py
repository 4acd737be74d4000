"""Job of the process that opens an untrusted trace file: read it, and create its page."""

from __future__ import annotations

import importlib
from pathlib import Path

from ..confinement.channel import Channel
from ..core.trace import Trace
from ..i18n import speaking
from .rehearsal import refusal

PAGE = "page.html"  # in the folder of the process: it may exceed a message


def report(channel: Channel) -> None:
    """Serve one request to convert a trace file to plain data.

    The request has ``thing``, a trace file; ``name`` for errors; ``language``; and ``make``, the
    server's function (``module:function``) that converts a trace.
    """
    request = channel.receive()
    try:
        module, _, function = str(request["make"]).partition(":")
        make = getattr(importlib.import_module(module), function)
        path = Path(str(request["thing"]))
        with speaking(str(request["language"])):
            try:
                told = make(Trace.load(path))
            except (ValueError, OSError) as error:
                raise ValueError(str(error).replace(path.name, str(request["name"]))) from error
        page = told.pop("page").encode()
        Path(PAGE).write_bytes(page)
        answer = {"told": told}
    except BaseException as error:  # an untrusted file can raise anything
        answer = refusal(error)
    channel.send(answer)
