"""Pickles of plain data, such as nanoGPT's ``meta.pkl``, read without running anything in them."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

from .errors import CheckpointError, reason

MAX_PICKLE = 4 * 2**20  # bytes; the characters of all of Unicode take a few more
#: Opcodes of dictionaries, lists, text and numbers. Tuples are left out: the hash of a key of
#: nested pairs can take for ever.
PLAIN_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"),
    *("GET", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT"),
    *("BININT1", "BININT2", "LONG", "LONG1", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
}


class NoNames(pickle.Unpickler):
    """Unpickler that refuses every name, so that nothing can run."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a persistent id")


def read_plain_pickle(path: Path) -> Any:
    """Return a pickle's dictionaries, lists, text and numbers; refuse anything else.

    Raises:
        CheckpointError: The pickle is too large, damaged, or holds objects; states what to do.
    """
    size = path.stat().st_size
    if size > MAX_PICKLE:
        raise CheckpointError(
            f"{path.name} has {size:,} bytes; a pickle that is opened here has at most "
            f"{MAX_PICKLE:,}. Remove it."
        )
    return parse_plain_pickle(path.read_bytes(), path)


def parse_plain_pickle(content: bytes, path: Path) -> Any:
    """Return the same from bytes; ``path`` names the file in errors."""
    try:
        strange = _strange_opcode(content)
        loaded = None if strange else NoNames(io.BytesIO(content)).load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise CheckpointError(
            f"{path.name} is no sound pickle ({reason(error)}). Write it again, or remove it."
        ) from error
    if strange:
        raise CheckpointError(
            f"{path.name} holds more than dictionaries, text and numbers ({strange}); opening it "
            "could run code, so it is refused. Save it with plain data alone, or remove it."
        )
    return loaded


def _strange_opcode(content: bytes) -> str:
    """Return the first opcode that plain data does not need; empty if there is none.

    Raises:
        Exception: The pickle is damaged, or needs a memo longer than itself.
    """
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in PLAIN_OPCODES:
            return opcode.name
        if "PUT" in opcode.name and (place := int(argument or 0)) > len(content):
            raise CheckpointError(f"it asks for {place:,} places in memory")
    return ""
