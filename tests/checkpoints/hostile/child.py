"""Opens the heavy cases one by one and says what each cost: run by the tests in a process of its
own, whose peak of memory the kernel counts."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from transformer_viz.checkpoints import CheckpointError, load

from .files import FILES
from .folders import FOLDERS
from .hugging import HUGGING
from .tables import TABLES

CASES = (*FILES, *FOLDERS, *HUGGING, *TABLES)


def peak() -> float:
    """The most memory that this process held since `forget`, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def forget() -> None:
    """Count the peak from here."""
    Path("/proc/self/clear_refs").write_text("5")


def main(place: Path) -> None:
    for number, case in enumerate(case for case in CASES if case.heavy):
        folder, canary = place / str(number), place / f"canary {number}"
        folder.mkdir()
        path = case.make(folder, canary)
        forget()
        before, start, said = peak(), time.process_time(), ""
        try:
            load(path, device="cpu")
        except CheckpointError as error:
            said = str(error)
        seconds = time.process_time() - start
        found = {"said": said, "seconds": seconds, "megabytes": peak() - before}
        print(json.dumps({"name": case.name, "ran": canary.exists()} | found), flush=True)
        for file in folder.iterdir():
            file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
