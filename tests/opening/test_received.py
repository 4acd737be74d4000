"""The server reads plain files that a process wrote, and nothing else, whatever it hands over."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.checkpoints.hostile.case import Call, saved
from tests.checkpoints.hugging_face import CASES, D
from tests.checkpoints.hugging_face import folder_of as folder_of_library
from tests.checkpoints.test_adapters import Q, adapter, factors
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.loader import discover, recognised
from transformer_viz.opening.handover import ADAPTER, CONFIG, hand_over, taken
from transformer_viz.opening.plain_data import BESIDE, WEIGHTS, decode, read_back
from transformer_viz.opening.received import received

from .conftest import Open

TOLD = {"extra": {}, "unwrapped": [], "order": ["a"]}


def _pickled(folder: Path, _: Path) -> None:
    torch.save({"a": torch.ones(2)}, folder / WEIGHTS)


def _linked_folder(folder: Path, private: Path) -> None:
    os.rmdir(folder)
    os.symlink(private.parent, folder)


LEFT: dict[str, Callable[[Path, Path], Any]] = {
    "nothing": lambda folder, private: None,
    "a link": lambda folder, private: os.symlink(private, folder / WEIGHTS),
    "a link to a link": lambda folder, private: (
        os.symlink(private, folder / "one"),
        os.symlink("one", folder / WEIGHTS),
    ),
    "a second name": lambda folder, private: os.link(private, folder / WEIGHTS),
    "a pipe": lambda folder, private: os.mkfifo(folder / WEIGHTS),
    "a folder": lambda folder, private: (folder / WEIGHTS).mkdir(),
    "a link in place of the folder": _linked_folder,
    "a file of torch.save": _pickled,
    "an empty file": lambda folder, private: (folder / WEIGHTS).touch(),
    "a header without end": lambda folder, private: (folder / WEIGHTS).write_bytes(b"\xff" * 64),
    "a link beside": lambda folder, private: (
        save_file({"a": torch.zeros(2)}, folder / WEIGHTS),
        os.symlink(private, folder / BESIDE),
    ),
}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A file that only the server may read."""
    (tmp_path / "private").mkdir()
    path = tmp_path / "private" / WEIGHTS
    save_file({"a": torch.tensor([42.0, 43.0])}, path)
    return path


def test_only_a_plain_file_of_the_process_is_read(
    private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(torch, "load", lambda *given, **_: read.append(given))
    for number, (name, leave) in enumerate(LEFT.items()):
        folder = tmp_path / f"own{number}"
        folder.mkdir()
        leave(folder, private)
        with pytest.raises(CheckpointError, match=r"w\.pt is incomplete; open it again"):
            read_back(TOLD, folder, Path("w.pt"), False)
            pytest.fail(name)
    assert not read  # and nothing is unpickled


def test_a_file_put_in_place_of_a_checked_one_is_not_read(private: Path, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "mine")
    expected = (tmp_path / "mine").read_bytes()
    with received(tmp_path, "mine") as place:
        (tmp_path / "mine").unlink()
        os.symlink(private, tmp_path / "mine")
        assert place.read_bytes() == expected


def _namespace(*pairs: Any) -> dict[str, Any]:
    return TOLD | {"extra": {"x": {"namespace": list(pairs)}}}


MESSAGES: dict[str, Any] = {
    **{f"a {type(one).__name__}": one for one in (None, [], 1, "x")},
    "no words": {},
    "a name for a list": TOLD | {"order": "a"},
    "a name twice": TOLD | {"order": ["a", "a"]},
    "a number for a list": TOLD | {"unwrapped": 3},
    "a list for a table": TOLD | {"names": [["a", "b"]]},
    "a list for words": TOLD | {"extra": [1]},
    "self": _namespace(["self", 1]),
    "__class__": _namespace(["__class__", 1]),
    "__dict__": _namespace(["__dict__", 1]),
    "a key that is a list of tables": _namespace([{"tuple": [{"list": [1]}]}, 1], [[], 2]),
    "a table as a key": TOLD | {"extra": {"x": {"dict": [[{"dict": []}, {"dict": [[0]]}]]}}},
    "a number without end": TOLD | {"extra": {"x": 10**400}},
    "a tensor that is none": TOLD | {"extra": {"x": {"tensor": ["a"]}}},
    "a float of a list": TOLD | {"extra": {"x": {"float": ["nan"]}}},
}


@pytest.mark.slow
def test_a_file_whose_code_fills_the_disk_is_refused_in_a_sentence(
    tmp_path: Path, unguarded: Open, left: Callable[[], list[str]]
) -> None:
    code = "n = 0\nwhile True:\n    n += 1\n    open(str(n), 'w').close()"
    path = saved({"a": Call(exec, code)})(tmp_path, tmp_path / "canary")
    with pytest.raises(CheckpointError, match="left more than 2000 MB or 10000 files on the"):
        unguarded(path, device="cpu")
    assert not left()


def test_any_message_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / WEIGHTS)
    for name, message in MESSAGES.items():
        try:
            found = read_back(message, tmp_path, Path("w.pt"), False)
        except CheckpointError as error:
            assert "w.pt is incomplete" in str(error), name
            continue
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}")
        assert list(found.tensors) == ["a"], name
    assert vars(decode({"namespace": [["self", 1], ["__class__", 2]]}, {})) == {
        "self": 1,
        "__class__": 2,
    }
    assert decode(10**400, {}) is None


def test_of_an_adapter_nothing_but_config_and_weights_is_taken(
    private: Path, tmp_path: Path
) -> None:
    """Libraries read all that stands in an adapter's folder."""
    base = folder_of_library(CASES["llama"], "safetensors", tmp_path / "llama")
    path = adapter(tmp_path / "tuned", factors(Q, D, D), base_model_name_or_path=str(base))
    weights = path / ADAPTER
    torch.save(dict(factors(Q, D, D)), path / "adapter_model.bin")
    weights.unlink()

    def found() -> Any:
        return discover(path, {})[0]

    own = tmp_path / "own"
    own.mkdir()
    told = hand_over(*recognised(found(), None), own)
    (own / "tuned" / "adapter_model.bin").write_bytes(b"of the process")
    change = taken(found(), told, own)[1].change
    assert change is not None and change.name == "tuned"
    assert sorted(file.name for file in change.path.parent.iterdir()) == sorted([ADAPTER, CONFIG])
    for name in (ADAPTER, CONFIG):
        left = own / "tuned" / name
        kept = left.read_bytes()
        left.unlink()
        os.symlink(private, left)
        with pytest.raises(CheckpointError, match="open it again"):
            taken(found(), told, own)
        left.unlink()
        left.write_bytes(kept)
    assert json.loads((own / "tuned" / CONFIG).read_text())
    os.rename(own / "tuned", tmp_path / "moved")
    os.symlink(tmp_path / "moved", own / "tuned")
    with pytest.raises(CheckpointError, match="open it again"):
        taken(found(), told, own)
    (own / "tuned").unlink()
    os.rename(tmp_path / "moved", own / "tuned")
    assert taken(found(), told | {"remarks": 1, "beside": [1]}, own)[1].change is not None
    for message in ([], {"layout": []}, told | {"unwrapped": 1}):
        with pytest.raises(CheckpointError, match="open it again"):
            taken(found(), message, own)  # type: ignore[arg-type]
