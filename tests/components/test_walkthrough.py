"""What Step inside is sent: every number of a chain as it was recorded, and texts for all kinds."""

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
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import FORMS, OPENS, Number, Stage, Walkthrough
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
    "warm": Intervention((edit.Temperature(value=2.5), edit.ScaleHead(value=0.5))),
    "hard": Intervention((edit.Temperature(value=0.0),)),
    "uniform": Intervention((edit.UniformHead(), edit.ScaleResidual(value=0.25))),
    "window": Intervention((edit.Window(radius=1), edit.BlockKeys(keys=(2,)))),
    "nothing": Intervention((edit.BlockKeys(keys=tuple(range(7))),)),
}
#: Every kind of model as it is, and each once under an edit.
KINDS = [*((config, "clean") for config in CONFIGS), *zip(CONFIGS, cycle(list(EDITS)[1:]))]
#: Whether each kind of model is tried in all blocks, or most of them in one.
EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])


@cache
def model_of(config: str) -> Model:
    return make_model(**CONFIGS[config])


@cache
def traced(config: str, edits: str) -> Trace:
    return trace(model_of(config), SOURCE, TARGET, intervention=EDITS[edits], check=False)


@cache
def chained(
    block: str = "cross", config: str = "plain", edits: str = "clean"
) -> tuple[Trace, Walkthrough]:
    """Return a run of a tiny model and the chain of the third row in head L1 H1."""
    changes, site = EDITS[edits], Site(*MAPS[block], 1, 1)
    model = model_of(config)
    chain = step_inside(model, SOURCE, TARGET, site=site, row=2, intervention=changes)
    return traced(config, edits), chain


def sent(*chosen: str, **words: Any) -> Any:
    """Return the header and arrays of such a chain."""
    return decoded(inside_data(*chained(*chosen), **words))


def station(header: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in header["stations"] if one["name"] == name)
    return found


def test_every_array_of_every_stage_is_sent_as_it_was_recorded() -> None:
    for block in MAPS:
        run, chain = chained(block)
        header, arrays = sent(block)
        assert [station["name"] for station in header["stations"]] == [s.name for s in chain]
        for stage in chain:
            for name, array in stage.arrays.items():
                place = f"{stage.name}/{name}"
                if name == "shares":
                    assert np.array_equal([arrays[f"{place}/{h}"] for h in range(2)], array), place
                elif name not in ("layers", "heads"):  # these are not drawn
                    assert np.array_equal(arrays[place], array), place
        assert np.array_equal(arrays["weights"], run.attention(block, 1)[1, 2]), block


def test_the_texts_are_those_of_the_head() -> None:
    run, chain = chained()
    header, _ = sent(step=3, present=True, seq=9)
    assert (header["part"], header["seq"], header["step"]) == ("inside", 9, 3)
    assert header["label"] == "Cross · L1 H1" and header["present"]
    assert header["columns"]["labels"] == list(run.source.labels)
    assert header["row"] == run.produced.labels[2]
    assert header["reads"] == f"reads “{run.target.labels[2]}”, writes “{header['row']}”"
    columns = station(header, "softmax.cross")["panels"][0]["columns"]
    total = figure(chain["softmax"]["exponentials"].astype(np.float64).sum())
    assert {c["symbol"]: c["total"] for c in columns} == {
        "x": "", "exponentials": total, "out": "1.0000",
    }  # fmt: skip
    with speaking("zh"):
        chinese, _ = sent()
    assert chinese["stations"][0]["title"] == "词变成数"
    assert all(re.search("[\u4e00-\u9fff]", s["why"]) for s in chinese["stations"])
    header, _ = sent("encoder")
    assert header["reads"] == "" and header["row"] == chained("encoder")[0].source.labels[2]


@pytest.mark.slow
@EVERY
def test_every_kind_of_model_is_told_whole(every: bool) -> None:
    """No text is left with a hole, each picture has its array, and each address its number."""
    seen = set()
    for (config, edits), turn in zip(KINDS, cycle(MAPS), strict=False):
        for block in MAPS if every or edits == "clean" else (turn,):
            case = (config, edits, block)
            _, chain = chained(block, config, edits)
            seen |= {variant(stage, "bias" in chain["project"].arrays) for stage in chain}
            header, arrays = sent(block, config, edits)
            for one, stage in zip(header["stations"], chain, strict=True):
                assert not re.search(r"[{}]", one["why"]), (case, one["why"])
                assert set(re.findall(r"\{(\w+)\}", one["formula"])) == set(one["symbols"]), case
                for panel in one["panels"]:
                    hold_panel(panel, arrays, chain, stage)
                for fact in one["facts"]:
                    assert fact["value"] == figure(stage.numbers[fact["symbol"]]), (case, fact)
                    opens = fact["open"] and chain.number(fact["open"]).array
                    assert not opens or opens in OPENS[stage.kind], (case, fact)
    assert {name.partition(":")[0] for name in WORDING} == set(FORMS)
    elsewhere = {"embedding:given", "embedding", "norm:gain", "norm:plain", "below"}
    assert set(WORDING) - seen == elsewhere | {"between", "zeroed"}  # of other models


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
        is_strip = column["how"] == "strip"
        array = arrays[column["array"]]
        assert (array.shape[0], array.ndim) == (keys, 2 if is_strip else 1)
        if column["open"]:
            address = column["open"] + ("/0/0" if is_strip else "/0")
            assert chain.number(address).stage == stage.name


def test_why_a_key_is_hidden_is_said() -> None:
    header, arrays = sent("decoder", "plain", "window")
    mask = station(header, "mask.self")
    later = "hidden: a later word, not yet written"
    far, by_an_edit = "hidden: an edit, too far away", "hidden: an edit hides this word"
    assert mask["panels"][0]["said"] == [far, "visible", by_an_edit, later, later]
    assert "Hidden here: 4 of 5." in mask["why"]
    assert arrays["mask.self/seen"].tolist() == [0, 1, 0, 0, 0]


def test_the_shares_of_the_heads_add_up_to_what_is_below_them() -> None:
    def added(rows: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> None:
        total = sum(arrays[row["array"]].astype(np.float64) for row in rows[:-1])
        np.testing.assert_allclose(total, arrays[rows[-1]["array"]], rtol=1e-4, atol=1e-5)

    header, arrays = sent()
    rows = station(header, "project.cross")["panels"][1]["rows"]
    assert [row["sign"] for row in rows] == ["", "+", "+", "="]
    assert [row["own"] for row in rows] == [False, True, False, False]
    added(rows, arrays)
    # Of many heads the own one stands there, and the others are one row.
    model = model_of("many heads")
    run = trace(model, SOURCE, TARGET, check=False)
    for own in (3, 17):
        chain = step_inside(model, SOURCE, TARGET, site=Site(*MAPS["cross"], 1, own), row=2)
        header, arrays = decoded(inside_data(run, chain))
        rows = station(header, "project.cross")["panels"][1]["rows"]
        *shares, rest, _bias, _out = rows
        heads = [*range(14), max(own, 14)]
        assert [row["text"] for row in shares] == [f"a_{head}" for head in heads], own
        assert [row["text"] for row in shares if row["own"]] == [f"a_{own}"]
        assert [row["sign"] for row in rows] == ["", *["+"] * 16, "="], own
        assert rest["label"] == "the shares of the other 4 heads together" and not rest["open"]
        left = [head for head in range(19) if head not in heads]
        hand = chain["project.cross"]["shares"][left].astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(arrays[rest["array"]], hand, rtol=1e-6, atol=1e-7)
        added(rows, arrays)


@pytest.mark.slow
@EVERY
def test_an_opened_sum_says_what_it_adds(every: bool) -> None:
    """One number of every array that opens; of most kinds of models in one block."""
    found = {}
    for config, turn in zip(CONFIGS, cycle(MAPS), strict=False):
        for block in MAPS if every or config == "plain" else (turn,):
            _, chain = chained(block, config)
            for stage in chain:
                for name in OPENS[stage.kind]:
                    if name not in stage.arrays and name not in stage.numbers:
                        continue
                    index = (1,) * stage[name].ndim if name in stage.arrays else ()
                    made = terms(model_of(config), chain, Number(stage.name, name, index))
                    header, arrays = sent(block, config, terms=made)
                    summed, case = header["sum"], (config, str(made.number))
                    assert np.array_equal(arrays["sum_a"], made.a), case
                    assert np.array_equal(arrays["sum_b"], made.b), case
                    assert summed["address"] == str(made.number), case
                    assert summed["total"] == made.total, case
                    assert bool(summed["bName"]) == bool(made.b_name), case
                    assert summed["few"] == (made.axis == "parts"), case
                    assert len(summed["labels"]) in (0, len(made.a)), case
                    symbols = (summed["text"], summed["aName"], summed["bName"], *summed["labels"])
                    assert not {*symbols} & {*OPENS}, case  # an array's own name is no symbol
                    found[config, block, summed["address"]] = summed
    names = {place: one for (config, block, place), one in found.items()
             if (config, block) == ("plain", "cross")}  # fmt: skip
    labels = list(chained()[0].source.labels)
    assert names["qkv.cross/k/1/1"]["whose"] == f"“{labels[1]}” · dimension 2"
    for name, factors in (
        ("q/1", ("x", "W_q")), ("k/1/1", ("m_j", "W_k")), ("v/1/1", ("m_j", "W_v")),
    ):  # fmt: skip
        one = names[f"qkv.cross/{name}"]
        assert (one["aName"], one["bName"]) == factors
    assert names["project.cross/shares/1/1"]["text"] == "a_1"
    assert names["softmax.cross/total"]["labels"] == labels
    assert names["norm.cross/spread"]["then"] == "√"
