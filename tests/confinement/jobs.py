"""Jobs that do in a confined process what no opening of a file should: run there by name."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from transformer_viz.confinement.channel import Channel

HERE = "tests.confinement.jobs"
NAMES = ("tell", "attempt", "misbehave")
JOBS = tuple(f"{HERE}:{name}" for name in NAMES)
NOTHING = f"{HERE}:nothing"


def nothing() -> None:
    """Import nothing more."""


def tell(channel: Channel) -> None:
    """Say back what came, and what this process knows of the world."""
    while True:
        try:
            message = channel.receive()
        except EOFError:
            return
        channel.send(message | {"environment": dict(os.environ), "process": os.getpid()})


def attempt(channel: Channel) -> None:
    """Try one thing after the other, and say of each whether it worked."""
    asked = channel.receive()
    trials: dict[str, Any] = {
        "read its own": lambda: Path(asked["readable"]).read_text(),
        "read another's": lambda: Path(asked["secret"]).read_text(),
        "list another's": lambda: list(Path(asked["secret"]).parent.iterdir()),
        "write at home": lambda: Path("own").write_text("x"),
        "write elsewhere": lambda: Path(asked["elsewhere"]).write_text("x"),
        "write where it reads": lambda: Path(asked["readable"]).write_text("x"),
        "remove": lambda: Path(asked["readable"]).unlink(),
        "connect": lambda: socket.create_connection(("127.0.0.1", asked["port"]), 2),
        "send": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "fork": os.fork,
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "kill": lambda: os.kill(asked["process"], 0),
        "watch": lambda: _watched(asked["process"]),
        "environment": lambda: Path(f"/proc/{asked['process']}/environ").read_bytes(),
        "memory": lambda: os.open(f"/proc/{asked['process']}/mem", os.O_RDONLY),
    }
    worked = {}
    for name, trial in trials.items():
        try:
            result = trial()
            if name == "fork" and result == 0:
                os._exit(0)
            worked[name] = True
        except (OSError, subprocess.SubprocessError):
            worked[name] = False
    channel.send({"worked": worked})


def _watched(process: int) -> None:
    ctypes.set_errno(0)
    if ctypes.CDLL(None, use_errno=True).ptrace(16, process, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def misbehave(channel: Channel) -> None:
    """Do as told: eat, sleep, burn, die, leave, or answer with something else than an answer."""
    asked = channel.receive()
    how = asked["how"]
    if how == "eat":
        held = []
        try:
            while True:
                held.append(bytearray(50_000_000))
        except MemoryError:
            count = len(held)
            held.clear()
            channel.send({"eaten": 50 * count})
    elif how == "sleep":
        time.sleep(1000)
    elif how == "burn":
        while True:
            pass
    elif how == "die":
        signal.raise_signal(asked["signal"])
    elif how == "leave":
        os._exit(7)
    elif how == "flood":
        while True:
            channel._write.write(b"\xff" * 2**20)
    elif how == "babble":
        channel._write.write((5).to_bytes(8, "big") + b"{{{{{")
        channel._write.flush()
    else:
        channel.send({"list": [[]]})
