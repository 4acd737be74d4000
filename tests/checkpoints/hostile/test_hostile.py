"""Hostile and broken checkpoints: one sentence, quickly, in little memory, and nothing is run."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from click.testing import CliRunner

from tests.support.cases import each
from tests.support.paths import ROOT
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.hugging_face.side_files import MAX_BESIDE
from transformer_viz.cli.main import main
from transformer_viz.preprocessing.tokenizers import PlainIds

from .case import Case
from .child import CASES
from .hugging import FOREIGN, hugging
from .uploads import UPLOADS, Upload

SECONDS, MEGABYTES = 10, 1024
Places = Callable[[], tuple[Path, Path]]


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


def with_names(cases: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((case.name, case) for case in cases)


@pytest.fixture
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], tuple[Path, Path]]:
    """Makes an empty folder for a hostile file, and names a canary beside it."""

    def make() -> tuple[Path, Path]:
        place = tmp_path_factory.mktemp("case")
        (place / "folder").mkdir()
        return place / "folder", place / "canary"

    return make


@pytest.mark.slow
def test_a_hostile_checkpoint_is_refused_in_a_sentence(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(case: Case) -> None:
        folder, canary = places()
        path = case.make(folder, canary)
        refused(lambda: load(path, device="cpu"), case.message)
        assert not canary.exists()

    monkeypatch.setattr(sys, "stdin", NobodyTypes())
    each(with_names(case for case in CASES if not case.heavy), check)


@pytest.mark.process
def test_a_heavy_checkpoint_is_refused_at_little_cost(tmp_path: Path) -> None:
    """A process of their own opens one after the other and measures each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoints.hostile.child", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    measured = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}

    def check(case: Case) -> None:
        found = measured[case.name]
        check_sentence(found["said"], case.message)
        assert found["seconds"] < SECONDS
        assert found["megabytes"] < MEGABYTES
        assert not found["ran"]

    each(with_names(case for case in CASES if case.heavy), check)


def test_a_hostile_upload_is_refused_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def check(case: Upload) -> None:
        place = tmp_path_factory.mktemp("case")
        folder, into = place / "upload", place / "place"
        folder.mkdir()
        said = refused(lambda: case.bring(folder, into), case.message)
        assert str(folder / "in") not in said  # a visitor need not know where that is
        assert not into.exists() or not any(into.iterdir())
        assert {path.name for path in place.iterdir()} <= {"upload", "place"}

    each(with_names(UPLOADS), check)


ON_THE_COMMAND_LINE = [
    "a shell command",
    "NaN",
    "a pointer of Git LFS",
    "heads that do not divide",
    "a link out of the folder",
    "not a number",
    "a name turned round",
]


def inspect_lines(path: Path) -> list[str]:
    """Return the lines of a refusal of ``inspect``, without those of progress."""
    done = CliRunner().invoke(main, ["inspect", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    return [line for line in done.stderr.splitlines() if not line.endswith("…")]


def test_the_command_line_says_the_same_on_one_line(places: Places) -> None:
    def check(case: Case) -> None:
        folder, canary = places()
        (line,) = inspect_lines(case.make(folder, canary))
        assert re.search(case.message + "|no checkpoint", line), line
        assert not canary.exists()

    chosen = [case for case in CASES if case.name in ON_THE_COMMAND_LINE]
    assert len(chosen) == len(ON_THE_COMMAND_LINE)
    each(with_names(chosen), check)
    path, _ = places()  # names in a file give the terminal no commands
    torch.save({"a\x1b[2J\x07.b": torch.zeros(2)}, path / "w.pt")
    assert r"its first weight is a\x1b[2J\x07.b" in "\n".join(inspect_lines(path / "w.pt"))


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
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
HOURS = {"type": "Replace", "pattern": {"Regex": "(?:a|a){20}[bc]"}, "content": ""}


def beside(text: str) -> dict[str, str]:
    return {"tokenizer_config.json": text}


TOKENIZERS = {
    "letters doubled 40 times": tokenizer(
        normalizer={"type": "Sequence", "normalizers": [DOUBLED] * 40}
    ),
    "bytes for bytes 40 times": tokenizer(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES] * 40}
    ),
    "a pattern that takes hours": tokenizer(decoder=HOURS),
    "two hundred thousand pieces made up": beside(
        '{"tokenizer_class": "T5Tokenizer", "extra_ids": 200000}'
    ),
    "a billion pieces made up": beside(
        '{"tokenizer_class": "ByT5Tokenizer", "extra_ids": 1000000000}'
    ),
    "garbage": {"tokenizer.json": "garbage"},
    "an empty object": {"tokenizer.json": "{}"},
    "no pieces": {"spiece.model": "garbage", **beside('{"a": 1}')},
    "garbage for words": beside("garbage"),
    "code of its own": beside('{"tokenizer_class": "T", "auto_map": {"AutoTokenizer": "code.T"}}'),
}


def test_a_tokenizer_that_cannot_be_read_is_left_out_and_told(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_folder(files: dict[str, str]) -> Model:
        folder, canary = places()
        model = load(hugging(files)(folder, canary), device="cpu")
        assert not canary.exists()
        return model

    def check(files: dict[str, str]) -> None:
        model = open_folder(files)
        assert isinstance(model.tokenizer, PlainIds)
        assert any("tokenizer" in note for note in model.notes), model.notes

    monkeypatch.setattr(sys, "stdin", NobodyTypes())
    each(TOKENIZERS.items(), check)
    sound = open_folder(tokenizer(normalizer=DOUBLED))
    assert sound.tokenizer.source_ids("the cat") == [2, 0]  # "caat" is no word of it
    folder, canary = places()
    hugging({"tokenizer_config.json": FOREIGN})(folder, canary)
    with (folder / "vocab.txt").open("wb") as file:
        file.truncate(MAX_BESIDE + 1)
    notes = load(folder, device="cpu").notes
    assert any("vocab.txt has more than" in note for note in notes), notes
