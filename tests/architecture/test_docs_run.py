"""The command lines of README and docs/ are run, in order; what is not run says why."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.architecture.test_docs import BLOCK, PAGES, blocks
from tests.support.paths import ROOT
from transformer_viz.cli.main import main

#: Words of a line, and why it is not run here. What runs it elsewhere is named.
NOT_RUN = {
    "transformer-viz app": "serves until it is ended: tests/browser",
    "transformer-viz train": "data that is not in the repository: tests/training",
    "transformer-viz match my-clip": "a model that is not in the box: tests/cli",
    "mine.pt": "a file of the reader's own: tests/cli/test_names.py",
}
#: Blocks of other languages: how many a page has, and why they are not run as they stand.
OTHER = {
    ("add-a-language.md", "json"): (1, "run by tests/architecture/test_examples.py"),
    ("deploy.md", "json"): (1, "a line of a log, as the server writes it"),
    ("deploy.md", "text"): (1, "needs Docker"),
    ("hub.md", "text"): (1, "needs the Hub: tests/checkpoints/hub runs the same on a small one"),
    ("open-your-own.md", "text"): (3, "models that are not in the box: tests/families"),
    ("public-api.md", "text"): (21, "signatures, compared by tests/architecture/test_public.py"),
    ("take-it-with-you.md", "text"): (2, "outputs of a reader's model: tests/given, tests/cli"),
}
PAIRS = "The cat sleeps.\tDie Katze schläft.\nThe dog barks.\tDer Hund bellt.\n"


def lines(page: Path) -> list[str]:
    """The calls of our command on a page, one a line, comments taken off."""
    every = [line for block in blocks(page, "sh") for line in block.splitlines()]
    calls = [shlex.join(shlex.split(line, comments=True)) for line in every]
    return [call for call in calls if "transformer-viz" in call and not why_not(call)]


def why_not(call: str) -> str:
    return next((why for words, why in NOT_RUN.items() if words in call), "")


def test_what_is_not_run_says_why() -> None:
    """Every block of another language, and every line; and each reason is still needed."""
    found = Counter(
        (page.name, match[2])
        for page in PAGES
        for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if match[2] not in ("python", "sh")
    )
    assert found == {place: count for place, (count, _) in OTHER.items()}
    every = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    assert [words for words in NOT_RUN if words not in every] == []
    assert len(lines(ROOT / "docs" / "command-line.md")) >= 12


@pytest.mark.shipped
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.usefixtures("opened_once")
@pytest.mark.parametrize("page", [page for page in PAGES if lines(page)], ids=lambda p: p.name)
def test_command_lines_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a reader would, from top to bottom, in an empty folder with the files that they name."""
    monkeypatch.chdir(tmp_path)
    for name in ("pairs.tsv", "corpus.txt"):
        text = PAIRS if name == "pairs.tsv" else PAIRS.replace("\t", "\n")
        Path(name).write_text(text, encoding="utf-8")
    for call in lines(page):
        said, _, command = call.rpartition("'|'")
        words = shlex.split(command)
        typed = " ".join(shlex.split(said)[1:]) + "\n"
        done = CliRunner().invoke(main, words[1:], input=typed if said else "")
        assert done.exit_code == 0, f"{call}\n{done.output}"
