"""Maps of heads as they are sent: exact weights, pooled ones, differences, and their texts."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.components.test_tiles import appended
from tests.support.component_stage import decoded
from tests.support.long_text import long_trace, sentence
from tests.views.conftest import make_trace
from transformer_viz.components.head_map import map_data, map_height
from transformer_viz.components.long_map import colour_end
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention

OWN = ("before", "most", "numbers")
clean = cache(make_trace)
long = cache(long_trace)


@cache
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def sent(trace: Trace, block: str, layer: int = 1, head: int = 2, **chosen: Any) -> Any:
    """Return the header and arrays of a head; unknown options are the look's."""
    own = {name: chosen.pop(name) for name in OWN if name in chosen}
    return decoded(map_data(trace, block, layer, head, MapLook(**chosen), **own))


def other_weights(trace: Trace, block: str, weights: np.ndarray) -> Trace:
    """Return the trace with one layer of a map replaced, whose scores were not kept."""
    kept = [a for a in trace.attentions if a.site.map != block]
    old = trace.block(block, 0)
    new = Attention(weights, old.site, old.query, old.key)
    return dataclasses.replace(trace, attentions=(*kept, new))


def test_every_weight_is_sent_as_it_is() -> None:
    header, arrays = sent(clean(), "decoder", token=2, key=1, seq=7)
    weights = clean().attention("decoder", 1)[2]
    assert arrays["weights"].dtype == np.float32 and (arrays["weights"] == weights).all()
    assert arrays["masked"].tolist() == np.triu(np.ones((4, 4), int), 1).tolist()
    assert (header["part"], header["view"], header["seq"]) == ("head", "map", 7)
    assert (header["token"], header["key"], header["stride"]) == (2, 1, [1, 1])
    assert (header["most"], header["title"]) == (weights.max(), "decoder L1 H2")
    assert header["rows"]["sentence"] == "produced" and header["columns"]["sentence"] == "target"
    assert header["rows"]["labels"] == ["die", "Ka", "tze", "</s>"]
    # The strongest two of row 2, by hand from the softmax in conftest.
    labels, (first, second) = ["<s>", "die", "Ka", "tze"], np.argsort(-weights[2])[:2]
    assert header["said"] == (
        f"“tze” looks most at “{labels[first]}” {weights[2, first]:.2f}, "
        f"then “{labels[second]}” {weights[2, second]:.2f}."
    )
    # A hidden row has no text, and the others sum to one without special tokens.
    header, arrays = sent(clean(), "encoder", token=4, special=False)
    assert header["said"] == "" and header["columns"]["labels"] == ["the", "c", "at", "the (2)"]
    assert np.allclose(arrays["weights"].sum(axis=1), 1)
    # Labels are sent as they are.
    odd = ("<b>x</b>", "</script>", "a\u2028b", "🙂")
    tokens = dataclasses.replace(sentence(4), labels=odd)
    header, _ = sent(dataclasses.replace(long(4), source=tokens), "encoder", 0, 0)
    assert header["rows"]["labels"] == list(odd)


def test_the_end_of_the_colours_can_be_given() -> None:
    assert sent(clean(), "cross", most=0.9)[0]["most"] == 0.9
    merged, arrays = sent(clean(), "cross", most=0.01, words=True)  # a word's pieces are summed
    assert merged["most"] == arrays["weights"].max() > 0.01


def test_rows_without_a_weight_are_named_and_counted() -> None:
    nothing = other_weights(clean(), "cross", np.zeros((3, 4, 5), np.float32))
    header, arrays = sent(nothing, "cross", 0)
    assert header["most"] == 1 and arrays["masked"].all()
    begins = "Nothing is left to look at for "
    assert header["note"] == (
        f"{begins}“die”, “Ka”, “tze”, “</s>”: every cell of such a row is masked."
    )
    blind = other_weights(long(9), "encoder", np.zeros((1, 9, 9), np.float32))
    note = sent(blind, "encoder", 0, 0)[0]["note"]
    assert note.startswith(f"{begins}“wo0”, “wor1”, “word2”, ") and " and 4 more: every" in note


def test_a_difference_is_the_growth_since_the_run_before() -> None:
    header, arrays = sent(warm(), "decoder", before=clean())
    now, was = (t.attention("decoder", 1)[2].astype(float) for t in (warm(), clean()))
    seen = np.tril(np.ones((4, 4), bool))
    assert np.isnan(arrays["weights"][~seen]).all()
    assert np.abs(arrays["weights"] - (now - was))[seen].max() < 1e-7
    assert header["change"] and header["old"] == 4
    assert header["most"] == pytest.approx(np.abs(now - was).max(), abs=1e-7)
    assert sent(clean(), "decoder", before=clean())[0]["most"] == 0.05
    # New rows are empty, and a note says so.
    source, square = appended(clean().source, 2), np.full((3, 7, 7), 1 / 7, np.float32)
    padded = other_weights(dataclasses.replace(clean(), source=source), "encoder", square)
    header, arrays = sent(padded, "encoder", 0, before=clean())
    assert header["old"] == 5 and not arrays["masked"].any()
    assert np.isnan(arrays["weights"][5:]).all() and not np.isnan(arrays["weights"][:5]).any()
    assert header["note"] == (
        "What was appended had no weight before. Its own rows are new, and left empty."
    )
    with pytest.raises(ValueError, match="different words"):
        map_data(clean(), "encoder", 0, 0, before=padded)


def test_long_maps_are_pooled_to_their_largest_weights() -> None:
    for count in (300, 512, 523, 1024):
        trace = long(count, causal=True)
        header, arrays = sent(trace, "encoder", 0, 0, token=7)
        step = -(-count // 256)
        assert header["stride"] == [step, step] and header["region"] is None, count
        weights = trace.attention("encoder", 0)[0]
        cells = -(-count // step)
        blocks = np.zeros((cells * step, cells * step))
        blocks[:count, :count] = weights
        largest = blocks.reshape(cells, step, cells, step).max(axis=(1, 3))
        shown = (arrays["pooled"].astype(float) - header["zero"]) * header["unit"]
        assert shown.shape == largest.shape, count
        assert np.abs(shown - largest).max() <= header["unit"] / 2 * 1.001, count
        assert header["unit"] * 255 == pytest.approx(weights.max()), count
        above = np.add.outer(np.arange(cells) * -step, np.arange(cells) * step) >= step
        assert (arrays["pooled_masked"] == above).all(), count
        assert (arrays["chosen"] == weights[7]).all() and "weights" not in arrays, count
        assert arrays["chosen_masked"].sum() == count - 8, count
        if count in (512, 1024):
            look = MapLook(token=7, zoom=((200, 456), (0, 256)))
            assert len(map_data(trace, "encoder", 0, 0, look)) <= 1e6, count


def test_the_enlarged_part_is_exact() -> None:
    trace = long(523, causal=True)
    for zoom, region in (
        (((200, 456), (0, 256)), [[200, 456], [0, 256]]),
        (((500, 523), (10, 30)), [[267, 523], [0, 256]]),
        (((100, 110), (300, 320)), [[0, 256], [182, 438]]),
        (((0, 257), (0, 10)), None),
    ):
        header, arrays = sent(trace, "encoder", 0, 0, zoom=zoom)
        assert header["zoom"] == [list(span) for span in zoom]
        assert header["region"] == region, zoom
        if region:
            part = tuple(slice(*span) for span in region)
            assert (arrays["weights"] == trace.attention("encoder", 0)[0][part]).all(), zoom
            masked = np.triu(np.ones((523, 523), np.uint8), 1)[part]
            assert (arrays["masked"] == masked).all(), zoom
    for zoom in (((0, 9), (0, 5)), ((2, 2), (0, 1)), ((0, 4), (0, 5))):  # no part of this map
        assert sent(clean(), "cross", zoom=zoom)[0]["zoom"] is None, zoom


def test_a_pooled_change_keeps_its_sign() -> None:
    now, was = long(512, seed=1, causal=True), long(512, seed=2, causal=True)
    header, arrays = sent(now, "encoder", 0, 0, before=was)
    grown = now.attention("encoder", 0)[0].astype(float) - was.attention("encoder", 0)[0]
    blocks = grown.reshape(256, 2, 256, 2).transpose(0, 2, 1, 3).reshape(256, 256, 4)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2)[..., 0]
    hidden = arrays["pooled_masked"] == 1
    assert (arrays["pooled"][hidden] == 0).all() and (arrays["pooled"][~hidden] > 0).all()
    shown = (arrays["pooled"].astype(float) - header["zero"]) * header["unit"]
    assert np.abs(shown - largest)[~hidden].max() <= header["unit"] / 2 * 1.001
    assert (shown[~hidden] < 0).any() and (shown[~hidden] > 0).any()


def test_the_numbers_of_a_head_are_those_of_the_runs() -> None:
    weights = clean().attention("cross", 1)[2].astype(float)
    bits = -(weights * np.log2(weights)).sum(axis=1).mean()
    far = (weights * np.abs(np.subtract.outer(np.arange(4), np.arange(5)))).sum(axis=1).mean()
    told = sent(clean(), "cross")[0]["numbers"]
    assert told == f"entropy {bits:.2f} bits · mean distance {far:.2f} tokens"
    both = sent(warm(), "cross", before=clean())[0]["numbers"]
    assert both.startswith(f"entropy {bits:.2f} → ") and both.count("→") == 2
    assert sent(clean(), "cross", numbers="mine")[0]["numbers"] == "mine"
    merged = sent(clean(), "cross", words=True)[0]
    assert merged["numbers"].endswith("(of the model's own pieces)")
    assert merged["rows"]["groups"] == [[0], [1, 2], [3]]
    assert merged["note"].startswith("Pieces are merged to words")


def test_heights_stay_between_bounds_and_missing_heads_are_named() -> None:
    heights = [map_height(rows) for rows in (1, 9, 10, 15, 24, 25, 1024)]
    assert heights[0] == heights[1] == 340 and heights[-1] == heights[-2] == 720
    assert heights == sorted(heights) and heights[3] == 15 * 26 + 96
    for layer, head, said in ((0, 3, "heads 0 to 2; got 3"), (9, 0, "no layer 9")):
        with pytest.raises(LookupError, match=said):
            map_data(clean(), "cross", layer, head)


def test_colours_of_a_long_map_end_at_the_98th_percentile() -> None:
    small = np.tril(np.full((64, 64), 5, np.uint8))
    small[0, 0], small[1, :2] = 255, 128  # the first rows have few words to look at
    assert colour_end(small) == {"most": 5 / 255, "largest": 1.0}
    small[np.tril_indices(64)] = np.arange(2080) // 21 + 1  # 1 to 100, 21 of each, 1 of 100
    small[0, 0] = 255
    assert colour_end(small)["most"] == np.percentile(small[small > 0], 98) / 255
    # Of weights that are near each other they end at the largest.
    small = np.full((64, 64), 100, np.uint8)
    small[3, 3] = 120
    assert colour_end(small) == {"most": 120 / 255, "largest": 120 / 255}
    assert colour_end(np.zeros((4, 4), np.uint8)) == {"most": 1.0, "largest": 1.0}
