"""Uploads: on the disk, read like any file, one file in a request."""

from __future__ import annotations

import hashlib
import io
import mmap
import random
import shutil
import zipfile
from typing import Any

import pytest
import starlette.formparsers
import starlette.requests
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from streamlit.elements.widgets import file_uploader
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from tests.support.asgi import run, scope
from transformer_viz.app.serving import uploaded_files

FORM = {"content-type": "multipart/form-data; boundary=xx"}
ACTS = (
    lambda f: f.read(1000), lambda f: f.seek(-500, 2), lambda f: f.read(), lambda f: f.tell(),
    lambda f: f.seek(3), lambda f: f.readline(), lambda f: f.readinto(bytearray(70)),
    lambda f: f.seek(1, 1), lambda f: f.read(-1), lambda f: f.getvalue(),
    lambda f: bytes(f.getbuffer()), lambda f: f.seek(0), lambda f: list(f)[:5],
)  # fmt: skip


@pytest.fixture(autouse=True)
def _spooled(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (starlette.formparsers, "UploadFile"), (starlette.requests, "MultiPartParser"),
        (file_uploader, "UploadedFile"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, getattr(module, name))  # as it was, afterwards
    uploaded_files.spool()


def came(parts: bytes) -> tuple[str, Any]:
    """Return name and content of the file of a form with these parts."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts + b"--xx--\r\n"}

    async def read() -> Any:
        form = await Request(scope(method="PUT", headers=FORM), receive).form()
        (found,) = form.values()
        assert isinstance(found, UploadFile)
        content = await found.read()
        found.file.close()
        return found.filename, content

    return run(read())


def part(content: bytes) -> bytes:
    head = b'--xx\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n'
    return head + content + b"\r\n"


def test_an_upload_is_a_file_of_the_disk() -> None:
    draw = random.Random(1)
    for size in (0, 10, 900_000, 3_000_000):
        content = draw.randbytes(size)
        name, kept = came(part(content))
        assert isinstance(kept, mmap.mmap) == (size > uploaded_files.IN_MEMORY), size
        file: Any = file_uploader.UploadedFile(UploadedFileRec("1", name, "", kept), None)
        plain = io.BytesIO(content)
        for act in ACTS:
            try:
                expected = act(plain)
            except ValueError:
                with pytest.raises(ValueError, match="negative"):
                    act(file)
                continue
            assert act(file) == expected, size
        assert file.size == size and file.name == "a.bin"
        file.seek(0)
        shutil.copyfileobj(file, copy := io.BytesIO())
        assert hashlib.sha256(copy.getvalue()).digest() == hashlib.sha256(content).digest()
    store = io.BytesIO()
    with zipfile.ZipFile(store, "w") as made:
        made.writestr("b", draw.randbytes(2_000_000))
    record = UploadedFileRec("1", "a.zip", "", came(part(store.getvalue()))[1])
    with zipfile.ZipFile(file_uploader.UploadedFile(record, None)) as read:
        assert read.testzip() is None


def test_many_parts_are_refused() -> None:
    field = b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    two, fields = part(b"a") * 2, part(b"a") + (field + b"\r\n") * 9
    for body in (two, fields, field + b"a" * 100_000 + b"\r\n"):
        with pytest.raises(MultiPartException):
            came(body)
