"""Controls of the page: the edits they write, and the values they show afterwards."""

from __future__ import annotations

from transformer_viz.app.session import position_edits
from transformer_viz.app.session.undo_history import History
from transformer_viz.core.editing import edit_controls as controls
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
STATES = ("off", "scale", "uniform")


def place(scope: str = "head", block: str = "cross", layer: int = 1, head: int = 3) -> Place:
    return Place(block, layer, head, scope)


def test_a_control_shows_its_value_and_the_neutral_value_removes_the_edit():
    wanted = {"everything": {}, "block": {"stack": "decoder", "block": "cross"}}
    wanted["layer"] = wanted["block"] | {"layer": 1}
    wanted["head"] = wanted["layer"] | {"head": 3}
    assert list(wanted) == list(SCOPES)
    for scope in SCOPES:
        at = place(scope)
        assert at.selectors == wanted[scope]
        warm = controls.set_temperature(CLEAN, at, 2.5)
        assert controls.temperature(warm, at) == 2.5 and len(warm.edits) == 1, scope
        assert controls.set_temperature(warm, at, 1.0) == CLEAN, scope
        near = controls.set_window(CLEAN, at, 2)
        assert controls.window(near, at) == 2, scope
        assert controls.set_window(near, at, None) == CLEAN, scope
        blind = controls.set_hidden(CLEAN, at, [4, 2])
        assert controls.hidden(blind, at) == (2, 4), scope
        assert controls.set_hidden(blind, at, []) == CLEAN, scope
        cut = controls.set_cut(CLEAN, at, 5, [2])
        assert controls.cut(cut, at, 5) == (2,) and controls.cut(cut, at, 4) == (), scope
        assert controls.set_cut(cut, at, 5, []) == CLEAN, scope
        for state in STATES:
            changed = controls.set_head_state(CLEAN, at, state)
            assert controls.head_state(changed, at)[0] == state, scope
            assert controls.set_head_state(changed, at, "on") == CLEAN, (scope, state)


def test_wide_and_narrow_edits_of_one_kind():
    narrow = controls.set_temperature(CLEAN, place("head"), 2.0)
    wide = controls.set_temperature(narrow, place("everything"), 3.0)
    assert wide.edits == (Temperature(value=3.0),)
    both = controls.set_temperature(wide, place("head"), 1.0)
    assert controls.temperature(both, place()) == 1.0
    assert controls.temperature(both, place(head=4)) == 3.0
    assert controls.set_temperature(both, place("head"), 3.0) == wide
    before = Intervention((Window(radius=3), Temperature(value=2.0, stack="encoder", block="self")))
    after = controls.set_temperature(before, place("block"), 4.0)
    assert after.edits[:2] == before.edits and len(after.edits) == 3
    linked = Intervention((Temperature(value=2.0, block="cross"),))  # the decoder's
    assert controls.set_temperature(linked, place("block"), 1.0) == CLEAN


def test_one_head_may_differ_from_its_block_and_has_one_state():
    for state in STATES:
        wide = controls.set_head_state(CLEAN, place("block"), state)
        for other in ("on", *STATES):
            both = controls.set_head_state(wide, place(), other)
            assert controls.head_state(both, place())[0] == other, (state, other)
            assert controls.head_state(both, place(head=2))[0] == state, (state, other)
            assert controls.set_head_state(both, place(), state) == wide, (state, other)
            assert controls.set_head_state(both, place("block"), "on") == CLEAN, (state, other)
    wide = controls.set_window(CLEAN, place("block"), 1)
    both = controls.set_window(wide, place(), None)
    assert controls.window(both, place()) is None and controls.window(both, place(head=2)) == 1
    assert controls.set_window(both, place("block"), None) == CLEAN
    wide = controls.set_cut(CLEAN, place("block"), 5, [2])
    both = controls.set_cut(wide, place(), 5, [])
    assert controls.cut(both, place(), 5) == ()
    assert controls.cut(both, place(head=2), 5) == (2,)
    assert controls.set_cut(both, place("block"), 5, []) == CLEAN
    off = controls.set_head_state(CLEAN, place(), "off")
    uniform = controls.set_head_state(off, place(), "uniform")
    assert [type(edit) for edit in uniform] == [UniformHead]
    scaled = controls.set_head_state(uniform, place(), "scale", 0.25)
    assert scaled.edits == (ScaleHead(value=0.25, **place().selectors),)


def test_causal_mask_hidden_words_and_padding():
    decoder = place("block", "decoder")
    assert controls.causal(CLEAN, place(block="decoder"))  # the model's own mask
    assert not controls.causal(CLEAN, place(block="encoder"))
    off = controls.set_causal(CLEAN, decoder, False)
    assert off.edits == (Causal(on=False, stack="decoder", block="self"),)
    assert controls.answers_itself(off) and controls.set_causal(off, decoder, True) == CLEAN
    assert not controls.answers_itself(controls.set_causal(CLEAN, place("block", "encoder"), True))
    hidden = controls.set_hidden(CLEAN, place("everything"), [3])
    assert hidden.edits == (
        BlockKeys(keys=(3,), stack="encoder", block="self"),
        BlockKeys(keys=(3,), stack="decoder", block="cross"),
    )
    target = controls.set_hidden(CLEAN, place("everything", "decoder"), [1])
    assert target.edits == (BlockKeys(keys=(1,), stack="decoder", block="self"),)
    padded = controls.set_padding(CLEAN, 3, False)
    assert controls.padding(padded) == (3, False) and controls.padding(CLEAN) == (0, True)
    assert controls.set_padding(padded, 2, True).edits == (Pad(count=2),)
    assert controls.set_padding(padded, 0, False) == CLEAN


def test_positions_change_for_the_chosen_sentences():
    for reach in REACHES:
        dropped = position_edits.set_scale(CLEAN, reach, 0.0)
        both = position_edits.set_shuffled(dropped, reach, 4)
        assert len(both.edits) == 2
        for other in STACKS:
            inside = reach in ("both", other)
            assert position_edits.scale(both, other) == (0.0 if inside else 1.0), (reach, other)
            assert position_edits.shuffled(both, other) == (4 if inside else None), (reach, other)
        assert position_edits.set_shuffled(both, reach, None) == dropped
        assert position_edits.set_scale(dropped, reach, 1.0) == CLEAN
    both = position_edits.set_scale(CLEAN, "both", 0.5)
    assert both.edits == (ScalePositions(value=0.5),)
    one = position_edits.set_scale(both, "encoder", 1.0)
    assert one.edits == (ScalePositions(value=0.5, stack="decoder"),)
    assert position_edits.set_scale(one, "encoder", 0.5) == both


def test_undo_and_redo():
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
