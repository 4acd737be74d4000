"""`transformer-viz names` and `--names`: from a saved state dict to the maps of its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from tests.checkpoints.own_models import PLANS, Own, attended

from .test_cli import answer, refusal, write_text

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


@pytest.mark.slow
def test_from_a_state_dict_to_its_cross_attention(tmp_path: Path):
    torch.manual_seed(2)
    own = Own(PLANS["the journey: no position buffer, scaled"])
    path, table = tmp_path / "mine.pt", tmp_path / "table.json"
    torch.save(own.state_dict(), path)
    assert "transformer-viz names mine.pt --out names.json" in refusal("inspect", str(path))
    said = answer("names", str(path), "--out", str(table))
    assert "layout torch_tutorial_seq2seq" in said and "by order" not in said
    assert said.splitlines()[-1].endswith(f"inspect {path} --names {table}")
    right = tv.propose_names(path)
    assert json.loads(table.read_text()) == right.names
    assert json.loads(answer("names", str(path), "--json")) == right.to_dict()
    words = ("--names", str(table), "--set", "heads=3", "--set", "pad_id=-1")
    found = json.loads(answer("inspect", str(path), "--json", *words))
    assert found["report"] == "green" and "heads" not in found["guesses"]
    out = tmp_path / "run.safetensors"
    source, target = [4, 9, 2, 16], [2, 7, 11]
    answer(
        *("trace", str(path), "--ids", "4 9 2 16", "--target-ids", "2 7 11"),
        *("--out", str(out), *words),
    )
    with torch.inference_mode(), attended(own) as seen:
        own(torch.tensor([source]), torch.tensor([target]))
    cross = [weights[0].numpy() for name, weights in seen if "multihead_attn" in name]
    assert abs(tv.Trace.load(out).attention("cross", layer=1) - cross[1]).max() < 1e-5
    assert answer("translate", str(path), *words, stdin="4 9 2 16\n").strip()
    page = tmp_path / "report.html"
    answer("report", str(path), "--ids", "4 9 2 16", "--out", str(page), *words)
    assert page.stat().st_size > 10_000


def test_what_does_not_fit_is_said(tmp_path: Path):
    torch.save({"a.weight": torch.zeros(3, 3)}, tmp_path / "mine.pt")
    path, table = str(tmp_path / "mine.pt"), write_text(tmp_path / "list.json", "[1]")
    assert "no names can be proposed" in refusal("names", path)
    assert "There is no file 'nowhere.json'" in refusal("inspect", path, "--names", "nowhere.json")
    assert "expected a JSON object" in refusal("inspect", path, "--names", table)
