"""The wheel holds all that the app needs, and works away from the clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.browser import free_port, wait_for
from transformer_viz.core.version import __version__

ROOT = Path(__file__).parents[2]
MOST = 60e6  # bytes
BOX = "transformer_viz/box/"
#: Extras that `make lowest` installs beside the package.
TRIED = ("export", "notebook", "accelerate")

pytestmark = [pytest.mark.process, pytest.mark.shipped]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    words = ["-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip would lay it out."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as stored:
        stored.extractall(site)
    return site


def python(installed: Path, *words: str, cwd: Path) -> str:
    """What Python says in another folder, where only the installed package can be found."""
    around = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=around, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_wheel_is_small_enough_and_whole(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST
    with zipfile.ZipFile(wheel) as stored:
        inside = set(stored.namelist())
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    package = {name for name in kept.stdout.split() if name.startswith("transformer_viz/")}
    assert package <= inside
    box = {n for n in kept.stdout.split() if re.match(r"app\.py|pretrained/|\.streamlit/", n)}
    left_out = {n for n in box if re.fullmatch(r"pretrained/labs/[\w-]+/example\.safetensors", n)}
    assert {BOX + name for name in box - left_out} <= inside
    assert len(left_out) == 8 and not {BOX + name for name in left_out} & inside
    strange = {n for n in inside - package if not n.startswith((BOX, "transformer_viz-"))}
    assert not strange


def test_it_asks_for_what_the_app_is_tested_with(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as stored:
        (name,) = (n for n in stored.namelist() if n.endswith("dist-info/METADATA"))
        told = stored.read(name).decode()
    bounds = dict(re.findall(r"^Requires-Dist: ([\w-]+)(?:\[\w+\])?>=([\d.]+)", told, re.MULTILINE))
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", text, re.MULTILINE))
    assert pinned.keys() <= bounds.keys()
    for package, least in bounds.items():
        if package in pinned:
            assert _numbers(least) <= _numbers(pinned[package])


def test_the_lowest_versions_are_those_of_the_bounds() -> None:
    """`make lowest` tries what requirements-lowest.txt pins; docs/versions.md tells of the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name in TRIED for one in extras[name])]
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", one).groups() for one in wanted)  # type: ignore[union-attr]
    text = (ROOT / "requirements-lowest.txt").read_text(encoding="utf-8")
    lowest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))
    assert {name: _whole(least) for name, least in bounds.items()} == {
        name: _whole(version) for name, version in lowest.items()
    }
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pins += (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    newest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", pins, re.MULTILINE))
    assert told == [(name, version, newest[name]) for name, version in lowest.items()]


def _whole(version: str) -> tuple[int, ...]:
    """Three numbers: 2 is 2.0.0."""
    return (*_numbers(version), 0, 0)[:3]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_models_and_a_run_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    said = python(installed, "-m", "transformer_viz", "models", cwd=tmp_path)
    assert {"en-de", "en-lm", "en-mlm", "digits"} <= {line.split()[0] for line in said.splitlines()}
    run = (
        "import transformer_viz as tv; from transformer_viz.paths import ROOT\n"
        "trace = tv.trace(tv.load('en-de'), 'The dog sleeps.', check=False)\n"
        "print(ROOT); print(*trace.attention('cross').shape[:2])\n"
        "print(tv.load('labs/dot').tokenizer.source_ids('The dog sleeps.')[-1])"
    )
    where, shape, last = python(installed, "-c", run, cwd=tmp_path).splitlines()
    assert Path(where) == installed / "transformer_viz" / "box"
    assert shape == "3 8"
    assert int(last) >= 0
    assert not list(tmp_path.iterdir())


@pytest.mark.soak  # the code: tests/architecture/test_docs.py; the wheel: above
def test_what_readme_shows_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    python(installed, "-c", "\n".join(blocks), cwd=tmp_path)
    words = ["trace", "en-de", "The dog sleeps.", "--out", "dog.safetensors"]
    python(installed, "-m", "transformer_viz", *words, cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"run.safetensors", "dog.safetensors"}


def test_training_needs_a_clone(installed: Path, tmp_path: Path) -> None:
    around = {**os.environ, "PYTHONPATH": str(installed)}
    words = [sys.executable, "-m", "transformer_viz", "train", "recipe.toml"]
    said = subprocess.run(words, cwd=tmp_path, env=around, capture_output=True, text=True)
    assert said.returncode == 2
    assert "needs a clone of the repository" in said.stderr
    assert len(said.stderr.strip().splitlines()) == 1


@pytest.fixture
def served(installed: Path, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    around = {**os.environ, "PYTHONPATH": str(installed)}
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", str(port)]
    server = subprocess.Popen(words, cwd=tmp_path, env=around, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def test_the_app_serves_its_own_components(served: str) -> None:
    address = "/_stcore/bidi-components/transformer_viz.pictures/pictures.js"
    with urllib.request.urlopen(served + address, timeout=60) as answer:
        assert b"export" in answer.read()


def test_issue_forms_and_workflows_are_sound() -> None:
    files = sorted((ROOT / ".github").rglob("*.yml"))
    assert len(files) >= 5
    for file in files:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert {"name", "body"} <= set(told) or "jobs" in told
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__
