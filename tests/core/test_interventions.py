"""Edits: canonical text, refusals, the place they act on, and the cells they hide."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_viz.core.apply_edits import HeadPlan, Plan, hidden
from transformer_viz.core.interventions import (
    EDITS,
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    HidingEdit,
    Intervention,
    Pad,
    ScaleHead,
    SwapHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.sites import BLOCKS, STACKS, Site

DESIGN = """{"edits": [
 {"kind": "temperature", "value": 2.0, "stack": "decoder", "block": "cross", "layer": 1, "head": 3},
 {"kind": "scale_head", "value": 0.0, "stack": "encoder", "layer": 0, "head": 1},
 {"kind": "uniform_head", "layer": 2, "head": 0},
 {"kind": "causal", "on": false}, {"kind": "window", "radius": 3},
 {"kind": "block_keys", "keys": [3, 4], "block": "cross"},
 {"kind": "block_edges", "edges": [[5, 2]]},
 {"kind": "pad", "count": 3, "masked": false},
 {"kind": "scale_positions", "value": 0.0}, {"kind": "shuffle_positions", "seed": 1},
 {"kind": "scale_residual", "value": 0.0, "layer": 1},
 {"kind": "mean_head", "mean": "0123456789abcdef", "stack": "decoder", "block": "self", "head": 2},
 {"kind": "swap_head", "source": "It was wide.", "token": 3, "stack": "encoder", "layer": 2},
 {"kind": "swap_pattern", "source": [5, 7], "stack": "decoder", "block": "cross", "head": 1},
 {"kind": "swap_stream", "source": "It was wide.", "token": 3, "layer": 1}]}"""

numbers = st.floats(0, 10, allow_nan=False)
whole = st.integers(0, 99)
LENT = {
    "source": st.text(min_size=1, max_size=9).filter(str.strip)
    | st.lists(whole, min_size=1).map(tuple),
    "token": st.none() | whole,
}
VALUES = {
    "temperature": {"value": numbers},
    "scale_head": {"value": numbers},
    "uniform_head": {"on": st.booleans()},
    "causal": {"on": st.booleans()},
    "window": {"radius": st.none() | whole},
    "block_keys": {"keys": st.lists(whole, max_size=4).map(tuple)},
    "block_edges": {"edges": st.lists(st.tuples(whole, whole), max_size=4).map(tuple)},
    "pad": {"count": whole, "masked": st.booleans()},
    "scale_positions": {"value": numbers},
    "shuffle_positions": {"seed": whole},
    "scale_residual": {"value": numbers},
    "mean_head": {"mean": st.text("0123456789abcdef", min_size=8, max_size=64)},
    "swap_head": LENT,
    "swap_pattern": LENT,
    "swap_stream": LENT,
}
SELECTORS = {
    "stack": st.sampled_from([None, *STACKS]),
    "block": st.sampled_from([None, *BLOCKS]),
    "layer": st.none() | whole,
    "head": st.none() | whole,
}


@st.composite
def edits(draw) -> Edit:
    kind = draw(st.sampled_from(EDITS))
    words = {name: draw(strategy) for name, strategy in VALUES[kind.kind].items()}
    if kind is not Pad:
        words |= {name: draw(strategy) for name, strategy in SELECTORS.items()}
    if kind.kind in ("scale_residual", "swap_stream"):
        words.pop("head")
    if kind.kind == "swap_stream":
        words.pop("block")
    return kind(**words)


@given(st.lists(edits(), max_size=6))
def test_text_and_back_is_an_identity_and_every_edit_has_words(some):
    before = Intervention(tuple(some))
    after = Intervention.from_json(before.to_json())
    assert after == before and after.to_json() == before.to_json()
    assert hash(after) == hash(before) and before.describe()
    for edit in some:
        assert edit.describe().startswith(edit.place + ": ") and edit.change()


def test_json_and_descriptions_of_edits():
    intervention = Intervention.from_json(DESIGN)
    assert [edit.kind for edit in intervention] == [kind.kind for kind in EDITS]
    assert json.loads(intervention.to_json()) == json.loads(DESIGN)
    assert intervention.describe().split("; ") == [
        "cross L1 H3: temperature 2",
        "encoder L0 H1: off",
        "L2 H0: looks at all visible words alike",
        "everything: causal mask off",
        "everything: sees 3 words to each side",
        "cross: word 3, word 4 hidden",
        "everything: link 5→2 cut",
        "source: 3 padding tokens added, not masked",
        "everything: positions dropped",
        "everything: positions shuffled (seed 1)",
        "L1: residual cut",
        "decoder H2: gives its mean (01234567)",
        "encoder L2: at word 3 gives what it gives in “It was wide.”",
        "cross H1: looks as in “2 tokens”",
        "L1: the stream at word 3 as in “It was wide.”",
    ]
    for count, masked, said in (
        (1, True, "1 padding token added, masked"),
        (1, False, "1 padding token added, not masked"),
        (3, True, "3 padding tokens added, masked"),
    ):
        assert Pad(count=count, masked=masked).change() == said
    gaps = Intervention((Window(radius=None, layer=1), UniformHead(on=False, head=2)))
    assert gaps.describe() == "L1: no window; H2: looks as trained"
    text = (
        '{"edits":[{"kind":"window","layer":1,"radius":null},'
        '{"head":2,"kind":"uniform_head","on":false}]}'
    )
    assert gaps.to_json() == text and Intervention.from_json(text) == gaps
    # what was written before there were gaps is read and written as it was
    old = '{"edits":[{"kind":"uniform_head"},{"kind":"window","radius":2}]}'
    assert Intervention.from_json(old).to_json() == old
    edit = BlockKeys(keys=(1,), block="cross")
    assert edit.describe(("The", "cat")) == "cross: “cat” hidden"
    swapped = SwapHead(source="It was wide.", token=1, stack="encoder", layer=0)
    assert swapped.describe(("The", "cat")).startswith("encoder L0: at “cat” gives")
    # rows of the decoder are words of the target, which these labels are not
    assert "word 1" in replace(swapped, stack="decoder").describe(("The", "cat"))
    first, second = (SwapHead(source="It was wide.", token=row, layer=0) for row in (1, 2))
    assert Intervention((first, second, replace(first))).edits == (second, first)
    assert len(Intervention((first, replace(first, token=None))).edits) == 2

    edit = SwapHead(source="The animal didn't cross the street because it was too wide.")
    assert edit.other == "… cross the street because it was too wide."


#: Each edit's fields after its kind, and words of the refusal.
BAD_EDITS = [
    ('"heat"', "no edit of kind 'heat'; known are temperature"),
    ('["temperature"]', "no edit of kind ['temperature']"),
    ('"temperature"', "'temperature' is incomplete"),
    ('"temperature", "value": -1', "value to be a number from 0; got -1"),
    ('"temperature", "value": "hot"', "got 'hot'"),
    ('"temperature", "value": 1, "floor": 2', "no word 'floor'"),
    ('"temperature", "value": 1, "head": -1', "head to be a number"),
    ('"causal", "on": 1', "on to be true or false; got 1"),
    ('"causal", "on": true, "stack": "middle"', "stack to be one of"),
    ('"mean_head", "mean": "x"', "the hash of stored means"),
    ('"swap_head", "source": " "', "source to be the other sentence"),
    ('"swap_head", "source": []', "or its token ids; got []"),
    ('"swap_head"', "'swap_head' is incomplete"),
    ('"swap_head", "source": "a", "token": -1', "token to be a number"),
    ('"swap_stream", "source": "a", "head": 1', "has no heads"),
    ('"swap_stream", "source": "a", "block": "self"', "left out"),
    ('"window", "radius": 1.5', "a whole number from 0; got 1.5"),
    ('"window", "radius": 10000000000000000000', "a whole number"),
    ('"window"', "'window' is incomplete"),
    ('"uniform_head", "on": 0', "on to be true or false; got 0"),
    ('"block_edges", "edges": [[1]]', "a list of [query, key] pairs"),
    ('"block_keys", "keys": [1e9]', "a list of numbers from 0"),
    ('"block_keys", "keys": [10000000000000000000]', "a list of"),
    ('"pad", "count": 1, "layer": 0', "it acts on the source"),
    ('"pad", "count": 10001', "a whole number from 0 to 10000"),
    ('"scale_head", "value": 1' + "0" * 400, "value to be a number"),
    ('"scale_head", "value": 1' + "0" * 5000, "is not JSON"),
    ('"scale_head", "value": -1e39', "value to be a number"),
]
BAD_TEXTS = [
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ("[]", 'an object with a list "edits"'),
    ('{"edits": [3]}', "no edit of kind 3"),
    *((f'{{"edits": [{{"kind": {fields}}}]}}', words) for fields, words in BAD_EDITS),
]


def test_bad_text_is_refused():
    for text, words in BAD_TEXTS:
        with pytest.raises(ValueError) as error:
            Intervention.from_json(text)
        assert words in str(error.value), text[:99]
    with pytest.raises(ValueError, match="a number from 0; got nan"):
        Temperature(value=float("nan"))


def test_the_last_edit_of_a_kind_acts_at_a_place():
    one, two = Temperature(value=2.0, layer=1), Temperature(value=3.0, layer=1)
    assert Intervention((one, two)).edits == (two,)
    assert Intervention((one, two)).without(two) == Intervention()

    wide, narrow = Temperature(value=2.0), Temperature(value=3.0, stack="encoder", head=1)
    here, there = Site("encoder", "self", 0, 1), Site("encoder", "self", 0, 2)
    both = Intervention((wide, narrow))
    assert both.find(Temperature, here) is narrow and both.find(Temperature, there) is wide
    assert both.find(Window, here) is None
    assert not ScaleHead(value=1.0, block="cross").matches(here)

    # integers and floats of one value are one identity
    assert Temperature(value=2) == Temperature(value=2.0)
    one = Intervention.from_json('{"edits":[{"kind":"temperature","value":2}]}')
    assert one.to_json() == '{"edits":[{"kind":"temperature","value":2.0}]}'

    assert not Intervention() and Intervention().describe() == "clean run, nothing changed"
    assert Intervention().to_json() == '{"edits":[]}'
    assert Causal(on=True).place == "everything"


Q, K = np.ogrid[0:5, 0:6]
NOTHING = np.zeros((5, 6), bool)
EXPECTED = {
    Causal(on=True): Q < K,
    Causal(on=False): NOTHING,
    Window(radius=1): np.abs(Q - K) >= 2,
    Window(radius=None): NOTHING,
    BlockKeys(keys=(0, 4)): np.broadcast_to(np.isin(K, (0, 4)), (5, 6)),
    BlockKeys(keys=()): NOTHING,
    BlockEdges(edges=((2, 5), (3, 0))): (Q == 2) & (K == 5) | (Q == 3) & (K == 0),
    Temperature(value=0.0): NOTHING,
}


def test_hidden_cells_of_numbers_numpy_and_torch_agree():
    for edit, wanted in EXPECTED.items():
        edits = [edit] if isinstance(edit, HidingEdit) else []
        arrays = hidden(edits, np.arange(5)[:, None], np.arange(6))
        tensors = hidden(edits, torch.arange(5)[:, None], torch.arange(6))
        numbers = [[hidden(edits, query, key) for key in range(6)] for query in range(5)]
        assert arrays.dtype == bool and tensors.dtype == torch.bool
        assert arrays.tolist() == tensors.tolist() == numbers == wanted.tolist(), edit


def test_the_last_match_of_each_kind_hides_and_causal_masks_self_attention_alone():
    wide, narrow = Window(radius=3), Window(radius=1, layer=0)
    edits = Intervention((BlockKeys(keys=(1,)), wide, narrow, Causal(on=True)))
    keys, causal = edits.edits[0], edits.edits[3]
    for site, wanted in (
        (Site("decoder", "self", 0, 1), (causal, narrow, keys)),
        (Site("decoder", "cross", 1, 1), (wide, keys)),
    ):
        assert HeadPlan.at(edits, site).hiding == wanted, site


def test_edited_weights_of_numpy_and_torch_agree():
    """Causal and padding masks by -inf and by low numbers, rows without any visible key, sinks."""
    rows, keys = 5, 6
    edits = Intervention(
        (
            *(Temperature(value=value, head=head) for head, value in enumerate((0.5, 0.0, 1e-31))),
            *(UniformHead(head=3), Temperature(value=0.0, head=3), Causal(on=False, head=4)),
            *(Window(radius=1, head=2), BlockKeys(keys=(0, 4)), BlockEdges(edges=((2, 3),))),
        )
    )
    plan = Plan.at(edits, Site("decoder", "self", 0), 5)
    assert plan is not None and plan.shapes_scores
    torch.manual_seed(0)
    for low in (-torch.inf, torch.finfo(torch.float32).min):
        for sinks in (0, 1):
            scores = torch.randn(2, 5, rows, keys + sinks).round(decimals=1)
            own = torch.ones(rows, keys + sinks).triu(1).bool().expand(scores.shape).clone()
            own[..., keys:] = False
            own[1, :, :, 2] = own[1, :, 1] = True
            given = (scores, scores.masked_fill(own, low), own, own.all(-2, keepdim=True))
            query = torch.arange(rows)
            found = plan.softmax(*given, query, keys)
            again = plan.softmax(*(x.numpy() for x in (*given, query)), keys)
            for one, other in zip(found, again, strict=True):
                assert other.dtype == np.float32, (low, sinks)
                np.testing.assert_allclose(other, one.numpy(), rtol=2e-6, err_msg=f"{low} {sinks}")
