"""Run each package in a process of its own and write the two tables of `docs/tested-models.md`."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import venv
from dataclasses import asdict
from pathlib import Path

from tests.support.measured_tables import write_table

from .models import lucidrains
from .verdict import Row, measure

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).with_name("requirements.txt")
FOLDER = ROOT / ".venv-foreign"
PYTHON = FOLDER / "bin" / "python"
TABLES = ("foreign-packages", "foreign-styles")
SECONDS = 900
#: The distribution's name, and the file here that holds its configurations.
PACKAGES = {
    "x-transformers": "x_transformers",
    "transformer-lens": "transformer_lens",
    "timm": "timm_models",
    "vit-pytorch": "vit_pytorch",
    "transformers": "library",
    "diffusers": "diffusers",
    "open-clip-torch": "open_clip",
    "fair-esm": "fair_esm",
    "torch-geometric": "torch_geometric",
    "keras": "keras_models",
    "pytorch-forecasting": "pytorch_forecasting",
    "entmax": "entmax_weights",
} | {package.replace("_", "-"): "lucidrains" for package in lucidrains.MODELS}


def install() -> None:
    """Make the environment, unless its packages are those of the list.

    Raises:
        subprocess.CalledProcessError: a package cannot be had.
    """
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_text() == LIST.read_text():
        return
    venv.create(FOLDER, with_pip=True, clear=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = FOLDER / "lib" / version / "site-packages"
    here = sysconfig.get_paths()["purelib"]
    # addsitedir follows the .pth files there too, which a plain line would not.
    (packages / "development.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-r", LIST], check=True)
    stamp.write_text(LIST.read_text())


def rows(package: str) -> list[Row]:
    """The rows of a package, from a process of its own; one row of failure where it breaks."""
    command = [PYTHON, "-m", "tests.soak.foreign", "--inside", package]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [Row("all", *"-----", "not run", f"took longer than {SECONDS} seconds")]
    lines = [line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")]
    found = [Row(**json.loads(line)) for line in lines]
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        found.append(Row("the rest", *"-----", "not run", last))
    return found


def inside(package: str) -> None:
    """Measure all configurations of a package, and print one row for each."""
    import torch

    torch.set_num_threads(1)
    part = importlib.import_module(f"tests.soak.foreign.models.{PACKAGES[package]}")
    several = (package.replace("-", "_"),) if part is lucidrains else ()
    for configuration in part.configurations(*several):
        try:
            row = measure(configuration)
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            row = Row(configuration.name, *"-----", "not run", said)
        print("ROW " + json.dumps(asdict(row)), flush=True)


def main() -> None:
    """Run all packages and write the tables; with ``--only``, run one, and print its rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.foreign")
    parser.add_argument("--only", choices=PACKAGES)
    parser.add_argument("--inside", choices=PACKAGES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside)
        return
    install()
    pins = dict(line.split("==") for line in LIST.read_text().split())
    pins["transformers"] = importlib.metadata.version("transformers")  # is installed here anyway
    names = [given.only] if given.only else list(PACKAGES)
    found = [
        {"package": f"{name} {pins[name]}"} | asdict(row) for name in names for row in rows(name)
    ]
    if given.only:
        print("\n".join(" | ".join(row.values()) for row in found))
        return
    write_table(TABLES[0], found)
    write_styles()


def write_styles() -> None:
    """Write the table of attention written by hand; print the styles that cannot run here."""
    import torch

    from tests.foreign import scoreboard
    from tests.foreign.styles import STYLES

    torch.set_num_threads(1)
    named = [STYLES[name] for name in sorted(STYLES)]  # whatever the order of imports
    styles, lacking = scoreboard.measured(named)
    write_table(TABLES[1], [one.cells() for one in styles])
    print("\n".join(lacking))
