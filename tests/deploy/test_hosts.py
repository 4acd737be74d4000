"""The files that hosts read of a fork: a Hugging Face Space, Streamlit Community Cloud, Binder.

The hosts cannot be asked here. The steps of the Space's Dockerfile run one by one on an archive of
this folder, and Streamlit Cloud's main file as Streamlit runs it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
import yaml
from streamlit.testing.v1 import AppTest

from tests.deploy.test_container import steps
from tests.support.browser import free_port, wait_for
from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.cli.main import main

SPACE = ROOT / "deploy" / "huggingface"
CLOUD = "deploy/streamlit/streamlit_app.py"
PORT = "7860"


def of(name: str) -> list[str]:
    return [step.words for step in steps(SPACE / "Dockerfile") if step.name == name]


def test_the_space_is_described() -> None:
    text = (SPACE / "README.md").read_text(encoding="utf-8")
    told = yaml.safe_load(text.split("---")[1])
    assert told["sdk"] == "docker" and str(told["app_port"]) == PORT and of("EXPOSE") == [PORT]
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {told["colorFrom"], told["colorTo"]} <= colours
    assert len(told["short_description"]) <= 60 and len(told["emoji"]) <= 2
    assert {path.name for path in SPACE.iterdir()} == {"README.md", "Dockerfile"}
    # It copies nothing and ends as a user.
    names = [step.name for step in steps(SPACE / "Dockerfile")]
    assert "COPY" not in names and of("USER") == ["1000"]
    assert "RUN" not in names[names.index("USER") :]
    (base,) = of("FROM")
    assert re.fullmatch(r"python:3\.1[1-9]-slim", base)
    assert {words.partition("=")[0] for words in of("ARG")} == {"SOURCE", "REVISION", "TORCH_INDEX"}


@pytest.fixture
def fork(tmp_path: Path) -> Iterator[str]:
    """The address of a host that gives an archive of what the Space needs of this folder."""
    (tmp_path / "fork" / "archive").mkdir(parents=True)
    with tarfile.open(tmp_path / "fork" / "archive" / "main.tar.gz", "w:gz") as archive:
        for name in ("requirements.txt", "pyproject.toml", "hatch_build.py", "app.py", "README.md"):
            archive.add(ROOT / name, f"transformer_viz-main/{name}")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/fork"
        server.shutdown()


def done(words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A RUN step in a folder in place of the image's; its temporary file lies in the folder too."""
    here = words.replace("/tmp/", f"{folder}/").replace("python ", f"{sys.executable} ")
    around = {"PATH": "/usr/bin:/bin"} | variables
    return subprocess.run(
        ["sh", "-c", here], cwd=folder, env=around, capture_output=True, text=True
    )


@pytest.mark.process
def test_the_space_fetches_the_fork(fork: str, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    asked, fetched, libraries, package = of("RUN")[:4]
    refused = done(asked, folder, SOURCE="")
    assert refused.returncode == 1 and "Set the variable SOURCE" in refused.stderr
    assert done(asked, folder, SOURCE=fork).returncode == 0
    assert done(fetched, folder, SOURCE=f"{fork}/", REVISION="main").returncode == 0
    assert {path.name for path in folder.iterdir()} >= {"requirements.txt", "app.py"}
    assert not list(folder.glob("*.tar.gz"))
    missing = done(fetched, folder, SOURCE=fork, REVISION="none")
    assert missing.returncode != 0 and "404" in missing.stderr
    assert "-r requirements.txt" in libraries and "--no-deps --editable ." in package
    for words in of("RUN"):
        assert subprocess.run(["sh", "-n", "-c", words]).returncode == 0


@pytest.mark.process
def test_the_space_starts_under_its_own_name(tmp_path: Path) -> None:
    """The shell's words, with an app that only prints its arguments."""
    (entry,), (more,) = of("ENTRYPOINT"), of("CMD")
    said = tmp_path / "transformer-viz"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    said.chmod(0o755)
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SPACE_HOST": "me-viz.hf.space"}
    words = [*json.loads(entry), *json.loads(more)]
    out = subprocess.run(words, env=around, capture_output=True, text=True, check=True)
    app, *given = out.stdout.split()
    context = main.commands["app"].make_context("app", given, parent=click.Context(main))
    assert app == "app" and context.params["names"] == ("me-viz.hf.space",)
    assert context.params["host"] == "0.0.0.0" and str(context.params["port"]) == PORT
    assert context.params["no_paths"] and context.params["no_uploads"]


def requirements(path: Path, cwd: Path = ROOT) -> list[str]:
    """The lines of a requirements file with those that it names; places as pip reads them:
    files from where the file stands, packages from the folder that pip runs in."""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["-r"]:
            found += requirements(path.parent / words[1])
        elif words[:1] == ["-e"]:
            assert (cwd / words[1] / "pyproject.toml").is_file()
            found.append("itself")
        elif words:
            found += words
    return found


def test_requirements_are_the_tested_ones_and_the_package() -> None:
    tested = {*requirements(ROOT / "requirements.txt")}
    cloud, binder = (
        requirements(ROOT / folder / "requirements.txt")
        for folder in ("deploy/streamlit", ".binder")
    )
    for found in (cloud, binder):
        assert tested | {"itself"} <= {*found}
        assert all("==" in one for one in found if one != "itself")
    assert {"jupyterlab", "jupytext"} <= {one.partition("==")[0] for one in binder}
    (python,) = (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8").split()
    assert re.fullmatch(r"python-3\.1[1-9]", python)


@pytest.mark.shipped
def test_the_main_file_of_the_cloud_draws_a_closed_app(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = (settings.UPLOADS, settings.PATHS, settings.HUB)
    text = (ROOT / CLOUD).read_text(encoding="utf-8")
    found = dict(re.findall(r'"(TRANSFORMER_VIZ_\w+)": "(\w+)"', text))
    assert found and {*found} <= {one.variable for one in settings.SETTINGS}
    assert {found[one.variable] for one in closed} == {settings.OFF}
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for one in closed:
        monkeypatch.delenv(one.variable, raising=False)
    for _ in range(2):  # a second visitor: what it imports is imported already
        app = AppTest.from_file(ROOT / CLOUD, default_timeout=60).run()
        assert not app.exception and app.text_input(key="text").value
    assert {one.text for one in closed} == {settings.OFF}


@pytest.mark.process
def test_only_the_main_file_of_the_cloud_is_open_to_others() -> None:
    """At home the app listens on 127.0.0.1 alone; a proxy in front comes by another address."""
    around = {name: text for name, text in os.environ.items() if not name.startswith("STREAMLIT_")}
    for script, is_open in (("app.py", False), (CLOUD, True)):
        port = free_port()
        words = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
        server = subprocess.Popen(words, cwd=ROOT, env=around, stdout=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{port}", server)
            with socket.socket() as other:
                other.settimeout(10)
                assert (other.connect_ex(("127.0.0.2", port)) == 0) is is_open, script
        finally:
            server.terminate()
            server.wait(timeout=20)
