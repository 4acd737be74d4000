"""A model on a device of its own, on machines without a graphics card: nothing is left behind on
the processor, and nothing is handed to numpy that lies elsewhere (see `tests.support.card`)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.process

PROGRAM = """
import torch
from tests.support import device
device.name = "card"
assert device.fits()
device.name = "cpu"  # of what is made; some is moved
import numpy as np
import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Temperature, Window
from tests.conftest import make_model

for words in ({}, {"encoder_layers": 0, "source_vocab": 0}, {"norm": "post"}):
    here, there = make_model(**words), make_model(**words).to("card:0")
    assert {str(p.device) for p in there.module.parameters()} == {"card:0"}
    for edits in ((), (Temperature(value=2.0), Window(radius=2))):
        changed = Intervention(edits)
        keep = ("weights", "scores", "qkv", "hidden")
        one, other = (
            tv.trace(m, (5, 9, 4, 7), intervention=changed, keep=keep) for m in (there, here)
        )
        for name in other.maps:
            assert np.abs(one.attention(name) - other.attention(name)).max() <= 1e-6
        assert np.abs(one.logits - other.logits).max() <= 1e-5
        assert one.report.status == other.report.status == "green"
        assert one.manifest["device"] == "card:0"
    ids = [tv.translate(m, (5, 9, 4, 7), beam=3)[0].ids for m in (there, here)]
    assert ids[0] == ids[1]
    torch.set_default_device("card")  # as many a notebook begins
    tv.trace(there, (5, 9, 4, 7))
    torch.set_default_device(None)

core = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 2, enable_nested_tensor=False
)
core = core.eval().to("card")
x = torch.randn(1, 5, 12).to("card")
with torch.inference_mode(), tv.probe(core) as run:
    core(x)
assert len(run.attentions) == 2
print("done")
"""
FAMILIES = "[bert-sdpa or gpt2-eager or t5-eager or mixtral-sdpa"


def test_every_step_of_a_trace_stays_on_the_models_device() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.endswith("done\n"), done.stderr[-3000:]


def test_families_of_the_library_are_the_same_there() -> None:
    """Captured, edited and cut into tiles: the laws of these families, on the pretended card."""
    tests = [f"tests/families/test_{name}.py" for name in ("capture", "edits", "tiles")]
    command = [sys.executable, "-m", "pytest", "-q", "--device", "card", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-k", FAMILIES, *tests], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_device_that_is_not_here_is_refused_in_a_sentence() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--device", "nowhere", "tests/core"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "There is no device 'nowhere' here; leave --device out." in done.stderr
