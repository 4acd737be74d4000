"""Controls and edits: what is written where, and what a control shows afterwards."""

from __future__ import annotations

import pytest

from transformer_viz.app.session import position_edits
from transformer_viz.app.session.undo_history import History
from transformer_viz.core.editing import edit_controls
from transformer_viz.core.editing.edit_controls import REACHES, SCOPES, Place
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.sites import STACKS

CLEAN = Intervention()


def _place(scope: str = "head", block: str = "cross", layer: int = 1, head: int = 3) -> Place:
    return Place(block, layer, head, scope)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_control_shows_what_it_wrote_and_neutral_takes_it_back(scope: str) -> None:
    place = _place(scope)
    warm = edit_controls.set_temperature(CLEAN, place, 2.5)
    assert edit_controls.temperature(warm, place) == 2.5 and len(warm.edits) == 1
    assert edit_controls.set_temperature(warm, place, 1.0) == CLEAN

    near = edit_controls.set_window(CLEAN, place, 2)
    assert edit_controls.window(near, place) == 2
    assert edit_controls.set_window(near, place, None) == CLEAN

    blind = edit_controls.set_hidden(CLEAN, place, [4, 2])
    assert edit_controls.hidden(blind, place) == (2, 4)
    assert edit_controls.set_hidden(blind, place, []) == CLEAN

    cut = edit_controls.set_cut(CLEAN, place, 5, [2])
    assert edit_controls.cut(cut, place, 5) == (2,) and edit_controls.cut(cut, place, 4) == ()
    assert edit_controls.set_cut(cut, place, 5, []) == CLEAN

    for state in ("off", "uniform", "scale"):
        changed = edit_controls.set_head_state(CLEAN, place, state)
        assert edit_controls.head_state(changed, place)[0] == state
        assert edit_controls.set_head_state(changed, place, "on") == CLEAN


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
    narrow = edit_controls.set_temperature(CLEAN, _place("head"), 2.0)
    wide = edit_controls.set_temperature(narrow, _place("everything"), 3.0)
    assert wide.edits == (Temperature(value=3.0),)


def test_a_narrow_neutral_value_is_written_where_a_wide_edit_stands() -> None:
    wide = edit_controls.set_temperature(CLEAN, _place("everything"), 3.0)
    both = edit_controls.set_temperature(wide, _place("head"), 1.0)
    assert edit_controls.temperature(both, _place()) == 1.0
    assert edit_controls.temperature(both, _place(head=4)) == 3.0
    assert edit_controls.set_temperature(both, _place("head"), 3.0) == wide


def test_states_of_a_head_exclude_each_other() -> None:
    off = edit_controls.set_head_state(CLEAN, _place(), "off")
    uniform = edit_controls.set_head_state(off, _place(), "uniform")
    assert [type(edit) for edit in uniform] == [UniformHead]
    scaled = edit_controls.set_head_state(uniform, _place(), "scale", 0.25)
    assert scaled.edits == (ScaleHead(value=0.25, **_place().selectors),)


def test_causal_shows_the_models_own_mask_until_it_is_changed() -> None:
    assert edit_controls.causal(CLEAN, _place(block="decoder"))
    assert not edit_controls.causal(CLEAN, _place(block="encoder"))
    off = edit_controls.set_causal(CLEAN, _place("block", "decoder"), False)
    assert off.edits == (Causal(on=False, stack="decoder", block="self"),)
    assert edit_controls.answers_itself(off)
    assert not edit_controls.answers_itself(
        edit_controls.set_causal(CLEAN, _place("block", "encoder"), True)
    )
    assert edit_controls.set_causal(off, _place("block", "decoder"), True) == CLEAN


def test_hiding_a_source_word_from_everyone_means_encoder_and_cross() -> None:
    hidden = edit_controls.set_hidden(CLEAN, _place("everything"), [3])
    assert hidden.edits == (
        BlockKeys(keys=(3,), stack="encoder", block="self"),
        BlockKeys(keys=(3,), stack="decoder", block="cross"),
    )
    target = edit_controls.set_hidden(CLEAN, _place("everything", "decoder"), [1])
    assert target.edits == (BlockKeys(keys=(1,), stack="decoder", block="self"),)


def test_other_kinds_and_places_stay() -> None:
    before = Intervention((Window(radius=3), Temperature(value=2.0, stack="encoder", block="self")))
    after = edit_controls.set_temperature(before, _place("block"), 4.0)
    assert after.edits[:2] == before.edits and len(after.edits) == 3


def test_an_edit_that_names_cross_alone_means_the_decoders_cross() -> None:
    linked = Intervention((Temperature(value=2.0, block="cross"),))
    assert edit_controls.set_temperature(linked, _place("block"), 1.0) == CLEAN


@pytest.mark.parametrize("state", ["off", "scale", "uniform"])
@pytest.mark.parametrize("other", ["on", "off", "scale", "uniform"])
def test_one_head_may_differ_from_its_block_in_any_state(state: str, other: str) -> None:
    wide = edit_controls.set_head_state(CLEAN, _place("block"), state)
    both = edit_controls.set_head_state(wide, _place(), other)
    assert edit_controls.head_state(both, _place())[0] == other
    assert edit_controls.head_state(both, _place(head=2))[0] == state
    assert edit_controls.set_head_state(both, _place(), state) == wide
    assert edit_controls.set_head_state(both, _place("block"), "on") == CLEAN


def test_one_head_may_be_without_the_window_of_its_block() -> None:
    wide = edit_controls.set_window(CLEAN, _place("block"), 1)
    both = edit_controls.set_window(wide, _place(), None)
    assert (
        edit_controls.window(both, _place()) is None
        and edit_controls.window(both, _place(head=2)) == 1
    )
    assert edit_controls.set_window(both, _place("block"), None) == CLEAN


def test_padding_is_one_edit_of_the_source() -> None:
    padded = edit_controls.set_padding(CLEAN, 3, False)
    assert edit_controls.padding(padded) == (3, False) and edit_controls.padding(CLEAN) == (0, True)
    assert edit_controls.set_padding(padded, 2, True).edits == (Pad(count=2),)
    assert edit_controls.set_padding(padded, 0, False) == CLEAN


@pytest.mark.parametrize("reach", REACHES)
def test_positions_are_changed_for_the_sentences_that_are_chosen(reach: str) -> None:
    dropped = position_edits.set_scale(CLEAN, reach, 0.0)
    both = position_edits.set_shuffled(dropped, reach, 4)
    assert len(both.edits) == 2
    for other in STACKS:
        inside = reach in ("both", other)
        assert position_edits.scale(both, other) == (0.0 if inside else 1.0)
        assert position_edits.shuffled(both, other) == (4 if inside else None)
    assert position_edits.set_shuffled(both, reach, None) == dropped
    assert position_edits.set_scale(dropped, reach, 1.0) == CLEAN


def test_positions_of_one_sentence_may_be_taken_out_of_both() -> None:
    both = position_edits.set_scale(CLEAN, "both", 0.5)
    assert both.edits == (ScalePositions(value=0.5),)
    one = position_edits.set_scale(both, "encoder", 1.0)
    assert one.edits == (ScalePositions(value=0.5, stack="decoder"),)
    assert position_edits.set_scale(one, "encoder", 0.5) == both


def test_undo_and_redo_walk_through_what_was_done() -> None:
    past = History()
    assert past.undo("a") == (past, "a") and past.redo("a") == (past, "a")
    two = past.did("a").did("b")  # now "c"
    once, shown = two.undo("c")
    assert shown == "b" and once.redo("b") == (two, "c")
    twice, first = once.undo(shown)
    assert first == "a" and not twice.past and twice.future == ("c", "b")
    assert once.did("b").future == ()  # a new change forgets what was undone
    for number in range(200):
        past = past.did(str(number))
    assert len(past.past) == 100


def test_one_head_may_be_spared_the_cut_of_its_block() -> None:
    wide = edit_controls.set_cut(CLEAN, _place("block"), 5, [2])
    both = edit_controls.set_cut(wide, _place(), 5, [])
    assert edit_controls.cut(both, _place(), 5) == () and edit_controls.cut(
        both, _place(head=2), 5
    ) == (2,)
    assert edit_controls.set_cut(both, _place("block"), 5, []) == CLEAN
