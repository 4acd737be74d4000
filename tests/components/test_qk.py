"""What the q·k view is sent: the steps in words and numbers, and the row of the softmax."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from tests.conftest import make_model
from tests.support.component_stage import decoded
from transformer_viz.components.qk import figure, qk_data
from transformer_viz.core.interventions import BlockKeys, Intervention, ScaleHead, Temperature
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import read_only
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.attention.qk_steps import chain

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
FIGURES = {
    0.0: "0.0000",
    1.23456: "1.2346",
    -12.5: "−12.5000",
    99999.25: "99999.2500",
    123456.0: "1.235·10⁵",
    0.00012345: "1.234·10⁻⁴",
    -1e9: "−1.000·10⁹",
    -3.4e38: "−∞",
    float("-inf"): "−∞",
    float("inf"): "∞",
    float("nan"): "no number",
}


def traced(*edits, **words) -> Trace:
    changes = Intervention(edits)
    model = make_model(**words)
    return trace(model, SOURCE, TARGET, keep=("scores", "qkv"), check=False, intervention=changes)


@pytest.fixture(scope="module")
def clean() -> Trace:
    return traced()


def number(text: str) -> float:
    """A figure as a number again."""
    return float(text.replace("−", "-").replace("∞", "inf"))


@pytest.mark.parametrize(("value", "text"), FIGURES.items())
def test_a_figure_has_four_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_negative_zero_has_no_sign() -> None:
    assert figure(-0.0) == "0.0000"


def test_the_arrays_are_the_vectors_and_the_row(clean: Trace) -> None:
    header, arrays = decoded(qk_data(clean, "cross", 1, 0, query=2, key=5, seq=7))
    attention = clean.block("cross", 1)
    assert np.array_equal(arrays["q"], attention.q[0, 2])
    assert np.array_equal(arrays["k"], attention.k[0, 5])
    product = attention.q[0, 2].astype(np.float64) * attention.k[0, 5]
    np.testing.assert_allclose(arrays["product"], product, rtol=1e-6)
    assert np.array_equal(arrays["scores"], attention.scores[0, 2])
    assert np.array_equal(arrays["weights"], attention.weights[0, 2])
    np.testing.assert_allclose(arrays["exponentials"] / arrays["exponentials"].sum(),
                               attention.weights[0, 2], rtol=1e-5)  # fmt: skip
    assert arrays["seen"].tolist() == [1] * 7
    assert (header["part"], header["view"], header["seq"]) == ("head", "qk", 7)
    assert (header["token"], header["key"], header["problem"]) == (2, 5, "")
    assert header["rows"]["sentence"] == "produced" and header["columns"]["sentence"] == "source"


def test_the_formulas_can_be_checked_by_hand(clean: Trace) -> None:
    run = traced(Temperature(value=2.5), ScaleHead(value=0.5))
    header, arrays = decoded(qk_data(run, "cross", 1, 0, query=2, key=5))
    steps = {step["kind"]: step for step in header["steps"]}
    assert list(steps) == ["dot", "scale", "temperature", "softmax", "head"]
    dot = number(steps["dot"]["result"])
    assert dot == pytest.approx(float(arrays["product"].sum()), abs=1e-4)
    before, amount = map(number, steps["scale"]["formula"].split(" × "))
    assert (before, amount) == (dot, 0.3015)
    assert number(steps["scale"]["result"]) == pytest.approx(before * amount, abs=2e-4)
    before, degree = map(number, steps["temperature"]["formula"].split(" ÷ "))
    assert before == number(steps["scale"]["result"]) and degree == 2.5
    score = number(steps["temperature"]["result"])
    assert score == pytest.approx(before / 2.5, abs=1e-4)
    found = re.fullmatch(r"exp\((\S+) ([+−]) (\S+)\) ÷ (\S+)", steps["softmax"]["formula"])
    assert found is not None
    most = number(found[3]) * (-1 if found[2] == "+" else 1)
    assert number(found[1]) == score and most == pytest.approx(arrays["scores"].max(), abs=1e-4)
    assert number(found[4]) == pytest.approx(np.exp(arrays["scores"] - most).sum(), abs=1e-3)
    weight = np.exp(score - most) / number(found[4])
    assert number(steps["softmax"]["result"]) == pytest.approx(weight, abs=1e-4)
    assert steps["head"]["formula"].endswith("× 0.5000")
    assert number(steps["head"]["result"]) == pytest.approx(weight / 2, abs=1e-4)


def test_every_kind_of_step_has_its_words(clean: Trace) -> None:
    runs = [clean, traced(Temperature(value=0.0)), traced(BlockKeys(keys=(5,)))]
    for run in runs:
        for key in (0, 5):
            header, _ = decoded(qk_data(run, "cross", 0, 1, query=1, key=key))
            expected = chain(run, "cross", 0, 1, 1, key).steps
            assert [step["kind"] for step in header["steps"]] == [step.kind for step in expected]
            for words, step in zip(header["steps"], expected, strict=True):
                assert words["result"] == figure(step.result)
                assert words["formula"] and words["why"] and "{" not in "".join(words.values())
    assert header["said"].startswith(f"“{header['row']}” may not look at “{header['column']}”")
    assert [s["why"] for s in header["steps"] if s["kind"] == "mask"] == [
        "by an edit: word 5 hidden, whatever the score"
    ]


def test_left_out_the_key_is_the_strongest(clean: Trace) -> None:
    header, _ = decoded(qk_data(clean, "decoder", 1, 1, query=4))
    assert header["key"] == int(clean.attention("decoder", 1)[1, 4].argmax())


def test_a_decoder_says_what_its_row_reads_and_produces(clean: Trace) -> None:
    header, _ = decoded(qk_data(clean, "decoder", 1, 1, query=2))
    read, made = clean.target.labels[2], clean.produced.labels[2]
    expected = f"q comes from the place that reads “{read}” and produces “{made}”."
    assert header["notes"] == [expected] and header["row"] == made
    assert decoded(qk_data(clean, "encoder", 1, 1, query=2))[0]["notes"] == []


@pytest.mark.parametrize("score", ["additive", "location"])
def test_where_there_is_no_product_the_view_says_so(score: str) -> None:
    header, arrays = decoded(qk_data(traced(score=score), "encoder", 1, 1, query=2, seq=3))
    assert "no product of a query and a key" in header["problem"]
    assert not arrays and header["seq"] == 3


def test_a_sink_is_told_beside_the_keys(clean: Trace) -> None:
    """A column of the softmax that is no word, as gpt-oss has it."""
    attention = clean.block("encoder", 0)
    scores = np.concatenate((attention.scores, np.ones((2, 7, 1), np.float32)), axis=2)
    powers = np.exp(scores.astype(np.float64))
    weights = (powers / powers.sum(-1, keepdims=True))[..., :7].astype(np.float32)
    block = dataclasses.replace(attention, scores=read_only(scores), weights=read_only(weights))
    run = dataclasses.replace(clean, attentions=(block,))
    header, arrays = decoded(qk_data(run, "encoder", 0, 1, query=2, key=4))
    part = np.exp(1 - scores[1, 2].max())
    assert header["sinks"].startswith(f"and {figure(float(part))} for what is no word")
    assert arrays["scores"].shape == (7,)
    total = number(header["steps"][-1]["formula"].split(" ÷ ")[1])
    assert total == pytest.approx(arrays["exponentials"].sum() + part, abs=1e-4)


def test_a_place_that_is_not_there(clean: Trace) -> None:
    for words in ({"query": 9}, {"query": 0, "key": 9}):
        with pytest.raises(LookupError, match="rows 0 to 4 and columns 0 to 6"):
            qk_data(clean, "cross", 0, 0, **words)
    with pytest.raises(LookupError, match="heads 0 to 1"):
        qk_data(clean, "cross", 0, 5, query=0)
