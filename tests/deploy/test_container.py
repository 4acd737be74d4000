"""The files in deploy/: the steps of the image one by one, without a container engine.

`DONE` lists what is checked of each instruction; an unknown instruction is an error. Where an
engine is there, `make soak` builds the image.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest
import yaml

from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.cli.main import main

DEPLOY = ROOT / "deploy"
PORT = "8501"
#: What is done of each instruction without an engine.
DONE = {
    "FROM": "its tag is a slim Python that the project supports",
    "ARG": "it has a default",
    "ENV": "read",
    "WORKDIR": "read",
    "COPY": "every source is in the repository and not ignored",
    "RUN": "the shell reads it; pip installs pinned versions or this package",
    "USER": "a number, not the administrator's, and nothing is installed after it",
    "EXPOSE": "the port of the app",
    "STOPSIGNAL": "the one that the app ends on",
    "HEALTHCHECK": "run, against a server that is ready and one that is not",
    "ENTRYPOINT": "the command line understands it",
    "CMD": "the command line understands it",
}


@dataclass(frozen=True)
class Step:
    name: str
    words: str


def steps(file: Path = DEPLOY / "Containerfile") -> list[Step]:
    """Return the instructions of a container file, continued lines joined."""
    lines = file.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    found = [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [Step(name, words) for name, words in found]


def of(name: str) -> list[str]:
    return [step.words for step in steps() if step.name == name]


def test_the_steps_are_known_and_end_without_an_administrator() -> None:
    names = [step.name for step in steps()]
    assert set(names) == set(DONE)
    (base,), (user,) = of("FROM"), of("USER")
    found = re.fullmatch(r"python:3\.(\d+)-slim", base)
    assert found is not None and int(found[1]) >= 11
    assert all("=" in words for words in of("ARG"))
    assert user.isdecimal() and int(user) >= 1000
    assert "RUN" not in names[names.index("USER") :]
    assert any(f"--uid {user}" in words for words in of("RUN"))
    (entry,), (more,) = of("ENTRYPOINT"), of("CMD")
    words = [*json.loads(entry), *json.loads(more)]
    assert words[:2] == ["transformer-viz", "app"]
    context = main.commands["app"].make_context("app", words[2:], parent=click.Context(main))
    assert context.params["host"] == "0.0.0.0" and str(context.params["port"]) == PORT
    assert of("EXPOSE") == [PORT] and of("STOPSIGNAL") == ["SIGTERM"]


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    let_in = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert let_in[0] == "*"
    sources = {word for words in of("COPY") for word in shlex.split(words)[:-1]}
    assert {f"!{source}" for source in sources} == {one for one in let_in if one.startswith("!")}
    assert not [source for source in sources if not (ROOT / source).exists()]
    for folder in ("transformer_viz", "pretrained"):
        assert folder in sources and any((ROOT / folder).iterdir())
    assert {".streamlit", "app.py", "requirements.txt"} <= sources


@pytest.mark.process
def test_the_shell_reads_each_command() -> None:
    for words in of("RUN"):
        done = subprocess.run(["sh", "-n", "-c", words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    installs = [words for words in of("RUN") if "pip install" in words]
    assert any("-r requirements.txt" in words for words in installs)
    assert any("--no-deps --editable ." in words for words in installs)


@pytest.mark.process
def test_the_health_check_runs() -> None:
    class Ready(BaseHTTPRequestHandler):
        """A server that tells whether it is ready."""

        status = 200

        def do_GET(self) -> None:
            self.send_response(self.status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (words,) = of("HEALTHCHECK")
    asked = json.loads(words[words.index("[") :])
    assert asked[0] == "python" and f":{PORT}/" in asked[2]
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = asked[2].replace(f":{PORT}/", f":{server.server_port}/")
        for Ready.status, code in ((200, 0), (503, 1)):
            done = subprocess.run([sys.executable, "-c", said], capture_output=True)
            assert done.returncode == code, Ready.status
        server.shutdown()


def test_two_replicas_stand_behind_a_balancer() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = composed["services"]
    replicas = [one for name, one in services.items() if name.startswith("viz")]
    assert len(replicas) == 2 and composed["networks"]["inside"]["internal"]
    for one in replicas:
        assert one["read_only"] and one["cap_drop"] == ["ALL"] and "ports" not in one
        assert one["tmpfs"][0].startswith("/tmp:") and one["mem_limit"]
        assert one["networks"] == ["inside"]
        assert (DEPLOY / one["env_file"]).is_file()
        assert (DEPLOY / one["build"]["context"] / one["build"]["dockerfile"]).is_file()
    for source in (one.split(":")[0] for one in services["balancer"]["volumes"]):
        assert source in composed["volumes"] or (DEPLOY / source).is_file(), source
    # The balancer knows the replicas and closes what is not for visitors.
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    code = "\n".join(line.split("#")[0] for line in text.splitlines())
    assert code.count("{") == code.count("}")
    for words in (
        f"reverse_proxy viz1:{PORT} viz2:{PORT}", "lb_policy cookie", "frame-ancestors",
        "max_size", "read_header", "health_uri /ready",
    ):  # fmt: skip
        assert words in code, words
    (closed,) = re.findall(r"@closed path (.*)", code)
    assert closed.split() == ["/metrics", "/ready", "/_stcore/metrics"]
    assert not re.search(r"^\s*log\b", code, re.MULTILINE)  # links hold visitors' sentences


def test_every_setting_of_the_server_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (DEPLOY / "server.env").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    known = {one.variable: one for one in settings.SETTINGS}
    for name, value in given.items():
        if name.startswith(settings.PREFIX):
            monkeypatch.setenv(name, value)
            assert known[name].text == value, name
    assert given[settings.UPLOADS.variable] == given[settings.PATHS.variable] == "off"


@pytest.mark.soak
@pytest.mark.process
def test_the_image_is_built_where_an_engine_is() -> None:
    found = [name for name in ("docker", "podman") if shutil.which(name)]
    able = [name for name in found if not subprocess.run([name, "info"]).returncode]
    if not able:
        pytest.skip("no container engine answers here")
    words = [able[0], "build", "-f", str(DEPLOY / "Containerfile"), "-t", "transformer-viz", "."]
    subprocess.run(words, cwd=ROOT, check=True)
