"""What the q·k view is sent: the steps in words and numbers, and the row of the softmax."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any

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


@cache
def traced(*edits: Any, **words: Any) -> Trace:
    changes, model = Intervention(edits), make_model(**words)
    return trace(model, SOURCE, TARGET, keep=("scores", "qkv"), check=False, intervention=changes)


def sent(run: Trace, block: str, layer: int, head: int, **words: Any) -> Any:
    return decoded(qk_data(run, block, layer, head, **words))


def number(text: str) -> float:
    """Return a figure as a number again."""
    return float(text.replace("−", "-").replace("∞", "inf"))


def test_a_figure_has_four_digits() -> None:
    for value, text in (*FIGURES.items(), (-0.0, "0.0000")):
        assert figure(value) == text, value


def test_the_arrays_are_the_vectors_and_the_row() -> None:
    header, arrays = sent(traced(), "cross", 1, 0, query=2, key=5, seq=7)
    attention = traced().block("cross", 1)
    q, k, weights = attention.q[0, 2], attention.k[0, 5], attention.weights[0, 2]
    wanted = {"q": q, "k": k, "scores": attention.scores[0, 2], "weights": weights}
    for name, array in wanted.items():
        assert np.array_equal(arrays[name], array), name
    np.testing.assert_allclose(arrays["product"], q.astype(np.float64) * k, rtol=1e-6)
    shares = arrays["exponentials"] / arrays["exponentials"].sum()
    np.testing.assert_allclose(shares, weights, rtol=1e-5)
    assert arrays["seen"].tolist() == [1] * 7
    assert (header["part"], header["view"], header["seq"]) == ("head", "qk", 7)
    assert (header["token"], header["key"], header["problem"]) == (2, 5, "")
    assert header["rows"]["sentence"] == "produced" and header["columns"]["sentence"] == "source"
    # Left out, the key is the strongest.
    header, _ = sent(traced(), "decoder", 1, 1, query=4)
    assert header["key"] == int(traced().attention("decoder", 1)[1, 4].argmax())
    # A decoder names what its row reads and produces.
    header, _ = sent(traced(), "decoder", 1, 1, query=2)
    read, made = traced().target.labels[2], traced().produced.labels[2]
    expected = f"q comes from the place that reads “{read}” and produces “{made}”."
    assert header["notes"] == [expected] and header["row"] == made
    assert sent(traced(), "encoder", 1, 1, query=2)[0]["notes"] == []


def test_the_formulas_can_be_checked_by_hand() -> None:
    run = traced(Temperature(value=2.5), ScaleHead(value=0.5))
    header, arrays = sent(run, "cross", 1, 0, query=2, key=5)
    steps = {step["kind"]: step for step in header["steps"]}
    result = {kind: number(step["result"]) for kind, step in steps.items()}
    assert list(steps) == ["dot", "scale", "temperature", "softmax", "head"]
    assert result["dot"] == pytest.approx(float(arrays["product"].sum()), abs=1e-4)
    before, amount = map(number, steps["scale"]["formula"].split(" × "))
    assert (before, amount) == (result["dot"], 0.3015)
    assert result["scale"] == pytest.approx(before * amount, abs=2e-4)
    before, degree = map(number, steps["temperature"]["formula"].split(" ÷ "))
    assert before == result["scale"] and degree == 2.5
    score = result["temperature"]
    assert score == pytest.approx(before / 2.5, abs=1e-4)
    found = re.fullmatch(r"exp\((\S+) ([+−]) (\S+)\) ÷ (\S+)", steps["softmax"]["formula"])
    assert found is not None
    most = number(found[3]) * (-1 if found[2] == "+" else 1)
    assert number(found[1]) == score and most == pytest.approx(arrays["scores"].max(), abs=1e-4)
    assert number(found[4]) == pytest.approx(np.exp(arrays["scores"] - most).sum(), abs=1e-3)
    weight = np.exp(score - most) / number(found[4])
    assert result["softmax"] == pytest.approx(weight, abs=1e-4)
    assert steps["head"]["formula"].endswith("× 0.5000")
    assert result["head"] == pytest.approx(weight / 2, abs=1e-4)


def test_every_kind_of_step_has_its_words() -> None:
    for run in (traced(), traced(Temperature(value=0.0)), traced(BlockKeys(keys=(5,)))):
        for key in (0, 5):
            header, _ = sent(run, "cross", 0, 1, query=1, key=key)
            expected = chain(run, "cross", 0, 1, 1, key).steps
            assert [step["kind"] for step in header["steps"]] == [step.kind for step in expected]
            for words, step in zip(header["steps"], expected, strict=True):
                assert words["result"] == figure(step.result), step
                assert words["formula"] and words["why"], step
                assert "{" not in "".join(words.values()), step
    assert header["said"].startswith(f"“{header['row']}” may not look at “{header['column']}”")
    (why,) = [s["why"] for s in header["steps"] if s["kind"] == "mask"]
    assert why == "by an edit: word 5 hidden, whatever the score"


def test_a_score_without_a_product_is_a_problem_in_words() -> None:
    for score in ("additive", "location"):
        header, arrays = sent(traced(score=score), "encoder", 1, 1, query=2, seq=3)
        assert "no product of a query and a key" in header["problem"], score
        assert not arrays and header["seq"] == 3, score


def test_a_sink_is_told_beside_the_keys() -> None:
    """A column of the softmax that is no word, as gpt-oss has it."""
    attention = traced().block("encoder", 0)
    scores = np.concatenate((attention.scores, np.ones((2, 7, 1), np.float32)), axis=2)
    powers = np.exp(scores.astype(np.float64))
    weights = (powers / powers.sum(-1, keepdims=True))[..., :7].astype(np.float32)
    block = dataclasses.replace(attention, scores=read_only(scores), weights=read_only(weights))
    run = dataclasses.replace(traced(), attentions=(block,))
    header, arrays = sent(run, "encoder", 0, 1, query=2, key=4)
    part = np.exp(1 - scores[1, 2].max())
    assert header["sinks"].startswith(f"and {figure(float(part))} for what is no word")
    assert arrays["scores"].shape == (7,)
    total = number(header["steps"][-1]["formula"].split(" ÷ ")[1])
    assert total == pytest.approx(arrays["exponentials"].sum() + part, abs=1e-4)


def test_a_place_outside_the_map_is_refused() -> None:
    for words in ({"query": 9}, {"query": 0, "key": 9}):
        with pytest.raises(LookupError, match="rows 0 to 4 and columns 0 to 6"):
            qk_data(traced(), "cross", 0, 0, **words)
    with pytest.raises(LookupError, match="heads 0 to 1"):
        qk_data(traced(), "cross", 0, 5, query=0)
