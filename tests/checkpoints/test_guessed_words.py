"""annotated, jadore and labml: what the file says, what is a guess, what an override decides."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.word_checks import usual_heads
from transformer_viz.core.interventions import Intervention, ScalePositions
from transformer_viz.model.positional_encoding import sinusoidal_table

from . import annotated, jadore, labml
from .opening import opens, refused
from .test_layouts import save

CLOSED = "a pickle that could run code and is never opened"


def words(origin: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, origin)


def test_annotated_files_leave_heads_and_ids_to_be_guessed(tmp_path):
    path = save(tmp_path, annotated.state())
    model = opens(path, ids=(2, 0, 1), layout="annotated_transformer", kind="encoder-decoder",
                  max_tokens=annotated.P,
                  guesses=("heads", "d_k", "d_v", "pad_id", "bos_id", "eos_id"), heads=5,
                  origin={"norm_kind": "layout", "d_ff": "shapes"})  # fmt: skip
    assert [note.partition(":")[0] for note in model.notes] == [
        f"Its vocabulary is kept apart, in vocab.pt, {CLOSED}",
        "heads=5 is a guess, the usual choice",
    ]
    origin = words("override", "heads", "pad_id") | {"d_k": "shapes"}
    opens(path, {"heads": 3, "pad_id": 0}, d_k=5, origin=origin)
    assert [usual_heads(width) for width in (512, 768, 64, 100, 15, 7)] == [8, 12, 1, 5, 5, 7]


def test_tables_that_are_one_matrix_stay_one(tmp_path):
    source, target, output = (
        f"{name}.weight" for name in ("src_embed.0.lut", "tgt_embed.0.lut", "generator.proj")
    )
    for tied, (shared, apart) in {
        "none": ((), 0),
        "embeddings": ((source,), 1),
        "output": ((output,), 1),
        "all": ((source, output), 2),
    }.items():
        held = annotated.state()
        held[source] = torch.cat((held[source], torch.ones(4, 15)))
        held |= dict.fromkeys(shared, held[target])
        # every tensor once, and the two position tables are no parameters
        whole = sum(v.numel() for name, v in held.items() if not name.endswith(".pe"))
        count = whole - apart * held[target].numel()
        opens(save(tmp_path, held), parameters=count, tied=tied, origin={"tied": "file"})


def test_a_sentencepiece_model_beside_the_weights_reads_text(tmp_path, make_vocabulary):
    held = annotated.state()
    wide = torch.linspace(-1, 1, 331 * 15).reshape(331, 15)
    for name in ("src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight"):
        held[name] = wide + len(name) / 50
    held["generator.proj.bias"] = torch.zeros(331)
    path, heads = save(tmp_path, held), {"heads": 5}
    (tmp_path / "bpe.model").write_bytes(make_vocabulary())
    model = opens(
        path, heads, bos_id=2, eos_id=3, notes=(), origin=words("sidecar", "bos_id", "eos_id")
    )
    assert model.tokenizer.decode(model.tokenizer.source_ids("The tired cat.")) == "The tired cat."
    (tmp_path / "other.model").write_bytes(make_vocabulary())
    opens(path, heads, bos_id=0)  # which of the two is not clear
    (tmp_path / "vocabulary.model").write_bytes(make_vocabulary(vocab_size=341))
    refused(path, r"vocabulary\.model has 341 pieces, .* knows 331", **heads)


POST = {"norm": "post"}  # leaves nothing of a file of 2020 to be guessed


def settings(version: str, **changes: Any) -> dict[str, Any]:
    """Return a file with other settings."""
    held = jadore.content(version, False, False)
    vars(held["settings"]).update(changes)
    return held


def test_the_version_of_jadore_is_read_from_names_and_settings(tmp_path):
    origin = words("file", "heads", "pad_id", "tied", "norm", "embedding_scale")
    origin |= words("shapes", "d_model", "d_k", "d_v", "d_ff", "max_positions")
    origin |= words("layout", "norm_eps", "mask_fill")
    path = save(tmp_path, jadore.content("2020", True, True, "emb"), "model.chkpt")
    model = opens(path, ids=(1, 2, 3),
                  layout="jadore_2020", name="model", kind="encoder-decoder", max_tokens=jadore.P,
                  guesses=("bos_id", "eos_id"), heads=3, d_k=5, d_v=7, tied="all", encoder_layers=2,
                  decoder_layers=3, max_positions=29, logit_scale=1,
                  origin=origin)  # fmt: skip
    assert model.config["embedding_scale"] == pytest.approx(jadore.D**0.5)
    old = opens(save(tmp_path, jadore.content("2018", False, True)), layout="jadore_2018",
                max_tokens=jadore.P - 1, guesses=())  # fmt: skip
    assert old.config["logit_scale"] == pytest.approx(jadore.D**-0.5)


def test_what_2019_and_2020_share_is_a_guess_that_an_override_settles(tmp_path):
    path = save(tmp_path, jadore.content("2019", False, True))
    given = jadore.inputs(1)["padding"]
    expected = {
        f"jadore_{version}": jadore.witness(version, torch.load(path, weights_only=False), *given)
        for version in ("2019", "2020")
    }
    one, other = (logits for _, logits in expected.values())
    assert not torch.allclose(one, other, atol=0.1)
    for layout, origin, override in (
        ("jadore_2020", "convention", {}),
        ("jadore_2020", "override", {"norm": "post"}),
        ("jadore_2019", "override", {"norm": "query_only"}),
        ("jadore_2019", "layout", {"layout": "jadore_2019"}),
        ("jadore_2020", "override", {"layout": "jadore_2019", "norm": "post"}),
    ):
        model = opens(path, override, layout=layout, origin={"norm": origin})
        guessed = any("norm=post is a guess" in note for note in model.notes)
        assert guessed == (origin == "convention") == ("final_norm" in model.guesses), override
        logits = expected[layout][1].float()
        torch.testing.assert_close(model.calls.forward(*given), logits, atol=2e-5, rtol=0)


def test_weights_of_jadore_without_settings(tmp_path):
    path = save(tmp_path, jadore.content("2020", False, True)["model"])
    model = opens(
        path, POST, heads=3, tied="output", origin={"heads": "convention", "tied": "file"}
    )
    assert {"heads", "d_k", "d_v"} <= set(model.guesses)
    for text in ("heads=3 is a guess", CLOSED):
        assert any(text in note for note in model.notes), text
    (tmp_path / "config.json").write_text('{"heads": 1}')
    opens(path, POST, heads=1, origin={"heads": "sidecar"})
    assert {"norm", "final_norm", "bos_id"} <= set(tv.load(path, device="cpu").guesses)


def test_settings_of_jadore_that_contradict_the_weights(tmp_path):
    for changes, message in (
        ({"trg_pad_idx": "1"}, "pad_id needs a whole number from 0; got '1'"),
        (
            {"proj_share_weight": True},
            r"trg_word_prj\.weight.* two different matrices; override ti",
        ),
        ({"embs_share_weight": True}, "source_vocab=19 and"),
    ):
        refused(save(tmp_path, settings("2020", **changes)), message, **POST)
    for version, stated, origin in (
        ("2020", 4, "convention"),
        ("2020", 0, "convention"),
        ("2018", "3", "file"),
    ):
        path = save(tmp_path, settings(version, n_head=stated))
        override = POST if version == "2020" else {}
        model = opens(path, override, heads=3, origin={"heads": origin})
        noted = "settings.n_head=4 is stated, but does not divide the 3 rows" in str(model.notes)
        assert noted == (stated == 4), model.notes


def test_position_tables_of_jadore(tmp_path):
    ids = torch.tensor([[4, 9, 6]]), torch.tensor([[2, 17]])
    for version in ("2018", "2019", "2020"):
        held = jadore.content(version, False, False)
        model = tv.load(save(tmp_path, held), device="cpu", layout=f"jadore_{version}")
        first = 1 if version == "2018" else 0
        table = sinusoidal_table(9, jadore.D)[first : first + 3].numpy()
        trace = partial(tv.trace, model, [4, 9, 6], [2, 17], check=False)
        found = trace().positions["table.encoder"]
        assert abs(found - table).max() < 1e-6, version
        without = trace(intervention=Intervention((ScalePositions(value=0.0),))).logits
        for name in held["model"]:
            if "position_enc" in name:
                held["model"][name] = torch.zeros_like(held["model"][name])
        _, logits = jadore.witness(version, held, *ids)
        assert abs(without - logits[0].numpy()).max() < 2e-5, version


def test_half_precision_is_computed_in_float32(tmp_path):
    held = jadore.content("2020", False, False, "prj")
    halves = {name: value.half() for name, value in held["model"].items()}
    path = save(tmp_path, held | {"model": halves})
    model = opens(path, file_dtype="float16", dtype="float32")
    rounded = held | {"model": {name: value.float() for name, value in halves.items()}}
    given = jadore.inputs(1)["padding"]
    logits = jadore.witness("2020", rounded, *given)[1].float()
    torch.testing.assert_close(model.calls.forward(*given), logits, atol=2e-5, rtol=0)


@pytest.mark.slow
def test_an_encoder_decoder_of_labml(tmp_path):
    path = save(tmp_path, labml.state({}))
    model = opens(path, ids=(None, None, None), layout="labml", kind="encoder-decoder",
                  max_tokens=labml.P, guesses=("heads", "d_k", "d_v", "activation"),
                  positions="sinusoidal",
                  origin={"positions": "file", "gated": "shapes", "kind": "shapes"})  # fmt: skip
    with pytest.raises(ValueError, match="names no start token; load it with bos_id="):
        tv.translate(model, [4, 5])
    ids = {"bos_id": 2, "eos_id": 3, "pad_id": 1}
    told = opens(path, ids, **ids)
    assert tv.translate(told, [4, 5], max_tokens=3)[0].ids
    # a table that was learned counts as learned
    count = model.parameters + 2 * labml.P * labml.D
    path = save(tmp_path, labml.state({"positions": "learned"}))
    opens(path, parameters=count, positions="learned")
    # without one nothing limits the length, and nothing is scaled
    path = save(tmp_path, labml.state({"positions": "none"}))
    model = opens(path, max_tokens=None, embedding_scale=1)
    assert tv.trace(model, [4, 5, 6, 9, 7] * 8, [2, 3]).report.status == "green"


def test_one_stack_is_a_gpt_unless_an_override_says_encoder(tmp_path):
    kind = {"kind": "decoder-only"}
    path = save(tmp_path, labml.state(kind))
    model = opens(path, {"heads": labml.H}, **kind, guesses=("activation", "kind"), source_vocab=0,
                  target_vocab=labml.VT)  # fmt: skip
    assert any("say kind='encoder-only' if it is" in note for note in model.notes)
    trace = tv.trace(model, [4, 9, 6], check=False)
    assert not trace.attention("decoder")[..., 0, 1:].any()
    override = {"kind": "encoder-only"}
    masked = opens(path, override, **override, origin={"kind": "override"})
    trace = tv.trace(masked, [4, 9, 6], check=False)
    assert trace.attention("encoder")[..., 0, 1:].all()


def test_a_stack_without_generator_gives_states(tmp_path):
    held = labml.state({"kind": "encoder-only"})
    bare = {name: value for name, value in held.items() if not name.startswith("generator")}
    model = opens(
        save(tmp_path, bare), kind="encoder-only", gives="vectors", origin={"kind": "shapes"}
    )
    assert model.calls.forward(torch.tensor([[4, 9, 6]])).shape == (1, 3, labml.D)


def test_biases_that_the_file_does_not_hold_are_none(tmp_path):
    variant = {"qk_bias": False, "gated": True, "ffn_bias": False}
    layer = tv.load(save(tmp_path, labml.state(variant)), device="cpu").module.decoder.layers[0]
    for part in (layer.self_attention.query, layer.cross_attention.key, layer.feed_forward.gate):
        assert part.bias is None
    assert layer.self_attention.value.bias is not None
