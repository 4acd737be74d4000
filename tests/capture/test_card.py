"""A model on a device of its own, on machines without a graphics card: nothing is left behind on
the processor, and nothing is handed to numpy that lies elsewhere (see `tests.support.card`)."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.support import device
from tests.support.paths import ROOT

PROGRAM = """
import torch
from tests.support import device
device.name = "card"
assert device.fits()
from tests.families import test_laws
from tests.families.catalogue import BY_NAME
laws = [law for law in test_laws.LAWS if law.__name__ in {laws}]
assert len(laws) == len({laws})
for name in ("bert-sdpa", "gpt2-eager", "t5-eager", "mixtral-sdpa"):
    family, _, implementation = name.partition("-")
    failed = test_laws.broken(BY_NAME[family], implementation, laws)
    assert not failed, (name, failed)

device.name = "cpu"  # of what is made; some is moved
import numpy as np
import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Temperature, Window
from tests.conftest import make_model

one = {"encoder_layers": 1, "decoder_layers": 1}  # more layers do the same again
for words in (one, {"encoder_layers": 0, "source_vocab": 0}, one | {"norm": "post"}):
    here, there = make_model(**words), make_model(**words).to("card:0")
    assert {str(p.device) for p in there.module.parameters()} == {"card:0"}
    for edits in ((), (Temperature(value=2.0), Window(radius=2))):
        changed = Intervention(edits)
        keep = ("weights", "scores", "qkv", "hidden")
        check = not edits or words is one  # a proof is slow there
        far = tv.trace(there, (5, 9, 4, 7), intervention=changed, keep=keep, check=check)
        near = tv.trace(here, (5, 9, 4, 7), intervention=changed, keep=keep, check=False)
        for name in near.maps:
            assert np.abs(far.attention(name) - near.attention(name)).max() <= 1e-6
        assert np.abs(far.logits - near.logits).max() <= 1e-5
        assert not check or far.report.status == "green"
        assert far.manifest["device"] == "card:0"
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
#: The laws that make no inputs on the processor: captured, edited and cut into tiles.
LAWS = (
    *("captured_attention_is_reported", "attention_is_far_from_uniform"),
    *("watching_changes_nothing", "each_block_is_rebuilt_from_its_weights"),
    *("temperature_is_halved_queries_and_biases", "silenced_head_is_a_zeroed_slice"),
    *("edits_of_the_mask_are_a_mask_by_hand", "temperature_reaches_its_site_and_no_earlier_one"),
    "tiles_are_pieces_of_the_matrix",
)


@pytest.mark.process
def test_every_step_of_a_trace_stays_on_the_models_device() -> None:
    program = PROGRAM.replace("{laws}", repr(LAWS))
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.endswith("done\n"), done.stderr[-3000:]


def test_a_device_that_is_not_here_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "name", "cpu")
    asked = SimpleNamespace(getoption=lambda name: {"--device": "nowhere"}[name])
    with pytest.raises(pytest.UsageError, match="There is no device 'nowhere' here; leave --dev"):
        conftest.pytest_configure(asked)
