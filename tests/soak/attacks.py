"""Hostile visitors of the app, each a way to hold others up; run in a process of their own.

Each attack is a generator: it yields after every attempt, waits while ``on`` is not set, and ends
when ``over`` is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import safetensors.numpy
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from benchmarks.pupil import Pupil
from benchmarks.pupils import SHARED

FLOOD = 60  # frames a second that a flooder asks for, twice what a visit may have
SLOW_SOCKETS = 20
STREAM, WS = "/_stcore/stream", Subprotocol("streamlit")

Attack = Callable[[str, Path, threading.Event, threading.Event], Iterator[None]]


def floods(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Ask for frames without waiting for any, and read what comes."""
    pupil = Pupil(url)
    pupil.open(SHARED)
    pupil.type("The dog and the cat are not friends of the old man who feeds them.")
    host, line = pupil.host, pupil.slider["line"]
    seq = int(pupil.slider["seq"])

    def ask(seq: int) -> None:
        words = urlencode({"temperature": f"{0.2 + seq % 977 / 300:.3f}", "seq": seq})
        text = f"GET /{quote(line)}?{words} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        with (
            contextlib.suppress(OSError),
            socket.create_connection(_place(url), timeout=20) as one,
        ):
            one.sendall(text.encode())
            while one.recv(1 << 16):
                pass

    while not over.is_set():
        on.wait(1)
        if on.is_set():
            seq += 1
            threading.Thread(target=ask, args=(seq,), daemon=True).start()
            time.sleep(1 / FLOOD)
            yield


def brings(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Open one checkpoint after the other that takes all the time it may."""
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 512}
    config |= {"num_hidden_layers": 24, "num_attention_heads": 8, "intermediate_size": 2048}
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            place = folder / f"endless-{number}"
            place.mkdir()
            (place / "config.json").write_text(json.dumps(config | {"vocab_size": 9_000 + number}))
            (place / "model.safetensors").write_bytes(_endless(number))
            pupil = Pupil(url)
            with contextlib.suppress(Exception):  # it is refused, or takes too long
                pupil.open(SHARED | {"model": f"path:{place}"})
            pupil.end()
            yield


def _endless(number: int) -> bytes:
    """Safetensors of very many small tensors: they take long to be compared with a model."""
    header = {
        f"bert.encoder.layer.{n}.output.dense.weight": {
            "dtype": "F32", "shape": [1], "data_offsets": [4 * n, 4 * n + 4]
        }
        for n in range(60_000 + number)
    }  # fmt: skip
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4 * len(header))


def types(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Type long texts that no vocabulary knows, each of which is translated."""
    draw, pupil = random.Random(1), Pupil(url)
    pupil.open(SHARED)
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            with contextlib.suppress(Exception):  # too long a wait
                pupil.type("".join(chr(draw.randint(0x4E00, 0x9FFF)) for _ in range(60)))
            yield


def dawdles(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Open connections, say half a request on each, and read nothing."""
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            held = [socket.create_connection(_place(url)) for _ in range(SLOW_SOCKETS)]
            for one in held:
                one.sendall(b"GET / HTTP/1.1\r\nHost: " + _place(url)[0].encode())
            for _ in range(20):
                if on.is_set():
                    time.sleep(0.5)
            for one in held:
                one.close()
            yield


def sends(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Send messages of two bytes ("run again") without end; connect anew when put out."""
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            stream = url.replace("http", "ws") + STREAM
            with contextlib.suppress(Exception), connect(stream, subprotocols=[WS]) as line:
                _sends_until(line, on)  # until it is put out
            time.sleep(0.5)
            yield


def _sends_until(line: Any, on: threading.Event) -> None:
    """Send as fast as the line takes it, until the attack pauses or the server closes it."""

    def send() -> None:
        with contextlib.suppress(Exception):
            while on.is_set():
                line.send(b"\x5a\x00")

    worker = threading.Thread(target=send, daemon=True)
    worker.start()
    while worker.is_alive() and on.is_set():
        time.sleep(0.2)
    with contextlib.suppress(OSError):
        line.socket.shutdown(socket.SHUT_RDWR)  # a send that waits for room ends too


def uploads(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Upload 50 MB after another that do not say their length, to its own visit."""
    pupil = Pupil(url)
    pupil.open(SHARED)
    pupil.fetch_token()
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            with contextlib.suppress(OSError, http.client.HTTPException):
                _upload(pupil, number, on)
            yield
            time.sleep(0.05)


def _upload(pupil: Pupil, number: int, on: threading.Event) -> None:
    def body() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n'
        for _ in range(800):
            if on.is_set():
                yield bytes(65_536)
        yield b"\r\n--x--\r\n"

    line = http.client.HTTPConnection(pupil.host, timeout=20)
    cookies = dict(one.split("=", 1) for one in pupil.headers.get("Cookie", "").split("; ") if one)
    headers = {
        "Content-Type": "multipart/form-data; boundary=x",
        "X-Xsrftoken": cookies.get("_streamlit_xsrf", ""),
    }
    with contextlib.closing(line):
        path = f"/_stcore/upload_file/{pupil.seen.session}/{number}"
        line.request("PUT", path, body(), pupil.headers | headers, encode_chunked=True)
        line.getresponse().read()


def traces(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Open links to one trace file after the other whose words claim far more than it holds."""
    words = {"format": 1, "produced": {"probability": {"dtype": "S400000000", "values": ["a"] * 9}}}
    text = json.dumps(words | {"manifest": [[]] * 100_000})
    # Made once: on one machine, the attacker's own work must not slow the server.
    data = safetensors.numpy.save({"a": np.ones(1)}, {"trace": text})
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            path = folder / f"trace-{number}.safetensors"
            path.write_bytes(data)
            with contextlib.suppress(Exception):  # the page or the file is refused
                pupil = Pupil(url)
                try:
                    pupil.open(SHARED | {"model": f"path:{path}"})
                finally:
                    pupil.end()
            path.unlink()
            yield


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


ATTACKS: dict[str, tuple[Attack, ...]] = {
    "all": (floods, floods, brings, types, dawdles),
    # One visitor who floods with what no visit is counted by.
    "flood": (sends, uploads, traces),
}

NOTES = {
    "all": f"two ask for {FLOOD} frames a second each, one brings checkpoints that take long to be "
    f"refused, one types 60 Chinese letters after another, one holds {SLOW_SOCKETS} half requests.",
    "flood": "one socket sends messages without end, one visit uploads 50 MB after another without "
    "a length, one opens links to trace files that claim more than they hold.",
}


def attack(url: str, folder: Path, kind: str) -> None:
    """Be all of a kind: ``go`` and ``stop`` come on the standard input."""
    on, over = threading.Event(), threading.Event()
    attacks = ATTACKS[kind]
    done = [0] * len(attacks)

    def lives(number: int) -> None:
        for _ in attacks[number](url, folder, on, over):
            done[number] += 1

    for number in range(len(attacks)):
        threading.Thread(target=lives, args=(number,), daemon=True).start()
    time.sleep(10)
    print("ready", flush=True)
    for line in sys.stdin:
        on.set() if line.strip() == "go" else on.clear()
    on.clear()
    over.set()
    names = [f"{one.__name__} {n}" for n, one in enumerate(attacks)]
    print(json.dumps(dict(zip(names, done, strict=True))), flush=True)
    os._exit(0)
