"""Pickles of plain data are read, and nothing in any pickle is ever run."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import pytest

from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.files.plain_pickle import MAX_PICKLE, read_plain_pickle

PLAIN = {"stoi": {"a": 0, "ß": 1, "🙂": 2}, "itos": {0: "a"}, "more": [1, None, True, [2**40, -3]]}


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def test_plain_data_is_read_in_every_protocol_and_nothing_runs(tmp_path):
    canary, path = tmp_path / "canary", tmp_path / "meta.pkl"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps(PLAIN, protocol))
        assert read_plain_pickle(path) == PLAIN, protocol
        path.write_bytes(pickle.dumps({"stoi": PLAIN["stoi"], "x": Runs(canary)}, protocol))
        with pytest.raises(CheckpointError, match="could run code, so it is refused"):
            read_plain_pickle(path)
        assert not canary.exists(), protocol


HOSTILE = {
    "empty": b"",
    "text": b"not a pickle at all",
    "cut short": pickle.dumps(PLAIN)[:-20],
    "a persistent name": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a key of pairs": b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
    "an extension": b"\x80\x02\x82\x01.",
    "a memo of gigabytes": b"\x80\x02}r" + struct.pack("<I", 2**31) + b".",
    "a text of gigabytes": b"\x80\x04X" + struct.pack("<I", 2**31) + b"a.",
    "a frame of terabytes": b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"}.",
    "a place that was never filled": b"\x80\x02h\x07.",
    "a list as a key": b"\x80\x02}](]K\x01u.",
}


def test_damaged_and_hostile_pickles_are_refused_in_a_sentence(tmp_path):
    path = tmp_path / "meta.pkl"
    for kind, content in HOSTILE.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"^meta\.pkl .*[Rr]emove it\.$") as caught:
            read_plain_pickle(path)
        assert "\n" not in str(caught.value), kind
    with path.open("wb") as file:
        file.truncate(MAX_PICKLE + 1)
    with pytest.raises(CheckpointError, match="4,194,305 bytes"):
        read_plain_pickle(path)
