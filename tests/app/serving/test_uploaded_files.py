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
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from streamlit.elements.widgets import file_uploader
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from tests.app.live.test_visit_limits import run
from transformer_viz.app.serving import uploaded_files


@pytest.fixture(autouse=True)
def _spooled(monkeypatch: pytest.MonkeyPatch) -> None:
    import starlette.formparsers
    import starlette.requests

    for module, name in (
        (starlette.formparsers, "UploadFile"), (starlette.requests, "MultiPartParser"),
        (file_uploader, "UploadedFile"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, getattr(module, name))  # as it was, afterwards
    uploaded_files.spool()


def came(body: bytes) -> Any:
    """The form of a request with such a body."""
    headers = Headers({"content-type": "multipart/form-data; boundary=xx"}).raw

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def read() -> Any:
        scope = {"type": "http", "method": "PUT", "headers": headers, "path": "/"}
        form = await Request(scope, receive).form()
        (found,) = form.values()
        assert isinstance(found, UploadFile)
        content = await found.read()
        found.file.close()
        return found.filename, content

    return run(read())


def part(content: bytes, name: str = "a.bin") -> bytes:
    head = f'--xx\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n"


def test_an_upload_is_a_file_of_the_disk() -> None:
    draw = random.Random(1)
    for size in (0, 10, 900_000, 3_000_000):
        content = draw.randbytes(size)
        name, kept = came(part(content) + b"--xx--\r\n")
        assert isinstance(kept, mmap.mmap) == (size > uploaded_files.IN_MEMORY), size
        record = UploadedFileRec("1", name, "", kept)
        file: Any = file_uploader.UploadedFile(record, None)  # type: ignore[arg-type]
        plain = io.BytesIO(content)
        for act in (
            lambda f: f.read(1000), lambda f: f.seek(-500, 2), lambda f: f.read(),
            lambda f: f.tell(), lambda f: f.seek(3), lambda f: f.readline(),
            lambda f: f.readinto(bytearray(70)),
            lambda f: f.seek(1, 1), lambda f: f.read(-1), lambda f: f.getvalue(),
            lambda f: bytes(f.getbuffer()), lambda f: f.seek(0), lambda f: list(f)[:5],
        ):  # fmt: skip
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
    kept = came(part(store.getvalue()) + b"--xx--\r\n")[1]
    record = UploadedFileRec("1", "a.zip", "", kept)
    with zipfile.ZipFile(file_uploader.UploadedFile(record, None)) as read:  # type: ignore[arg-type]
        assert read.testzip() is None


def test_many_parts_are_refused() -> None:
    field = b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    for body in (
        part(b"a") * 2,
        part(b"a") + (field + b"\r\n") * 9,
        field + b"a" * 100_000 + b"\r\n",
    ):
        with pytest.raises(MultiPartException):
            came(body + b"--xx--\r\n")
