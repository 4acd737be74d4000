"""Uploads stored on disk, not in the server's memory, from the first bytes on.

Streamlit collects an upload in a temporary file, reads it whole and keeps its bytes. Each run of
the page copies them again if they are no `bytes`. Here the temporary file is mapped into memory
instead: the system reads only the requested parts. The file has no name, so it is deleted with its
last reader.
"""

from __future__ import annotations

import io
import mmap
from typing import Any

import starlette.formparsers
import starlette.requests
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartParser
from streamlit.elements.widgets import file_uploader
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

IN_MEMORY = 1_000_000  # bytes of an upload from which on it is stored on disk
FIELDS, FIELD = 8, 10_000  # fields beside the file, and bytes of each


class OneFile(MultiPartParser):
    """Parser of an upload with one file and few fields; other requests are refused."""

    spool_max_size = IN_MEMORY

    def __init__(self, headers: Any, stream: Any, **options: Any) -> None:
        limits = {"max_files": 1, "max_fields": FIELDS, "max_part_size": FIELD}
        super().__init__(headers, stream, **(options | limits))


class MappedUpload(UploadFile):
    """Upload whose content is a memory map of its temporary file."""

    async def read(self, size: int = -1) -> bytes:
        if size >= 0 or self._in_memory or not self.size:
            return await super().read(size)
        self.file.flush()
        return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)  # type: ignore[return-value]


class _Mapped(io.RawIOBase):
    """Memory map as a file object with a separate position."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._content)}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek value {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        piece = self._content[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class MappedFile(UploadedFile):
    """File of `st.file_uploader` that reads from a map; a small one is unchanged."""

    def __init__(self, record: UploadedFileRec, file_urls: Any) -> None:
        content: Any = record.data
        if not isinstance(content, mmap.mmap):
            super().__init__(record, file_urls)
            return
        super().__init__(record._replace(data=b""), file_urls)
        self.size = len(content)
        self._content = content
        reader = io.BufferedReader(_Mapped(content))
        for name in ("read", "read1", "readinto", "readline", "readlines", "seek", "tell"):
            setattr(self, name, getattr(reader, name))
        self._reader = reader

    def getvalue(self) -> bytes:
        return self._content[:] if hasattr(self, "_content") else super().getvalue()

    def getbuffer(self) -> memoryview:
        return memoryview(self._content) if hasattr(self, "_content") else super().getbuffer()

    def __iter__(self) -> Any:
        return iter(self._reader) if hasattr(self, "_reader") else super().__iter__()


def spool() -> None:
    """Store uploads of this process on disk."""
    parsers: Any = starlette.formparsers
    requests: Any = starlette.requests
    parsers.UploadFile, requests.MultiPartParser = MappedUpload, OneFile
    widget: Any = file_uploader
    widget.UploadedFile = MappedFile
