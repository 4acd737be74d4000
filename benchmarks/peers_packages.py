"""BertViz and CircuitsVis as published, in a folder of their own, with the scripts they load.

Nothing of it is imported by the project; only processes of the benchmark see the folder.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("requirements-peers.txt")
FOLDER = Path(sys.prefix) / "peers"
MODULES = FOLDER / "scripts" / "node_modules"
#: What BertViz asks of a public server, and the file of an npm package that we serve instead.
#: There is no jQuery 2.0.0 among the packages; 2.1.0 is the next.
SCRIPTS = {
    "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.6/require.min.js": (
        "requirejs@2.3.6",
        "requirejs/require.js",
    ),
    "https://cdnjs.cloudflare.com/ajax/libs/d3/5.7.0/d3.min": ("d3@5.7.0", "d3/dist/d3.min.js"),
    "https://cdnjs.cloudflare.com/ajax/libs/jquery/2.0.0/jquery.min": (
        "jquery@2.1.0",
        "jquery/dist/jquery.min.js",
    ),
}


def install() -> None:
    """Install all of it, unless it is there already.

    Raises:
        subprocess.CalledProcessError: a package cannot be had.
    """
    wanted = hashlib.sha256(LIST.read_bytes() + repr(SCRIPTS).encode()).hexdigest()
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--upgrade", "--target", FOLDER, "-r", LIST], check=True)
    npm = [ROOT / ".ci" / "node", "npm", "install", "--prefix", MODULES.parent, "--no-save"]
    quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    packages = [package for package, _ in SCRIPTS.values()]
    subprocess.run([*npm, *quiet, *packages], check=True, stdout=sys.stderr)
    stamp.write_text(wanted)


def surroundings() -> dict[str, str]:
    """The environment of a process that may import the two packages."""
    return dict(os.environ) | {"PYTHONPATH": f"{ROOT}{os.pathsep}{FOLDER}"}


def served_here(html: str) -> str:
    """A page of BertViz that asks this machine for its scripts, below ``/scripts/``."""
    for address, (_, path) in SCRIPTS.items():
        # require.js adds ".js" to names that it looks up itself.
        here = f"/scripts/{path}" if address.endswith(".js") else f"/scripts/{path}"[:-3]
        html = html.replace(address, here)
    return html
