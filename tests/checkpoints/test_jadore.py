"""jadore801120's files open as the version of its code that wrote them ran them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.core.interventions import Intervention, ScalePositions
from transformer_viz.model.positional_encoding import sinusoidal_table

from . import jadore

POST = {"2018": {}, "2020": {"norm": "post"}}  # so that nothing is left to be guessed


def save(folder: Path, held: dict[str, Any]) -> Path:
    torch.save(held, folder / "model.chkpt")
    return folder / "model.chkpt"


@pytest.mark.slow
def test_attention_and_logits_are_those_of_the_code():
    assert not [row for row in jadore.rows() if not row.passed]


def test_the_witness_says_what_a_row_that_sees_nothing_becomes():
    for version, pad in (("2018", 0), ("2020", 1)):
        given = jadore.inputs(pad)["fully masked rows"]
        maps, logits = jadore.witness(version, jadore.content(version, False, False), *given)
        if pad:
            assert torch.equal(maps[0][1], torch.full((3, 3, 3), 1 / 3, dtype=torch.float64))
            assert torch.equal(maps[2][1, :, 0], torch.full((3, 4), 0.25, dtype=torch.float64))
        else:
            assert maps[0][1].isnan().all() and logits[1].isnan().all()
            assert not logits[0].isnan().any()


def test_the_version_is_told_by_names_and_settings(tmp_path):
    held = jadore.content("2020", True, True, "emb")
    model = tv.load(save(tmp_path, held), device="cpu")
    assert (model.layout, model.name, model.kind) == ("jadore_2020", "model", "encoder-decoder")
    assert (model.pad_id, model.bos_id, model.eos_id, model.max_tokens) == (1, 2, 3, jadore.P)
    assert model.guesses == ("bos_id", "eos_id")
    words, origin = model.config, model.provenance
    assert {origin[w] for w in ("heads", "pad_id", "tied", "norm", "embedding_scale")} == {"file"}
    assert {origin[w] for w in ("d_model", "d_k", "d_v", "d_ff", "max_positions")} == {"shapes"}
    assert origin["norm_eps"] == origin["mask_fill"] == "layout"
    assert origin.keys() == words.keys()
    assert (words["heads"], words["d_k"], words["d_v"], words["tied"]) == (3, 5, 7, "all")
    assert (words["encoder_layers"], words["decoder_layers"], words["max_positions"]) == (2, 3, 29)
    assert words["embedding_scale"] == pytest.approx(jadore.D**0.5) and words["logit_scale"] == 1
    old = tv.load(save(tmp_path, jadore.content("2018", False, True)), device="cpu")
    assert (old.layout, old.max_tokens, old.guesses) == ("jadore_2018", jadore.P - 1, ())
    assert old.config["logit_scale"] == pytest.approx(jadore.D**-0.5)


def test_what_2019_and_2020_share_is_a_guess_that_the_user_can_make(tmp_path):
    path = save(tmp_path, jadore.content("2019", False, True))
    given = jadore.inputs(1)["padding"]
    expected = {
        version: jadore.witness(version, torch.load(path, weights_only=False), *given)[1].float()
        for version in ("2019", "2020")
    }
    assert not torch.allclose(expected["2019"], expected["2020"], atol=0.1)
    cases = (
        ("jadore_2020", "convention", {}),
        ("jadore_2020", "override", {"norm": "post"}),
        ("jadore_2019", "override", {"norm": "query_only"}),
        ("jadore_2019", "layout", {"layout": "jadore_2019"}),
        ("jadore_2020", "override", {"layout": "jadore_2019", "norm": "post"}),
    )
    for layout, origin, words in cases:
        model = tv.load(path, device="cpu", **words)
        assert (model.layout, model.provenance["norm"]) == (layout, origin)
        guessed = any("norm=post is a guess" in note for note in model.notes)
        assert guessed == (origin == "convention") == ("final_norm" in model.guesses)
        logits = expected[layout.removeprefix("jadore_")]
        torch.testing.assert_close(model.calls.forward(*given), logits, atol=2e-5, rtol=0)


def test_without_settings_the_heads_are_a_guess_and_the_vocabulary_is_said_to_be_closed(tmp_path):
    held = jadore.content("2020", False, True)
    torch.save(held["model"], tmp_path / "weights.pt")
    model = tv.load(tmp_path / "weights.pt", device="cpu", norm="post")
    assert model.config["heads"] == 3 and model.provenance["heads"] == "convention"
    assert {"heads", "d_k", "d_v"} <= set(model.guesses)
    assert any("heads=3 is a guess" in note for note in model.notes)
    assert any("a pickle that could run code and is never opened" in note for note in model.notes)
    assert model.config["tied"] == "output" and model.provenance["tied"] == "file"
    (tmp_path / "config.json").write_text('{"heads": 1}')
    beside = tv.load(tmp_path / "weights.pt", device="cpu", norm="post")
    assert (beside.config["heads"], beside.provenance["heads"]) == (1, "sidecar")
    both = tv.load(tmp_path / "weights.pt", device="cpu")
    assert {"norm", "final_norm", "bos_id"} <= set(both.guesses)


def changed(version: str, name: str, value: Any) -> dict[str, Any]:
    """A file with one weight, or one of the settings, replaced; None takes it out."""
    held = jadore.content(version, False, False)
    if "." not in name:
        setattr(held["settings"], name, value)
    elif value is None:
        del held["model"][name]
    else:
        held["model"][name] = value
    return held


FC = "encoder.layer_stack.1.slf_attn.fc"
BAD = {
    "missing": (("2020", f"{FC}.weight", None), rf"lacks the weight {FC}\.weight\. Missing"),
    "unknown": (
        ("2018", f"{FC}.waight", torch.zeros(2)),
        rf"has a weight {FC}\.waight that this model does not know",
    ),
    "shape": (
        ("2020", f"{FC}.weight", torch.zeros(14, 20)),
        rf"{FC}\.weight is \[14, 20\] in model\.chkpt, .* \[14, 21\]",
    ),
    "axes": (
        ("2020", "encoder.position_enc.pos_table", torch.zeros(29, 14)),
        r"encoder\.position_enc\.pos_table is \[29, 14\] in model\.chkpt; this layout has 3 axes",
    ),
    "measure": (
        ("2018", "encoder.src_word_emb.weight", None),
        r"lacks the weight encoder\.src_word_emb\.weight",
    ),
    "nan": (
        ("2020", f"{FC}.weight", torch.full((14, 21), torch.nan)),
        rf"{FC}\.weight in model\.chkpt has 294 values that are NaN",
    ),
    "padding": (("2020", "trg_pad_idx", "1"), "pad_id needs a whole number from 0; got '1'"),
    "a tie that is none": (
        ("2020", "proj_share_weight", True),
        r"trg_word_prj\.weight.* two different matrices; override tied=",
    ),
    "sizes that cannot be tied": (("2020", "embs_share_weight", True), "source_vocab=19 and"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_fit_are_told_in_their_own_names(case, tmp_path):
    (version, name, value), message = BAD[case]
    with pytest.raises(CheckpointError, match=message):
        tv.load(save(tmp_path, changed(version, name, value)), device="cpu", **POST[version])


def test_heads_that_the_shapes_contradict_are_a_note_and_those_written_as_text_are_read(tmp_path):
    for version, stated, heads, origin in (
        ("2020", 4, 3, "convention"),
        ("2020", 0, 3, "convention"),
        ("2018", "3", 3, "file"),
    ):
        path = save(tmp_path, changed(version, "n_head", stated))
        model = tv.load(path, device="cpu", **POST[version])
        found = (model.config["heads"], model.provenance["heads"])
        assert found == (heads, origin), (version, stated)
        noted = "settings.n_head=4 is stated, but does not divide the 3 rows" in str(model.notes)
        assert noted == (stated == 4), model.notes


def test_a_word_that_the_layout_does_not_have_is_refused(tmp_path):
    path = save(tmp_path, jadore.content("2020", False, False))
    for words in ({}, {"layout": "jadore_2019"}, {"layout": "jadore_2018"}):
        with pytest.raises(CheckpointError, match="no word 'hedas' to override; known are d_model"):
            tv.load(path, hedas=3, **words)


def test_words_that_the_version_does_not_leave_open_are_refused(tmp_path):
    path = save(tmp_path, jadore.content("2018", False, False))
    for words in ({"norm": "pre"}, {"positions": "none"}, {"final_norm": True}):
        with pytest.raises(CheckpointError, match=f"no word '{next(iter(words))}' to override"):
            tv.load(path, device="cpu", **words)
    path = save(tmp_path, jadore.content("2020", False, False, "prj"))
    for words in ({"positions": "none"}, {"embedding_norm": False}):
        with pytest.raises(
            CheckpointError, match=r"has a weight encoder\..* that this model does not"
        ):
            tv.load(path, device="cpu", **words)


@pytest.mark.parametrize("version", ["2018", "2019", "2020"])
def test_a_trace_is_proved_and_finds_the_positions(version, tmp_path):
    path = save(tmp_path, jadore.content(version, False, False))
    model = tv.load(path, device="cpu", layout=f"jadore_{version}")
    trace = tv.trace(model, [4, 9, 6], [2, 17])
    assert trace.report.status == "green"
    first = 1 if version == "2018" else 0
    table = sinusoidal_table(9, jadore.D)[first : first + 3].numpy()
    assert abs(trace.positions["table.encoder"] - table).max() < 1e-6
    still = Intervention((ScalePositions(value=0.0),))
    without = tv.trace(model, [4, 9, 6], [2, 17], intervention=still).logits
    held = jadore.content(version, False, False)
    for name in held["model"]:
        if "position_enc" in name:
            held["model"][name] = torch.zeros_like(held["model"][name])
    _, logits = jadore.witness(version, held, torch.tensor([[4, 9, 6]]), torch.tensor([[2, 17]]))
    assert abs(without - logits[0].numpy()).max() < 2e-5


@pytest.mark.parametrize("version", ["2018", "2020"])
def test_greedy_words_are_those_of_the_witness(version, tmp_path):
    held = jadore.content(version, False, False)
    model = tv.load(save(tmp_path, held), device="cpu", **POST[version])
    source, said = torch.tensor([[4, 9, 6]]), [2]
    for _ in range(5):
        logits = jadore.witness(version, held, source, torch.tensor([said]))[1]
        said.append(int(logits[0, -1].argmax()))
        if said[-1] == 3:
            break
    assert tv.translate(model, [4, 9, 6], max_tokens=5)[0].ids == tuple(said[1:])


def test_half_precision_is_computed_in_float32(tmp_path):
    held = jadore.content("2020", False, False, "prj")
    halves = {name: value.half() for name, value in held["model"].items()}
    model = tv.load(save(tmp_path, held | {"model": halves}), device="cpu")
    assert (model.file_dtype, model.dtype) == ("float16", "float32")
    rounded = held | {"model": {name: value.float() for name, value in halves.items()}}
    given = jadore.inputs(1)["padding"]
    logits = jadore.witness("2020", rounded, *given)[1].float()
    torch.testing.assert_close(model.calls.forward(*given), logits, atol=2e-5, rtol=0)
