"""Ids of the Hub on the command line: fetched, opened, refused in a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.checkpoints.hugging_face import as_torch
from tests.support.hub_fixtures import folder, hub
from tests.support.hub_server import Hub
from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.cli.main import main

__all__ = ["folder", "hub"]
Folder = Callable[[str], Path]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.slow
def test_inspect_and_trace_by_id(hub: Hub, folder: Folder, tmp_path: Path):
    hub.add("tiny/gpt2", folder("gpt2"))
    found = run("inspect", "tiny/gpt2@main")
    assert found.exit_code == 0, found.output
    assert "tiny/gpt2" in found.stdout and "capture report: green" in found.stdout
    assert "are still to come" in found.stderr
    out = tmp_path / "run.safetensors"
    assert run("trace", "tiny/gpt2", "the cat sat", "--out", str(out)).exit_code == 0
    assert out.is_file() and len(hub.weights_asked()) == 1
    # words say how it is fetched
    shutil.copytree(folder("gpt2"), tmp_path / "old")
    hub.add("tiny/old", as_torch(tmp_path / "old"))
    refused = run("inspect", "tiny/old")
    assert refused.exit_code == 2 and "--set allow_pickle=true" in refused.stderr
    assert run("inspect", "tiny/old", "--set", "allow_pickle=true").exit_code == 0
    assert run("inspect", "tiny/old", "--set", "revision=v9").exit_code == 2
    assert run("inspect", "tiny/none").stderr.startswith("There is no model tiny/none here")


def test_who_reaches_the_app_decides(monkeypatch: pytest.MonkeyPatch):
    kept: dict[str, str] = {}
    monkeypatch.setattr(os, "execve", lambda path, words, around: kept.update(around))
    monkeypatch.setattr(os, "chdir", lambda place: None)
    for words, before, mode in (
        ((), None, "any"),
        (("--host", "0.0.0.0"), None, "off"),
        (("--name", "viz.example.org"), None, "off"),
        (("--host", "0.0.0.0", "--hub", "listed"), None, "listed"),
        (("--hub", "off"), "any", "off"),
        ((), "listed", "listed"),
    ):
        kept.clear()
        for one in (settings.HUB, settings.NAMES, settings.REACH):
            monkeypatch.delenv(one.variable, raising=False)
        if before is not None:
            monkeypatch.setenv(settings.HUB.variable, before)
        assert run("app", "--port", "8617", *words).exit_code == 0, words
        assert settings.HUB.read(kept) == mode, (words, before)


@pytest.mark.process
def test_a_program_of_its_own_with_the_clients_variables(hub: Hub, folder: Folder, tmp_path: Path):
    hub.add("tiny/gpt2", folder("gpt2"))
    around = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    around["HF_HUB_OFFLINE"] = "0"
    words = [sys.executable, "-m", "transformer_viz", "inspect", "tiny/gpt2"]
    first = subprocess.run(words, cwd=ROOT, env=around, capture_output=True, text=True)
    assert first.returncode == 0 and "are still to come" in first.stderr
    around["HF_HUB_OFFLINE"] = "1"
    again = subprocess.run(words, cwd=ROOT, env=around, capture_output=True, text=True)
    assert again.returncode == 0 and again.stdout == first.stdout
