"""Controls and edits: what is written where, and what a control shows afterwards."""

from __future__ import annotations

import pytest

from transformer_viz.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.pages import edits
from transformer_viz.pages.edits import SCOPES, Place

CLEAN = Intervention()


def _place(scope: str = "head", block: str = "cross", layer: int = 1, head: int = 3) -> Place:
    return Place(block, layer, head, scope)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_control_shows_what_it_wrote_and_neutral_takes_it_back(scope: str) -> None:
    place = _place(scope)
    warm = edits.set_temperature(CLEAN, place, 2.5)
    assert edits.temperature(warm, place) == 2.5 and len(warm.edits) == 1
    assert edits.set_temperature(warm, place, 1.0) == CLEAN

    near = edits.set_window(CLEAN, place, 2)
    assert edits.window(near, place) == 2
    assert edits.set_window(near, place, None) == CLEAN

    blind = edits.set_hidden(CLEAN, place, [4, 2])
    assert edits.hidden(blind, place) == (2, 4)
    assert edits.set_hidden(blind, place, []) == CLEAN

    cut = edits.set_cut(CLEAN, place, 5, [2])
    assert edits.cut(cut, place, 5) == (2,) and edits.cut(cut, place, 4) == ()
    assert edits.set_cut(cut, place, 5, []) == CLEAN

    for state in ("off", "uniform", "scale"):
        changed = edits.set_head_state(CLEAN, place, state)
        assert edits.head_state(changed, place)[0] == state
        assert edits.set_head_state(changed, place, "on") == CLEAN


def test_scopes_select_what_they_say() -> None:
    wanted = {
        "everything": {},
        "block": {"stack": "decoder", "block": "cross"},
        "layer": {"stack": "decoder", "block": "cross", "layer": 1},
        "head": {"stack": "decoder", "block": "cross", "layer": 1, "head": 3},
    }
    for scope, words in wanted.items():
        assert _place(scope).selectors == words


def test_a_wide_change_takes_the_place_of_narrow_ones() -> None:
    narrow = edits.set_temperature(CLEAN, _place("head"), 2.0)
    wide = edits.set_temperature(narrow, _place("everything"), 3.0)
    assert wide.edits == (Temperature(value=3.0),)


def test_a_narrow_neutral_value_is_written_where_a_wide_edit_stands() -> None:
    wide = edits.set_temperature(CLEAN, _place("everything"), 3.0)
    both = edits.set_temperature(wide, _place("head"), 1.0)
    assert edits.temperature(both, _place()) == 1.0
    assert edits.temperature(both, _place(head=4)) == 3.0
    assert edits.set_temperature(both, _place("head"), 3.0) == wide


def test_states_of_a_head_exclude_each_other() -> None:
    off = edits.set_head_state(CLEAN, _place(), "off")
    uniform = edits.set_head_state(off, _place(), "uniform")
    assert [type(edit) for edit in uniform] == [UniformHead]
    scaled = edits.set_head_state(uniform, _place(), "scale", 0.25)
    assert scaled.edits == (ScaleHead(value=0.25, **_place().selectors),)


def test_causal_shows_the_models_own_mask_until_it_is_changed() -> None:
    assert edits.causal(CLEAN, _place(block="decoder"))
    assert not edits.causal(CLEAN, _place(block="encoder"))
    off = edits.set_causal(CLEAN, _place("block", "decoder"), False)
    assert off.edits == (Causal(on=False, stack="decoder", block="self"),)
    assert edits.answers_itself(off)
    assert not edits.answers_itself(edits.set_causal(CLEAN, _place("block", "encoder"), True))
    assert edits.set_causal(off, _place("block", "decoder"), True) == CLEAN


def test_hiding_a_source_word_from_everyone_means_encoder_and_cross() -> None:
    hidden = edits.set_hidden(CLEAN, _place("everything"), [3])
    assert hidden.edits == (
        BlockKeys(keys=(3,), stack="encoder", block="self"),
        BlockKeys(keys=(3,), stack="decoder", block="cross"),
    )
    target = edits.set_hidden(CLEAN, _place("everything", "decoder"), [1])
    assert target.edits == (BlockKeys(keys=(1,), stack="decoder", block="self"),)


def test_other_kinds_and_places_stay() -> None:
    before = Intervention((Window(radius=3), Temperature(value=2.0, stack="encoder", block="self")))
    after = edits.set_temperature(before, _place("block"), 4.0)
    assert after.edits[:2] == before.edits and len(after.edits) == 3


def test_an_edit_that_names_cross_alone_means_the_decoders_cross() -> None:
    linked = Intervention((Temperature(value=2.0, block="cross"),))
    assert edits.set_temperature(linked, _place("block"), 1.0) == CLEAN
