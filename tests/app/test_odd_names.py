"""Names from disks, files and links reach a page only in a form that can be written and seen."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import gpt
from tests.checkpoints.test_gpt import LETTERS, meta
from transformer_viz.app.engine import model_names
from transformer_viz.app.engine.model_catalog import Shelf, box
from transformer_viz.app.ui.text_format import spoken
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.bundled import PRETRAINED
from transformer_viz.core.errors import visible, visible_words
from transformer_viz.core.interventions import Intervention
from transformer_viz.inference.inspection import inspect

ODD = "t\ud800\u202e\x1b[2J"
SHOWN = "t\\ud800\\u202e\\x1b[2J"
NAMES = (b"mod\xe8le", b"\xff\xfe", b"a\xe2\x80\xaegpj.exe", b"new\nline", b"\x1b[31mred")


def test_odd_names_of_folders_are_listed_as_escapes_and_open(tmp_path: Path) -> None:
    for name in NAMES:
        shutil.copytree(
            PRETRAINED / "en-de-small", os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
        )
    shelf = Shelf("en-de", str(tmp_path))
    wanted = {visible(os.fsdecode(name)) for name in NAMES}
    assert wanted < set(shelf) and all(text.isprintable() for text in wanted)
    for name in wanted:
        assert shelf[name].label.isprintable() and shelf[name].label.startswith(name)
        model = tv.load(shelf[name].path)
        assert model.name == name
        tv.trace(model, "the cat", check=False).save(tmp_path / "t")
        assert tv.Trace.load(tmp_path / "t").manifest["model"] == name
    first = os.fsdecode(os.fsencode(tmp_path) + b"/" + NAMES[0])
    assert next(iter(box(first, ""))) == visible(os.fsdecode(NAMES[0]))


def test_odd_words_of_files_are_escapes(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(PRETRAINED / "en-de-small", folder)
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(words | {"title": ODD}))
    assert tv.load(folder).title == SHOWN
    letters = ["\ud800", "\u202e", "\x1b", *list(LETTERS)[3:]]
    path, _ = gpt.nanogpt_file(tmp_path)
    (tmp_path / "meta.pkl").write_bytes(meta(letters))
    model = tv.load(path)
    shown = inspect(model).vocabulary
    assert all(piece.isprintable() for piece in shown.sample)
    trace = tv.trace(model, [0, 1, 2, 3], check=False)
    trace.save(tmp_path / "t")
    assert tv.Trace.load(tmp_path / "t").source == trace.source
    state = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True).state_dict()
    torch.save(state | {ODD: torch.ones(3)}, tmp_path / "odd.pt")
    with pytest.raises(CheckpointError) as met:
        tv.load(tmp_path / "odd.pt", heads=2)
    assert str(met.value).isprintable() and "ud800" in str(met.value)


def test_odd_words_of_links_are_refused_or_escapes() -> None:
    for text in (
        r'{"edits":[{"kind":"swap_head","source":"\ud800"}]}',
        r'{"edits":[{"\udfff":1}]}',
    ):
        with pytest.raises(ValueError, match="half a character"):
            Intervention.from_json(text)
    for text in (r'{"a":"\ud800"}', r'{"\uDBFF":1}', '{"a":"\udcff"}'):
        with pytest.raises(ValueError, match="no words of a config"):
            model_names.read_words(text)
    assert model_names.read_words(r'{"a":"\u00e8"}') == {"a": "è"}
    assert spoken(ValueError(f"{ODD}.\nTry again.")) == f"{SHOWN}.\nTry again."
    assert spoken(KeyError("ä 中 🙂 می\u200cخواهم")) == "ä 中 🙂 می\u200cخواهم"
    assert visible_words({ODD: [ODD, (1, None)]}) == {SHOWN: [SHOWN, (1, None)]}
