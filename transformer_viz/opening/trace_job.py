"""The job of the process that opens a stranger's trace file: read it, and make a page of it."""

from __future__ import annotations

import importlib
from pathlib import Path

from ..confinement.channel import Channel
from ..core.trace import Trace
from ..i18n import speaking
from .rehearsal import refusal

PAGE = "page.html"  # in the folder of the process: it may be longer than a message


def report(channel: Channel) -> None:
    """Answer one request: ``thing``, a trace file; ``name`` for errors; ``language``; and ``make``,
    the server's function (``module:function``) that makes plain data of a trace.
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
    except BaseException as error:  # a stranger's file can raise anything
        answer = refusal(error)
    channel.send(answer)
