"""What each setting of a server opens, found by a run over all combinations.

python -m tests.support.reach_table        (writes the table of docs/security.md)
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from tests.support.paths import ROOT
from transformer_viz import reach, settings
from transformer_viz.cli.main import main
from transformer_viz.permissions import permissions

PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- written by python -m tests.support.reach_table -->", "<!-- end -->"
NAME = "viz.example.org"
FOLDER = "checkpoints"
USES = {
    "one person": (),
    "a class": ("--host", "0.0.0.0", "--no-uploads"),
    "a lab": ("--host", "0.0.0.0", "--models", FOLDER),
    "the public, behind a proxy": ("--no-uploads", "--name", NAME),
}
#: What is asked of the table below: options, and what may stand around the server.
OPTIONS = {"none": (), "`--no-uploads`": ("--no-uploads",), "`--models`": ("--models", FOLDER)}
LISTENS = {"127.0.0.1": (), "0.0.0.0": ("--host", "0.0.0.0")}
NAMES = {"–": (), "`--name`": ("--name", NAME)}
PROXY: dict[str, dict[str, str]] = {"–": {}, "trusted": {"FORWARDED_ALLOW_IPS": "10.0.0.9"}}
PLACES: dict[str, dict[str, str]] = {
    "a machine, a container": {},
    "a pod of Kubernetes": {"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
    "Codespaces": {"CODESPACES": "true"},
    "JupyterHub, Binder": {"JUPYTERHUB_SERVICE_PREFIX": "/user/me/"},
}


def started(words: tuple[str, ...], around: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which ``transformer-viz app`` starts its server."""
    found: dict[str, str] = {}
    known = {*(one.variable for one in settings.SETTINGS), *reach.PROXIES, reach.BROWSERS}
    known |= {reach.ADDRESS, reach.PASSED_ON, *itertools.chain(*reach.HOSTS.values())}
    kept = {name: text for name, text in os.environ.items() if name not in known}
    here = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, kept | dict(around or {}), clear=True),
        mock.patch("transformer_viz.cli.serve._require_free"),
        mock.patch("os.execve", lambda program, words, names: found.update(names)),
    ):
        (Path(folder) / FOLDER).mkdir()
        try:
            os.chdir(folder)
            said = CliRunner().invoke(main, ["app", *words])
        finally:
            os.chdir(here)
        assert said.exit_code == 0, said.output
    return found


def opened(found: Mapping[str, str]) -> dict[str, str]:
    """What an environment opens, with the folder as a reader knows it."""
    told = permissions(found)
    if told["paths"] != settings.OFF:
        named = told["paths"].endswith(FOLDER)
        told["paths"] = f"below `{FOLDER}`" if named else "below the start folder"
    return told


def combinations() -> Iterator[tuple[tuple[str, ...], str, dict[str, str]]]:
    """All combinations: their names, why others reach the server, and its environment."""
    for said in itertools.product(LISTENS, NAMES, PROXY, PLACES, OPTIONS):
        host, name, proxy, place, option = said
        words = (*LISTENS[host], *NAMES[name], *OPTIONS[option])
        found = started(words, PROXY[proxy] | PLACES[place])
        yield said, reach.reason(found), found


def written() -> str:
    """Return the table of docs/security.md."""
    lines = [
        "| setup | reachable by | paths | uploads | Hub | Hub token | limits per user |",
        "|---" * 7 + "|",
    ]
    for use, words in USES.items():
        lines.append(_row(use, started(words)))
    proxied = started(USES["one person"]) | {reach.PASSED_ON: "a proxy passed on a request"}
    lines.append(_row("one person, after a proxy or tunnel forwarded a request", proxied))
    return "\n".join(lines)


def _who(found: Mapping[str, str]) -> str:
    return "others" if reach.reason(found) else "this machine"


def _row(use: str, found: Mapping[str, str]) -> str:
    told = opened(found)
    cells = (told["paths"], told["uploads"], told["Hub"], told["token"], told["shares"])
    return "| " + " | ".join((use, _who(found), *cells)) + " |"


def in_page(text: str) -> str:
    """What stands between the two marks of the page."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{written()}\n\n{END}{after}", encoding="utf-8")
