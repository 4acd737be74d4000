"""Hostile and broken checkpoints: one sentence, quickly, in little memory, and nothing is run."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from click.testing import CliRunner

from tests.support.paths import ROOT
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.hugging_face.side_files import MAX_BESIDE
from transformer_viz.cli.main import main
from transformer_viz.preprocessing.tokenizers import PlainIds

from .case import Case
from .child import CASES
from .hugging import FOREIGN, hugging
from .uploads import UPLOADS, Upload

SECONDS, MEGABYTES = 10, 1024


class NobodyTypes(io.TextIOBase):
    """A keyboard that nobody may ask."""

    def readable(self) -> bool:
        raise AssertionError("somebody asked whether there is something to read")

    def read(self, size: int | None = -1) -> NoReturn:
        raise AssertionError("somebody read from the keyboard")

    readline = read  # type: ignore[assignment]


def refused(open_it: Callable[[], Any], message: str) -> str:
    """What is said where something is refused: one quick sentence that matches."""
    start = time.process_time()  # of this process alone: the machine may be busy
    with pytest.raises(ValueError) as error:
        open_it()
    assert time.process_time() - start < SECONDS
    check_sentence(str(error.value), message)
    return str(error.value)


def check_sentence(said: str, message: str) -> None:
    assert re.search(message, said), said
    assert "\n" not in said
    assert "Traceback" not in said
    assert 20 < len(said.replace("x" * 1000, "")) < 700, said
    assert said.endswith(".")


def test_the_list_is_long_and_each_stands_in_it_once() -> None:
    names = [case.name for case in CASES] + [case.name for case in UPLOADS]
    assert len(set(names)) == len(names) >= 180


@pytest.mark.parametrize("case", [c for c in CASES if not c.heavy], ids=lambda c: c.name)
def test_a_hostile_checkpoint_is_refused_in_a_sentence(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, folder = tmp_path / "canary", tmp_path / "folder"
    folder.mkdir()
    path = case.make(folder, canary)
    monkeypatch.setattr(sys, "stdin", NobodyTypes())
    refused(lambda: load(path, device="cpu"), case.message)
    assert not canary.exists()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each heavy case said and cost, opened in a process of their own."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.checkpoints.hostile.child",
            str(tmp_path_factory.mktemp("heavy")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    lines = map(json.loads, done.stdout.splitlines())
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("case", [c for c in CASES if c.heavy], ids=lambda c: c.name)
@pytest.mark.process
def test_a_heavy_checkpoint_is_refused_at_little_cost(
    case: Case, measured: dict[str, dict[str, Any]]
) -> None:
    found = measured[case.name]
    check_sentence(found["said"], case.message)
    assert found["seconds"] < SECONDS
    assert found["megabytes"] < MEGABYTES
    assert not found["ran"]


@pytest.mark.parametrize("case", UPLOADS, ids=lambda c: c.name)
def test_a_hostile_upload_is_refused_and_leaves_nothing(case: Upload, tmp_path: Path) -> None:
    into = tmp_path / "place"
    (tmp_path / "upload").mkdir()
    said = refused(lambda: case.bring(tmp_path / "upload", into), case.message)
    assert str(tmp_path / "upload" / "in") not in said  # a visitor need not know where that is
    assert not into.exists() or not any(into.iterdir())
    assert {path.name for path in tmp_path.iterdir()} <= {"upload", "place"}


ON_THE_COMMAND_LINE = [
    "a shell command",
    "NaN",
    "a pointer of Git LFS",
    "heads that do not divide",
    "a link out of the folder",
    "not a number",
    "a name turned round",
]


@pytest.mark.parametrize("name", ON_THE_COMMAND_LINE)
def test_the_command_line_says_the_same_on_one_line(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    (tmp_path / "folder").mkdir()
    path = case.make(tmp_path / "folder", tmp_path / "canary")
    done = CliRunner().invoke(main, ["inspect", str(path)])
    lines = [line for line in done.stderr.splitlines() if not line.endswith("…")]
    assert (done.exit_code, done.stdout, len(lines)) == (2, "", 1)
    assert re.search(case.message + "|no checkpoint", lines[0])
    assert not (tmp_path / "canary").exists()


def test_names_in_a_file_give_the_terminal_no_commands(tmp_path: Path) -> None:
    torch.save({"a\x1b[2J\x07.b": torch.zeros(2)}, tmp_path / "w.pt")
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "w.pt")])
    assert done.exit_code == 2
    assert r"its first weight is a\x1b[2J\x07.b" in done.stderr


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.pt").write_bytes(b"PK\x03\x04")

    def closed(*_: Any, **__: Any) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    refused(lambda: load(tmp_path / "w.pt", device="cpu"), r"w\.pt cannot be read \(Permission")


def tokenizer(**parts: Any) -> dict[str, str]:
    """The files of a tokenizer of four words, some parts of which are others."""
    words = {"[UNK]": 0, "a": 1, "the": 2, "cat": 3}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    whole |= {"model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}}
    beside = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    return {
        "tokenizer.json": json.dumps(whole | parts),
        "tokenizer_config.json": json.dumps(beside),
    }


DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
TOKENIZERS = {
    "letters doubled 40 times": tokenizer(
        normalizer={"type": "Sequence", "normalizers": [DOUBLED] * 40}
    ),
    "bytes for bytes 40 times": tokenizer(
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}]
            * 40,
        }
    ),
    "a pattern that takes hours": tokenizer(
        decoder={"type": "Replace", "pattern": {"Regex": "(?:a|a){20}[bc]"}, "content": ""}
    ),
    "two hundred thousand pieces made up": {
        "tokenizer_config.json": '{"tokenizer_class": "T5Tokenizer", "extra_ids": 200000}'
    },
    "a billion pieces made up": {
        "tokenizer_config.json": '{"tokenizer_class": "ByT5Tokenizer", "extra_ids": 1000000000}'
    },
    "garbage": {"tokenizer.json": "garbage"},
    "an empty object": {"tokenizer.json": "{}"},
    "no pieces": {"spiece.model": "garbage", "tokenizer_config.json": '{"a": 1}'},
    "garbage for words": {"tokenizer_config.json": "garbage"},
    "code of its own": {
        "tokenizer_config.json": '{"tokenizer_class": "T", "auto_map": {"AutoTokenizer": "code.T"}}'
    },
}


def test_a_sound_tokenizer_is_opened(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    hugging(tokenizer(normalizer=DOUBLED))(tmp_path / "folder", tmp_path / "canary")
    model = load(tmp_path / "folder", device="cpu")
    assert model.tokenizer.source_ids("the cat") == [2, 0]  # "caat" is no word of it


def test_a_vocabulary_without_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    hugging({"tokenizer_config.json": FOREIGN})(tmp_path / "folder", tmp_path / "canary")
    with (tmp_path / "folder" / "vocab.txt").open("wb") as file:
        file.truncate(MAX_BESIDE + 1)
    model = load(tmp_path / "folder", device="cpu")
    assert any("vocab.txt has more than" in note for note in model.notes)


@pytest.mark.parametrize("case", TOKENIZERS)
def test_a_tokenizer_that_cannot_be_read_is_left_out_and_told(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    hugging(TOKENIZERS[case])(folder, tmp_path / "canary")
    monkeypatch.setattr(sys, "stdin", NobodyTypes())
    model = load(folder, device="cpu")
    assert isinstance(model.tokenizer, PlainIds)
    assert any("tokenizer" in note for note in model.notes), model.notes
    assert not (tmp_path / "canary").exists()
