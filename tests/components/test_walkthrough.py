"""What Step inside is sent: every number of a chain as it was recorded, and words for all kinds."""

from __future__ import annotations

import re
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from tests.conftest import make_model
from tests.support.component_stage import decoded
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.components.qk import figure
from transformer_viz.components.walkthrough.data import inside_data
from transformer_viz.components.walkthrough.texts import WORDING, variant
from transformer_viz.core.interventions import (
    BlockKeys,
    Intervention,
    ScaleHead,
    ScaleResidual,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import FORMS, OPENS, Number, Stage, Terms, Walkthrough
from transformer_viz.core.trace import Trace
from transformer_viz.i18n import speaking
from transformer_viz.inference.tracing import trace
from transformer_viz.walkthrough import step_inside, terms

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "post": {"norm": "post"},
    "query only": {"norm": "query_only"},
    "rms": {"norm_kind": "rms"},
    "annotated": {"norm_kind": "annotated"},
    "rotary": {"positions": "rotary", "d_k": 6},
    "no positions": {"positions": "none"},
    "general": {"score": "general"},
    "additive": {"score": "additive"},
    "dot": {"score": "dot"},
    "location": {"score": "location"},
    "gated": {"gated": True},
    "no bias": {"attention_bias": False},
    "many heads": {"heads": 19},
    "embedding norm": {"embedding_norm": True, "final_norm": True},
}
EDITS: dict[str, Intervention] = {
    "clean": Intervention(),
    "warm": Intervention((Temperature(value=2.5), ScaleHead(value=0.5))),
    "hard": Intervention((Temperature(value=0.0),)),
    "uniform": Intervention((UniformHead(), ScaleResidual(value=0.25))),
    "window": Intervention((Window(radius=1), BlockKeys(keys=(2,)))),
    "nothing": Intervention((BlockKeys(keys=tuple(range(7))),)),
}
#: Every kind of model as it is, and each once under an edit.
KINDS = [
    *((config, "clean") for config in CONFIGS),
    *zip(CONFIGS, cycle(list(EDITS)[1:])),
]


@cache
def model_of(config: str) -> Model:
    return make_model(**CONFIGS[config])


@cache
def chained(
    block: str = "cross", config: str = "plain", edits: str = "clean"
) -> tuple[Trace, Walkthrough]:
    """A run of a tiny model, and the chain of the third row in its second layer's second head."""
    model, changes = model_of(config), EDITS[edits]
    run = trace(model, SOURCE, TARGET, intervention=changes, check=False)
    site = Site(*MAPS[block], 1, 1)
    return run, step_inside(model, SOURCE, TARGET, site=site, row=2, intervention=changes)


def test_every_array_of_every_stage_is_sent_as_it_was_recorded() -> None:
    for block in MAPS:
        run, chain = chained(block)
        header, arrays = decoded(inside_data(run, chain))
        assert [station["name"] for station in header["stations"]] == [s.name for s in chain]
        for stage in chain:
            for name, array in stage.arrays.items():
                if name in ("layers", "heads"):  # are not drawn
                    continue
                sent = f"{stage.name}/{name}"
                if name == "shares":
                    assert np.array_equal([arrays[f"{sent}/{h}"] for h in range(2)], array)
                else:
                    assert np.array_equal(arrays[sent], array)
        assert np.array_equal(arrays["weights"], run.attention(block, 1)[1, 2])


def test_the_words_are_those_of_the_head() -> None:
    run, chain = chained("cross")
    header, _ = decoded(inside_data(run, chain, step=3, present=True, seq=9))
    assert (header["part"], header["seq"], header["step"]) == ("inside", 9, 3)
    assert header["label"] == "Cross · L1 H1" and header["present"]
    assert header["row"] == run.produced.labels[2] and header["columns"]["labels"] == list(
        run.source.labels
    )
    reads = run.target.labels[2]
    assert header["reads"] == f"reads “{reads}”, writes “{header['row']}”"
    run, chain = chained("encoder")
    header, _ = decoded(inside_data(run, chain))
    assert header["reads"] == "" and header["row"] == run.source.labels[2]


@pytest.mark.parametrize(("config", "edits"), KINDS)
def test_every_kind_of_model_is_told_whole(config: str, edits: str) -> None:
    """No text is left with a hole, each picture has its array, and each address its number."""
    for block in MAPS:
        run, chain = chained(block, config, edits)
        header, arrays = decoded(inside_data(run, chain))
        for station, stage in zip(header["stations"], chain, strict=True):
            assert not re.search(r"[{}]", station["why"]), station["why"]
            assert set(re.findall(r"\{(\w+)\}", station["formula"])) == set(station["symbols"])
            for panel in station["panels"]:
                hold_panel(panel, arrays, chain, stage)
            for fact in station["facts"]:
                assert fact["value"] == figure(stage.numbers[fact["symbol"]])
                assert not fact["open"] or chain.number(fact["open"]).array in OPENS[stage.kind]


def hold_panel(
    panel: dict[str, Any], arrays: dict[str, np.ndarray], chain: Walkthrough, stage: Stage
) -> None:
    if panel["form"] == "vectors":
        assert len({arrays[row["array"]].shape for row in panel["rows"]}) == 1
        for row in panel["rows"]:
            assert not row["open"] or chain.number(row["open"] + "/0").stage == stage.name
        return
    keys = len(panel["words"])
    assert arrays["weights"].shape == (keys,)
    for column in panel["columns"]:
        if column["how"] == "word":
            assert len(panel["said"]) == keys
            continue
        assert arrays[column["array"]].shape[0] == keys
        assert arrays[column["array"]].ndim == (2 if column["how"] == "strip" else 1)
        if column["open"]:
            ending = "/0/0" if column["how"] == "strip" else "/0"
            assert chain.number(column["open"] + ending).stage == stage.name


def test_every_kind_and_variant_has_its_words() -> None:
    assert {name.partition(":")[0] for name in WORDING} == set(FORMS)
    seen = set()
    for config, edits in KINDS:
        for block in MAPS:
            _, chain = chained(block, config, edits)
            seen |= {variant(stage, "bias" in chain["project"].arrays) for stage in chain}
    elsewhere = {"embedding:given", "embedding", "norm:gain", "norm:plain", "below"}
    other_models = {"between", "zeroed"}
    assert set(WORDING) - seen == elsewhere | other_models, set(WORDING) - seen


def test_why_a_key_is_hidden_is_said() -> None:
    run, chain = chained("decoder", edits="window")
    header, arrays = decoded(inside_data(run, chain))
    mask = next(s for s in header["stations"] if s["name"] == "mask.self")
    assert mask["panels"][0]["said"] == [
        "hidden: an edit, too far away",
        "visible",
        "hidden: an edit hides this word",
        "hidden: a later word, not yet written",
        "hidden: a later word, not yet written",
    ]
    assert "Hidden here: 4 of 5." in mask["why"]
    assert arrays["mask.self/seen"].tolist() == [0, 1, 0, 0, 0]


def test_the_totals_of_the_softmax() -> None:
    run, chain = chained("cross")
    header, _ = decoded(inside_data(run, chain))
    softmax = next(s for s in header["stations"] if s["name"] == "softmax.cross")
    totals = {c["symbol"]: c["total"] for c in softmax["panels"][0]["columns"]}
    exponentials = chain["softmax"]["exponentials"].astype(np.float64).sum()
    assert totals == {"x": "", "exponentials": figure(exponentials), "out": "1.0000"}


def test_the_shares_of_the_heads_add_up_to_what_is_below_them() -> None:
    run, chain = chained("cross")
    header, arrays = decoded(inside_data(run, chain))
    panel = next(s for s in header["stations"] if s["name"] == "project.cross")["panels"][1]
    rows = panel["rows"]
    assert [row["sign"] for row in rows] == ["", "+", "+", "="]
    assert [row["own"] for row in rows] == [False, True, False, False]
    total = sum(arrays[row["array"]].astype(np.float64) for row in rows[:-1])
    np.testing.assert_allclose(total, arrays[rows[-1]["array"]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("own", [3, 17])
def test_of_many_heads_the_own_one_stands_there_and_the_others_are_one_row(own: int) -> None:
    model = model_of("many heads")
    run = trace(model, SOURCE, TARGET, check=False)
    chain = step_inside(model, SOURCE, TARGET, site=Site(*MAPS["cross"], 1, own), row=2)
    header, arrays = decoded(inside_data(run, chain))
    panel = next(s for s in header["stations"] if s["name"] == "project.cross")["panels"][1]
    *shares, rest, bias, out = panel["rows"]
    heads = [*range(14), max(own, 14)]
    assert [row["text"] for row in shares] == [f"a_{head}" for head in heads]
    assert [row["text"] for row in shares if row["own"]] == [f"a_{own}"]
    assert [row["sign"] for row in panel["rows"]] == ["", *["+"] * 16, "="]
    assert rest["label"] == "the shares of the other 4 heads together" and not rest["open"]
    left = [head for head in range(19) if head not in heads]
    hand = chain["project.cross"]["shares"][left].astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(arrays[rest["array"]], hand, rtol=1e-6, atol=1e-7)
    total = sum(arrays[row["array"]].astype(np.float64) for row in (*shares, rest, bias))
    np.testing.assert_allclose(total, arrays[out["array"]], rtol=1e-4, atol=1e-5)


def opened(block: str, config: str = "plain") -> list[tuple[dict[str, Any], Terms]]:
    """The sum behind one number of every array that opens."""
    run, chain = chained(block, config)
    found = []
    for stage in chain:
        for name in OPENS[stage.kind]:
            if name not in stage.arrays and name not in stage.numbers:
                continue
            index = (1,) * stage[name].ndim if name in stage.arrays else ()
            made = terms(model_of(config), chain, Number(stage.name, name, index))
            header, arrays = decoded(inside_data(run, chain, terms=made))
            assert np.array_equal(arrays["sum_a"], made.a)
            assert np.array_equal(arrays["sum_b"], made.b)
            found.append((header["sum"], made))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
def test_an_opened_sum_says_what_it_adds(config: str) -> None:
    for block in MAPS:
        for header, made in opened(block, config):
            assert header["address"] == str(made.number) and header["total"] == made.total
            assert bool(header["bName"]) == bool(made.b_name)
            assert header["few"] == (made.axis == "parts")
            assert len(header["labels"]) in (0, len(made.a))
            for name in (header["text"], header["aName"], header["bName"], *header["labels"]):
                assert name not in OPENS  # an array's own name is no symbol


def test_the_names_of_a_sum() -> None:
    found = {header["address"]: header for header, _ in opened("cross")}
    run, _ = chained("cross")
    assert found["qkv.cross/k/1/1"]["whose"] == f"“{run.source.labels[1]}” · dimension 2"
    q, k, out = (found[f"qkv.cross/{name}"] for name in ("q/1", "k/1/1", "v/1/1"))
    assert [(x["aName"], x["bName"]) for x in (q, k, out)] == [
        ("x", "W_q"), ("m_j", "W_k"), ("m_j", "W_v"),
    ]  # fmt: skip
    assert found["project.cross/shares/1/1"]["text"] == "a_1"
    assert found["softmax.cross/total"]["labels"] == list(run.source.labels)
    assert found["norm.cross/spread"]["then"] == "√"


def test_it_speaks_chinese() -> None:
    run, chain = chained("cross")
    with speaking("zh"):
        header, _ = decoded(inside_data(run, chain))
    assert header["stations"][0]["title"] == "词变成数"
    assert all(re.search("[\u4e00-\u9fff]", s["why"]) for s in header["stations"])
