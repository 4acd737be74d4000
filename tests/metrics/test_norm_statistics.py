"""Numbers about norms: against the modules' own vectors in float64, and laws, and sums by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.core.interventions import Edit, Intervention, Pad, ScaleHead
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_file import save_trace
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.residual.norm_labels import norm_labels
from transformer_viz.metrics.residual.norm_statistics import (
    STATISTICS,
    describe_norm_change,
    find_statistic,
    norm_change,
    norm_sites,
    norm_statistic,
    norm_table,
)
from transformer_viz.metrics.residual.outliers import (
    outstanding_dimensions,
    outstanding_gains,
    outstanding_tokens,
)
from transformer_viz.metrics.residual.residual_stream import stream_lengths
from transformer_viz.views import norm_map

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
STACKS = ("encoder", "decoder")
PRE = ("L0 before self-attention", "L0 before cross-attention", "L0 before feed-forward")
POST = ("L0 after self-attention", "L0 after cross-attention", "L0 after feed-forward")
LABELS = {"pre": PRE, "query_only": PRE, "post": POST}
END = "after the last layer"


@pytest.fixture(scope="module")
def plain(tiny_model) -> Trace:
    return trace(tiny_model, SOURCE, TARGET, keep=("weights", "hidden"), check=False)


def run_model(model, *edits: Edit) -> Trace:
    return trace(model, SOURCE, TARGET, intervention=Intervention(edits), check=False)


def record_with_hooks(model) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what each norm gets and gives without any probe, float64 ``[token, d_model]``."""
    caught = {}

    def note(name):
        def catch(_, args, out):
            caught[name] = tuple(x[0].double().numpy() for x in (args[0], out))

        return catch

    parts = [(n, m) for n, m in model.module.named_modules() if n.endswith("norm")]
    handles = [part.register_forward_hook(note(name)) for name, part in parts]
    with torch.no_grad():
        model.module(torch.tensor([SOURCE]), torch.tensor([TARGET]))
    for handle in handles:
        handle.remove()
    return caught


def by_formula(name: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    v = out if name.startswith("output") else x
    return {
        "mean": v.mean(1),
        "std": v.std(1),
        "rms": np.sqrt((v**2).mean(1)),
        "norm": np.sqrt((v**2).sum(1)),
    }[name.rpartition("_")[2]]


def test_every_statistic_is_that_of_the_modules_own_vectors():
    for case in product(LABELS, ("layer", "annotated", "rms")):
        model = make_model(norm=case[0], norm_kind=case[1], embedding_norm=True)
        caught, run = record_with_hooks(model), run_model(model)
        for stack, statistic in product(STACKS, STATISTICS):
            sites, numbers = norm_statistic(run, statistic.name, stack)
            assert list(sites) == [name for name in caught if name.startswith(stack)], case
            expected = np.stack([by_formula(statistic.name, *caught[site]) for site in sites])
            said = f"{case}, {stack}, {statistic.name}"
            np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=1e-5, err_msg=said)


def test_the_hidden_states_are_what_the_norms_get_and_give(plain):
    """A pre-norm model: each self-attention's norm reads the stream, the last norm gives it."""
    for stack, layers in (("encoder", 3), ("decoder", 2)):
        hidden = plain.hidden(stack).astype(np.float64)
        sites, lengths = norm_statistic(plain, "input_norm", stack)
        given = norm_statistic(plain, "output_mean", stack)[1]
        for layer in range(layers):
            row = lengths[sites.index(f"{stack}.layers.{layer}.self_norm")]
            np.testing.assert_allclose(row, np.linalg.norm(hidden[layer], axis=1), rtol=1e-5)
        np.testing.assert_allclose(given[-1], hidden[-1].mean(axis=1), atol=1e-6)
    # the stream is named and measured step by step
    labels, lengths = stream_lengths(plain, "decoder")
    assert labels[:4] == ("embedding", *POST)
    assert lengths.shape == (1 + 2 * 3, 5)
    for step, layer in ((0, 0), (3, 1)):
        np.testing.assert_allclose(lengths[step], np.linalg.norm(hidden[layer], axis=1), rtol=1e-5)
    # a stack that runs a layer twice numbers its steps
    twice = pd.concat([plain.residuals, plain.residuals], ignore_index=True)
    labels, lengths = stream_lengths(replace(plain, residuals=twice), "encoder")
    assert len(set(labels)) == len(labels) == len(lengths) == 14
    assert labels[8] == "L0 after self-attention (2)"


def test_labels_say_where_a_norm_stands(plain):
    for norm, labels in LABELS.items():
        model = make_model(norm=norm, embedding_norm=True)
        for edits in ((), (ScaleHead(value=0.0),)):  # a silenced sub-layer still has its bias
            run = run_model(model, *edits)
            found = norm_labels(run, norm_sites(run, "decoder"))
            assert found[:4] == ("after the embedding", *labels) and found[-1] == END, norm
            assert len(found) == 8
        if norm == "query_only":
            continue
        model = make_model(norm=norm)
        with torch.no_grad():  # a sub-layer that adds nothing leaves the labels alone
            for name, parameter in model.module.named_parameters():
                if "layers.0.self_attention" in name:
                    parameter.zero_()
        run = run_model(model)
        assert norm_labels(run, norm_sites(run, "decoder"))[:3] == labels, norm
    names = ("model.layers.0.input_layernorm", "encoder.norm (2)", "encoder.layers.9.self_norm")
    assert norm_labels(plain, names) == (names[0], f"{END} (2)", "L9 before self-attention")
    one = plain.norms.iloc[:1].assign(site="pooler.norm", stack="encoder")  # of something else
    more = replace(plain, norms=pd.concat([plain.norms, one], ignore_index=True))
    assert norm_sites(more, "encoder") == norm_sites(plain, "encoder")


@pytest.mark.slow
def test_heads_that_are_off_move_no_norm():
    """Without biases a silenced attention adds nothing: its own lengths tell no place."""
    every_head = (
        ScaleHead(value=0.0, block="self", layer=0),
        ScaleHead(value=0.0, block="self"),
        ScaleHead(value=0.0),
    )
    for norm in LABELS:
        model = make_model(norm=norm, attention_bias=False)
        clean, when = run_model(model), "after" if norm == "post" else "before"
        for number, off in enumerate(every_head):
            changed = run_model(model, off)
            for stack in STACKS:
                case, sites = (norm, number, stack), norm_sites(clean, stack)
                labels = norm_labels(clean, sites)
                assert all(f" {when} " in label for label in labels[:-1]), case
                assert norm_labels(changed, sites) == labels, case
                assert tuple(norm_table(changed, stack)["place"].unique()) == labels, case
                shown = norm_map(changed, "rms", stack, before=clean).layout.yaxis.ticktext
                assert tuple(shown) == labels, case
                said = describe_norm_change(clean, changed, "rms", stack)
                assert any(f"({label})" in said for label in labels), case


def test_two_runs_are_named_after_the_first(plain):
    """Lengths that are lost in the second run leave the first one to tell."""
    numb = replace(plain, norms=plain.norms.assign(input_norm=np.nan, rms=plain.norms["rms"] + 1))
    post = replace(plain, norms=plain.norms.copy())
    sites = norm_sites(plain, "encoder")
    ending = [s for s in sites if s.endswith("_norm")]
    sums = stream_lengths(plain, "encoder")[1][1:]
    for site, length in zip(ending, sums, strict=True):  # as if each norm saw its sub-layer's sum
        post.norms.loc[post.norms["site"] == site, "input_norm"] = length
    assert norm_labels(post, sites)[0] == POST[0] and norm_labels(numb, sites)[0] == PRE[0]
    shown = norm_map(numb, "rms", "encoder", before=post).layout.yaxis.ticktext
    assert tuple(shown) == norm_labels(post, sites)
    assert " after " in describe_norm_change(post, numb, "rms", "encoder")


def lengths_by_hand(run: Trace, *rows: tuple[int, str, float, float]) -> Trace:
    """The run with norms and sums of the decoder by hand: layer, part, length seen, of the sum."""
    words = pd.DataFrame({"token": np.arange(len(TARGET))})
    seen_by, sums = [], [{"layer": 0, "place": "embedding", "norm": 1.0}]
    for layer, part, seen, length in rows:
        site = f"decoder.layers.{layer}.{part}_norm"
        seen_by.append({"site": site, "stack": "decoder", "layer": layer, "input_norm": seen})
        sums.append({"layer": layer, "place": part, "norm": length})
    norms, residuals = (pd.DataFrame(one).merge(words, "cross") for one in (seen_by, sums))
    return replace(run, norms=norms, residuals=residuals.assign(stack="decoder"))


def test_a_norm_that_tells_nothing_follows_its_nearest_kin(plain):
    rows = [
        (0, "self", 1.0, 1.0),  # adds nothing
        (0, "cross", 1.0, 1.0),  # adds nothing
        (0, "feed_forward", 1.0, 2.0),  # sees what entered: before
        (1, "self", 3.0, 3.0),  # sees the sum: after
        (1, "cross", 3.0, 4.0),  # before
        (1, "feed_forward", 4.0, 5.0),  # before
    ]
    run = lengths_by_hand(plain, *rows)
    sites = tuple(dict.fromkeys(run.norms["site"]))
    # By kind, self-attention's norms stand after, cross-attention's before.
    assert norm_labels(run, sites)[:3] == (POST[0], PRE[1], PRE[2])
    assert norm_labels(run, sites)[3] == "L1 after self-attention"
    # Without kin of its kind the most of its stack decide.
    few = lengths_by_hand(plain, *rows[:3])
    assert norm_labels(few, sites[:3]) == PRE
    after = lengths_by_hand(plain, *rows[:2], (0, "feed_forward", 2.0, 2.0))
    assert norm_labels(after, sites[:3]) == POST
    # Where no length tells anything, it is said to stand before.
    none = lengths_by_hand(plain, *rows[:2])
    assert norm_labels(none, sites[:3]) == PRE
    assert norm_labels(replace(none, norms=pd.DataFrame()), sites[:3]) == PRE


def test_without_a_gain_the_width_is_told_by_length_and_rms(plain):
    bare = replace(plain, gains={})
    for name in ("output_std", "output_rms"):
        numbers = (norm_statistic(run, name, "encoder")[1] for run in (bare, plain))
        np.testing.assert_array_equal(*numbers)
    numbers = ["mean", "std", "rms", "input_norm", "output_norm", "output_mean"]
    empty, lost = (
        replace(bare, norms=plain.norms.assign(**dict.fromkeys(numbers, value)))
        for value in (0.0, np.nan)
    )
    assert not norm_statistic(empty, "output_std", "encoder")[1].any()
    assert np.isnan(norm_statistic(lost, "output_std", "encoder")[1]).all()


def test_the_table_holds_every_number_with_its_word(plain):
    table = norm_table(plain, "decoder")
    sites, lengths = norm_statistic(plain, "input_norm", "decoder")
    assert len(table) == lengths.size and not table.isna().any(axis=None)
    row = table[(table["site"] == sites[2]) & (table["token"] == 3)].iloc[0]
    assert row["input_norm"] == lengths[2, 3]
    assert row["word"] == plain.target.labels[3] and row["place"] == PRE[2]
    assert plain.words_of("encoder") is plain.source and plain.words_of("decoder") is plain.target
    assert replace(plain, target=None).words_of("decoder") is plain.source


def test_a_run_stored_before_the_mean_was_kept_still_opens(plain, tmp_path):
    old = replace(plain, norms=plain.norms.drop(columns="output_mean"))
    save_trace(old, tmp_path / "old.safetensors")
    read = Trace.load(tmp_path / "old.safetensors")
    assert "output_mean" not in read.norms
    numbers = (norm_statistic(run, "output_rms", "encoder")[1] for run in (read, plain))
    np.testing.assert_array_equal(*numbers)
    for name in ("output_mean", "output_std"):
        refuses("run the sentence again", norm_statistic, read, name, "encoder", error=LookupError)
    assert {"output_mean", "output_std"}.isdisjoint(norm_table(read, "encoder"))


def test_what_is_not_there_is_named(plain):
    bare = replace(plain, norms=pd.DataFrame(), hiddens={})
    for match, call, *given in (
        ("no norm statistic 'variance'; there are mean, std", find_statistic, "variance"),
        (
            r"no norms over .* 'cross'; it has norms in encoder, d",
            *(norm_statistic, plain, "mean", "cross"),
        ),
        ("it has norms in no stack", norm_sites, bare, "encoder"),
        (r"no norm 'x'; it has encoder\.layers\.0", outstanding_gains, plain, "x"),
        ('keep=\\("hidden",\\)', outstanding_dimensions, bare, "encoder"),
        ("no residual stream in 'cross'; it has one in encoder", *(stream_lengths, plain, "cross")),
    ):
        refuses(match, call, *given, error=LookupError)


def test_an_edit_is_seen_from_the_place_where_it_acts(tiny_model, plain):
    off = run_model(
        tiny_model, ScaleHead(value=0.0, stack="encoder", block="self", layer=1, head=0)
    )
    sites, change = norm_change(plain, off, "input_norm", "encoder")
    first = sites.index("encoder.layers.1.feed_forward_norm")
    assert not change[:first].any() and change[first:].all()
    now, was = (norm_statistic(run, "input_norm", "encoder")[1] for run in (off, plain))
    np.testing.assert_array_equal(change, now - was)
    site, token = np.unravel_index(np.abs(change).argmax(), change.shape)
    said = describe_norm_change(plain, off, "input_norm", "encoder")
    assert f"“{plain.source.labels[token]}”" in said
    assert f"{was[site, token]:.3g} → {now[site, token]:.3g}" in said
    assert "nothing changed" in describe_norm_change(plain, plain, "input_norm", "encoder")
    lost = replace(plain, norms=plain.norms.assign(input_norm=np.nan))
    assert "share no number" in describe_norm_change(plain, lost, "input_norm", "encoder")
    # appended padding has no change, and other words have no difference
    padded = run_model(tiny_model, Pad(count=2, masked=True))
    change = norm_change(plain, padded, "rms", "encoder")[1]
    assert np.isnan(change[:, 7:]).all() and not np.isnan(change[:, :7]).any()
    assert np.abs(change[:, :7]).max() < 1e-5
    other = trace(tiny_model, [*SOURCE[:-2], 12, 3], TARGET, check=False)
    fewer = replace(plain, norms=plain.norms[plain.norms["layer"] != 0])
    few = r"different norms in 'encoder' \(5 and 7\)"
    for before, match in ((other, "different words"), (padded, "different words"), (fewer, few)):
        refuses(match, norm_change, before, plain, "rms", "encoder")


def test_words_far_from_the_median_length_are_named(plain):
    sites = norm_sites(plain, "encoder")
    lengths = {site: np.array([8, 9, 10, 10, 10, 11, 12.0]) for site in sites}
    lengths[sites[1]][6] = 25.0
    lengths[sites[3]][[0, 6]] = [2.0, 70.0]
    norms = plain.norms.copy()
    for site, values in lengths.items():
        norms.loc[norms["site"] == site, "input_norm"] = values.astype(np.float32)
    found = outstanding_tokens(replace(plain, norms=norms), "encoder")
    assert list(found["token"]) == [6, 0]
    assert list(found["ratio"]) == [7.0, 0.2] and list(found["norms"]) == [2, 1]
    assert list(found["site"]) == [sites[3]] * 2
    assert found["sentence"][0] == (
        f"“{plain.source.labels[6]}” has length 70 (L1 before feed-forward), 7 times this "
        "sentence's median 10; it stands out at 2 of 7 norms."
    )
    for value in (0.0, np.nan):
        nothing = replace(plain, norms=norms.assign(input_norm=value))
        assert outstanding_tokens(nothing, "encoder").empty, value


def test_dimensions_far_above_the_usual_size_are_named(plain):
    def outstanding(hidden: np.ndarray) -> pd.DataFrame:
        return outstanding_dimensions(replace(plain, hiddens={"encoder": hidden}), "encoder")

    hidden = np.tile(np.array([1.0, -1.0], np.float32), (4, 7, 11))
    hidden[2, 5, 13] = -300.0
    hidden[1, 0, 4] = 20.0
    hidden[3, 1, 4] = 25.0
    hidden[3, 2, 9] = 19.0
    found = outstanding(hidden)
    assert list(found["dimension"]) == [13, 4]
    assert list(found["value"]) == [-300, 25] and list(found["ratio"]) == [300, 25]
    assert list(found["place"]) == ["entering L2", "leaving the encoder"]
    assert list(found["states"]) == [1, 2] and list(found["token"]) == [5, 1]
    assert "Dimension 13 reaches −300" in found["sentence"][0]
    ordinary = np.random.default_rng(0).normal(size=(4, 7, 2200)).astype(np.float32)
    assert outstanding(ordinary).empty and outstanding(np.zeros_like(hidden)).empty


def test_gains_far_from_the_others_are_named(plain):
    gain = np.array([1.0, 1.1, 0.9, 1.1, 0.9, 1.0, 1.1, 0.9, 3.0, 1.1, 0.9], np.float32)
    bias = np.zeros(11, np.float32)
    bias[3] = -0.5
    gains = {"a": (gain, bias), "b": (gain, None), "c": (np.ones(11, np.float32), None)}
    run = replace(plain, gains=gains)
    found = outstanding_gains(run, "a")
    assert list(found["part"]) == ["gain", "bias"] and list(found["dimension"]) == [8, 3]
    assert found["median"][0] == 1 and found["distance"][0] == pytest.approx(0.1)
    assert "Dimension 8 has gain 3, where half" in found["sentence"][0]
    assert list(outstanding_gains(run, "b")["dimension"]) == [8]
    assert outstanding_gains(run, "c").empty
