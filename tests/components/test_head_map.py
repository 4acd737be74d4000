"""What the map of a head is sent as: exact weights, pooled ones, differences, and its words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.components.test_tiles import appended
from tests.support.component_stage import decoded
from tests.support.long_text import long_trace, sentence
from tests.views.conftest import make_trace
from transformer_viz.components.head_map import map_data, map_height
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention

Decoded = tuple[dict[str, Any], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def clean() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


@pytest.fixture(scope="module")
def long() -> Trace:
    return long_trace(523, causal=True)


OWN = ("before", "most", "numbers")


def sent(trace: Trace, block: str, layer: int = 1, head: int = 2, **chosen: Any) -> Decoded:
    """What is sent of a head; words that `map_data` does not know are the look's."""
    own = {name: chosen.pop(name) for name in OWN if name in chosen}
    return decoded(map_data(trace, block, layer, head, MapLook(**chosen), **own))


def other_weights(trace: Trace, block: str, weights: np.ndarray) -> Trace:
    """The same trace with one layer of a map replaced, whose scores were not kept."""
    kept = [a for a in trace.attentions if a.site.map != block]
    old = trace.block(block, 0)
    new = Attention(weights, old.site, old.query, old.key)
    return dataclasses.replace(trace, attentions=(*kept, new))


def test_every_weight_is_sent_as_it_is(clean: Trace) -> None:
    header, arrays = sent(clean, "decoder", token=2, key=1, seq=7)
    weights = clean.attention("decoder", 1)[2]
    assert arrays["weights"].dtype == np.float32 and (arrays["weights"] == weights).all()
    assert arrays["masked"].tolist() == np.triu(np.ones((4, 4), int), 1).tolist()
    assert header["most"] == weights.max()
    assert (header["part"], header["view"], header["seq"]) == ("head", "map", 7)
    assert (header["token"], header["key"], header["stride"]) == (2, 1, [1, 1])
    assert header["rows"]["sentence"] == "produced" and header["columns"]["sentence"] == "target"
    assert header["rows"]["labels"] == ["die", "Ka", "tze", "</s>"]
    assert header["title"] == "decoder L1 H2"
    # The strongest two of row 2, by hand from the softmax in conftest.
    first, second = np.argsort(-weights[2])[:2]
    labels = ["<s>", "die", "Ka", "tze"]
    assert header["said"] == (
        f"“tze” looks most at “{labels[first]}” {weights[2, first]:.2f}, "
        f"then “{labels[second]}” {weights[2, second]:.2f}."
    )


def test_the_end_of_the_colours_can_be_given(clean: Trace) -> None:
    assert sent(clean, "cross", most=0.9)[0]["most"] == 0.9
    merged, arrays = sent(clean, "cross", most=0.01, words=True)  # a word's pieces are summed
    assert merged["most"] == arrays["weights"].max() > 0.01
    nothing = other_weights(clean, "cross", np.zeros((3, 4, 5), np.float32))
    header, arrays = sent(nothing, "cross", 0)
    assert header["most"] == 1 and arrays["masked"].all()
    assert header["note"] == (
        "Nothing is left to look at for “die”, “Ka”, “tze”, “</s>”: every cell of such a row is "
        "masked."
    )


def test_the_rows_that_see_nothing_are_counted_when_they_are_many(clean: Trace) -> None:
    blind = other_weights(long_trace(9), "encoder", np.zeros((1, 9, 9), np.float32))
    note = sent(blind, "encoder", 0, 0)[0]["note"]
    assert note.startswith("Nothing is left to look at for “wo0”, “wor1”, “word2”, ")
    assert " and 4 more: every" in note


def test_a_difference_is_what_grew_since(clean: Trace, warm: Trace) -> None:
    header, arrays = sent(warm, "decoder", before=clean)
    now, was = (t.attention("decoder", 1)[2].astype(float) for t in (warm, clean))
    seen = np.tril(np.ones((4, 4), bool))
    assert np.isnan(arrays["weights"][~seen]).all()
    assert np.abs(arrays["weights"] - (now - was))[seen].max() < 1e-7
    assert header["change"] and header["old"] == 4
    assert header["most"] == pytest.approx(np.abs(now - was).max(), abs=1e-7)
    assert sent(clean, "decoder", before=clean)[0]["most"] == 0.05


def test_rows_that_are_new_are_empty_and_said(clean: Trace) -> None:
    square = np.full((3, 7, 7), 1 / 7, np.float32)
    padded = other_weights(
        dataclasses.replace(clean, source=appended(clean.source, 2)), "encoder", square
    )
    header, arrays = sent(padded, "encoder", 0, before=clean)
    assert header["old"] == 5
    assert np.isnan(arrays["weights"][5:]).all() and not np.isnan(arrays["weights"][:5]).any()
    assert not arrays["masked"].any()
    assert header["note"] == (
        "What was appended had no weight before. Its own rows are new, and left empty."
    )
    with pytest.raises(ValueError, match="different words"):
        map_data(clean, "encoder", 0, 0, before=padded)


@pytest.mark.parametrize("count", [300, 512, 523, 1024])
def test_long_maps_are_pooled_to_their_largest_weights(count: int) -> None:
    trace = long_trace(count, causal=True)
    header, arrays = sent(trace, "encoder", 0, 0, token=7)
    step = -(-count // 256)
    assert header["stride"] == [step, step] and header["region"] is None
    weights = trace.attention("encoder", 0)[0]
    cells = -(-count // step)
    blocks = np.zeros((cells * step, cells * step))
    blocks[:count, :count] = weights
    largest = blocks.reshape(cells, step, cells, step).max(axis=(1, 3))
    shown = (arrays["pooled"].astype(float) - header["zero"]) * header["unit"]
    assert shown.shape == largest.shape
    assert np.abs(shown - largest).max() <= header["unit"] / 2 * 1.001
    assert header["unit"] * 255 == pytest.approx(weights.max())
    above = np.add.outer(np.arange(cells) * -step, np.arange(cells) * step) >= step
    assert (arrays["pooled_masked"] == above).all()
    assert (arrays["chosen"] == weights[7]).all() and arrays["chosen_masked"].sum() == count - 8
    assert "weights" not in arrays


@pytest.mark.parametrize("count", [512, 1024])
def test_an_update_stays_below_a_megabyte(count: int) -> None:
    trace = long_trace(count, causal=True)
    zoom = ((200, 456), (0, 256))
    assert len(map_data(trace, "encoder", 0, 0, MapLook(token=7, zoom=zoom))) <= 1e6


@pytest.mark.parametrize(
    ("zoom", "region"),
    [
        (((200, 456), (0, 256)), [[200, 456], [0, 256]]),
        (((500, 523), (10, 30)), [[267, 523], [0, 256]]),
        (((100, 110), (300, 320)), [[0, 256], [182, 438]]),
        (((0, 257), (0, 10)), None),
    ],
)
def test_the_enlarged_part_is_exact(long: Trace, zoom: Any, region: Any) -> None:
    header, arrays = sent(long, "encoder", 0, 0, zoom=zoom)
    assert header["zoom"] == [list(span) for span in zoom]
    assert header["region"] == region
    if region:
        part = tuple(slice(*span) for span in region)
        assert (arrays["weights"] == long.attention("encoder", 0)[0][part]).all()
        assert (arrays["masked"] == np.triu(np.ones((523, 523), np.uint8), 1)[part]).all()


@pytest.mark.parametrize("zoom", [((0, 9), (0, 5)), ((2, 2), (0, 1)), ((0, 4), (0, 5))])
def test_a_part_that_is_none_is_let_go(clean: Trace, zoom: Any) -> None:
    assert sent(clean, "cross", zoom=zoom)[0]["zoom"] is None


def test_a_pooled_change_keeps_its_sign() -> None:
    now, was = long_trace(512, seed=1, causal=True), long_trace(512, seed=2, causal=True)
    header, arrays = sent(now, "encoder", 0, 0, before=was)
    grown = now.attention("encoder", 0)[0].astype(float) - was.attention("encoder", 0)[0]
    blocks = grown.reshape(256, 2, 256, 2).transpose(0, 2, 1, 3).reshape(256, 256, 4)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2)[..., 0]
    hidden = arrays["pooled_masked"] == 1
    assert (arrays["pooled"][hidden] == 0).all() and (arrays["pooled"][~hidden] > 0).all()
    shown = (arrays["pooled"].astype(float) - header["zero"]) * header["unit"]
    assert np.abs(shown - largest)[~hidden].max() <= header["unit"] / 2 * 1.001
    assert (shown[~hidden] < 0).any() and (shown[~hidden] > 0).any()


def test_the_numbers_of_a_head_are_those_of_the_runs(clean: Trace, warm: Trace) -> None:
    weights = clean.attention("cross", 1)[2].astype(float)
    bits = -(weights * np.log2(weights)).sum(axis=1).mean()
    far = (weights * np.abs(np.subtract.outer(np.arange(4), np.arange(5)))).sum(axis=1).mean()
    told = sent(clean, "cross")[0]["numbers"]
    assert told == f"entropy {bits:.2f} bits · mean distance {far:.2f} tokens"
    both = sent(warm, "cross", before=clean)[0]["numbers"]
    assert both.startswith(f"entropy {bits:.2f} → ") and both.count("→") == 2
    assert sent(clean, "cross", numbers="mine")[0]["numbers"] == "mine"
    merged = sent(clean, "cross", words=True)[0]
    assert merged["numbers"].endswith("(of the model's own pieces)")
    assert merged["rows"]["groups"] == [[0], [1, 2], [3]]
    assert merged["note"].startswith("Pieces are merged to words")


def test_a_hidden_row_has_no_words(clean: Trace) -> None:
    header, arrays = sent(clean, "encoder", token=4, special=False)
    assert header["said"] == "" and header["columns"]["labels"] == ["the", "c", "at", "the (2)"]
    assert np.allclose(arrays["weights"].sum(axis=1), 1)


def test_heights_stay_between_bounds() -> None:
    heights = [map_height(rows) for rows in (1, 9, 10, 15, 24, 25, 1024)]
    assert heights[0] == heights[1] == 340 and heights[-1] == heights[-2] == 720
    assert heights == sorted(heights) and heights[3] == 15 * 26 + 96


def test_what_is_not_there_is_named(clean: Trace) -> None:
    with pytest.raises(LookupError, match="heads 0 to 2; got 3"):
        map_data(clean, "cross", 0, 3)
    with pytest.raises(LookupError, match="no layer 9"):
        map_data(clean, "cross", 9, 0)


def test_labels_are_sent_as_they_are() -> None:
    odd = ("<b>x</b>", "</script>", "a\u2028b", "🙂")
    tokens = dataclasses.replace(sentence(4), labels=odd)
    trace = dataclasses.replace(long_trace(4), source=tokens)
    assert sent(trace, "encoder", 0, 0)[0]["rows"]["labels"] == list(odd)
