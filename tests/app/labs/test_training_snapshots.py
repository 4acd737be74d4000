"""The snapshots: how they are measured, what is kept of it, and what the lab makes of that."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import transformer_viz as tv
from tests.support.head_formulas import entropy
from training.evaluate import bleu
from training.snapshots import forced_loss, main, measure, moments
from transformer_viz.app.heads.jobs import measured as head_measures
from transformer_viz.app.labs.experiments.training_snapshots import (
    BOUNDS,
    LEARNING,
    SnapshotResult,
    answer,
    entropies,
)
from transformer_viz.app.labs.measure_curves import GROUPS, lines_of
from transformer_viz.app.labs.snapshots import MODEL, Moment, logged, measured
from transformer_viz.checkpoints.common.bundled import PRETRAINED, SNAPSHOTS
from transformer_viz.metrics.head_measures.registry import MEASURES

PAIRS = [
    ("I love my dog.", "Ich liebe meinen Hund."),
    ("Where is the train station?", "Wo ist der Bahnhof?"),
    ("I love my dog.", "Ich mag meinen Hund."),
]


def test_every_shipped_snapshot_was_measured_and_can_be_opened() -> None:
    how, found = measured()
    assert [m.step for m in found] == [1, 4, 16, 64, 256, 1024, 4096, 16384]
    assert {m.step: m.name for m in found} == moments(PRETRAINED / MODEL)
    assert how["beam"] == 1 and how["sentences"] == 1077 and how["pairs"] == 1345
    assert found[-1].name == MODEL
    # it never unlearns: loss falls with each one, and BLEU never does
    assert np.all(np.diff([m.loss for m in found]) < 0)
    assert np.all(np.diff([m.bleu for m in found]) >= 0)
    steps, losses = logged()  # on other sentences, so not the same number; but near at the end
    assert steps[0] == 500 and steps[-1] == 16384
    assert found[-1].loss == pytest.approx(losses[-1], abs=0.1)


def test_the_loss_is_the_surprise_of_each_forced_piece() -> None:
    """Against `translate(target=...)`, which gives the log-probability of each piece."""
    model = tv.load(MODEL)
    steps = [tv.translate(model, s, target=t)[0].steps for s, t in PAIRS]
    wanted = -sum(map(sum, steps)) / sum(map(len, steps))
    assert forced_loss(model, PAIRS) == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(ValueError, match="no sentence pairs"):
        forced_loss(model, [])


def test_measuring_writes_a_row_for_each_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / MODEL
    folder.mkdir()
    config = json.loads((PRETRAINED / MODEL / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"snapshots": [64]}))
    (folder.parent / "test.tsv").write_text("\n".join("\t".join(pair) for pair in PAIRS) + "\n")
    monkeypatch.setattr("training.snapshots.shelved", lambda name: folder)
    run = CliRunner().invoke(main, [MODEL, "--data", str(tmp_path), "--file", "test.tsv"])
    assert run.exit_code == 0, run.output
    words = json.loads((folder / SNAPSHOTS).read_text())
    last = words["snapshots"][-1]
    assert [row["step"] for row in words["snapshots"]] == [64, 16384]
    assert words["sentences"] == 2 and words["pairs"] == 3
    model = tv.load(MODEL)
    assert last["bleu"] == pytest.approx(bleu(model, PAIRS, beam=1).bleu, abs=0.006)
    assert last["loss"] == pytest.approx(forced_loss(model, PAIRS), abs=6e-5)
    how, found = measured(folder)
    assert how["file"] == "test.tsv" and found[0].name == f"{MODEL}/step-64"
    assert measure(folder, PAIRS, "test.tsv") == words
    monkeypatch.undo()
    run = CliRunner().invoke(main, ["nobody", "--data", str(tmp_path)])
    assert run.exit_code == 2 and "There is no model 'nobody'" in run.output


def test_entropies_are_the_mean_over_the_heads_of_a_map() -> None:
    model = tv.load(f"{MODEL}/step-256")
    trace = tv.trace(model, PAIRS[0][0], check=False)
    found = entropies([trace, trace])
    for name in trace.maps:
        wanted = np.mean([entropy(layer) for layer in trace.attention(name)])
        assert found[name] == pytest.approx([wanted, wanted], rel=1e-4)
    assert found["encoder"][0] < math.log2(len(trace.source))


def test_the_answer_is_the_moment_from_which_on_the_text_stays() -> None:
    steps = (4, 256, 4096, 16384)
    moments = tuple(Moment(step, "", 0, 0) for step in steps)
    for option, texts in enumerate(("aaaa", "abbb", "babb", "bbba")):
        found = SnapshotResult(moments, tuple(texts), {}, np.zeros(4))
        assert found.first.step == steps[option] and answer(found) == option, texts


def test_the_kept_snapshots_decide_between_the_options() -> None:
    """A bound without a snapshot would leave open on which side of it the text settled."""
    kept = {moment.step for moment in measured()[1]}
    for number, bound in enumerate(BOUNDS):
        assert bound in kept
        assert all(f"{bound:,}" in option for option in LEARNING.options[number : number + 2])


@pytest.mark.shipped
def test_the_lines_of_a_head_are_the_measures_of_each_snapshot() -> None:
    """Against `tv.metrics` on the same sentence and translation."""
    source, target = PAIRS[0]
    names = [MODEL + end for end in ("/step-1", "/step-1024", "")]
    tables = [
        head_measures(tv.load(name), ((source, target),), lambda done, of: None).table
        for name in names
    ]
    rows = lines_of(tables, "cross", 2, 1)
    for number, name in enumerate(names):
        model = tv.load(name)
        table = tv.metrics(tv.trace(model, source, target, check=False))
        here = (table["block"] == "cross") & (table["layer"] == 2) & (table["head"] == 1)
        wanted = table[here].iloc[0]
        for column in ("entropy", "sink", "diagonality", "coverage"):
            assert rows[column][number] == pytest.approx(wanted[column], abs=1e-5)
            assert rows[f"{column}_rows"][number] == wanted[f"{column}_rows"]
            assert rows[f"{column}_chance"][number] == pytest.approx(wanted[f"{column}_chance"])
    # Every measure stands in one picture; colours cannot tell more than eight apart.
    shown = [name for _, group in GROUPS.values() for name in group]
    assert sorted(shown) == sorted(column.name for column in MEASURES)
    assert max(len(group) for _, group in GROUPS.values()) <= 8
