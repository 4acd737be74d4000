"""The link: an identity for every state, and a sentence for everything that cannot be read."""

from __future__ import annotations

import base64
import zlib

import pytest

from transformer_viz.interventions import BlockKeys, Intervention, Temperature
from transformer_viz.pages import link
from transformer_viz.pages.link import CLEAN, DEFAULTS, KEYS, read, write

FULL = {
    "model": "en-de",
    "text": "Ünïcode & so = on? #1 🙂",
    "target": "Ein Satz.",
    "beam": 2,
    "edits": Intervention((Temperature(value=2.5, stack="decoder", block="cross"),)).to_json(),
    "block": "encoder",
    "layer": 2,
    "head": 7,
    "token": 4,
    "compare": "difference",
    "words": True,
    "special": False,
    "scope": "layer",
}


def test_the_round_trip_is_an_identity() -> None:
    assert set(FULL) == {key.name for key in KEYS}
    assert read(write(FULL, DEFAULTS), DEFAULTS) == (FULL, [])
    assert write(DEFAULTS, DEFAULTS) == {}
    assert read({}, DEFAULTS) == (DEFAULTS, [])


def test_long_edits_are_compressed_and_come_back() -> None:
    edits = Intervention(
        tuple(BlockKeys(keys=tuple(range(30)), stack="encoder", layer=n) for n in range(12))
    ).to_json()
    packed = link.pack(edits)
    assert packed.startswith("z.") and len(packed) < len(edits) / 4
    assert link.unpack(packed) == edits
    assert link.pack(CLEAN) == CLEAN


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("beam", "99", "1 to 8"),
        ("beam", "four", "1 to 8"),
        ("block", "sideways", "encoder, decoder, cross"),
        ("layer", "-1", "whole number"),
        ("layer", "²", "whole number"),
        ("head", "1e9", "whole number"),
        ("token", "", "whole number"),
        ("compare", "<script>", "now, before, difference"),
        ("words", "maybe", "on, off"),
        ("scope", "universe", "everything"),
        ("edits", "{broken", "not JSON"),
        ("edits", "[]", "object with a list"),
        ("edits", '{"edits":[{"kind":"melt"}]}', "no edit of kind 'melt'"),
        ("edits", '{"edits":[{"kind":"temperature","value":-1}]}', "number from 0"),
        ("edits", "[" * 100_000, "cannot be read"),
        ("edits", "z.!!!", "damaged"),
        ("edits", "z.AAAA", "damaged"),
        ("edits", "z." + base64.urlsafe_b64encode(zlib.compress(b" " * 10**6)).decode(), "larger"),
    ],
)
def test_bad_values_fall_back_and_say_so(name: str, text: str, says: str) -> None:
    values, complaints = read({name: text, "text": "kept"}, DEFAULTS)
    assert values == DEFAULTS | {"text": "kept"}
    assert len(complaints) == 1 and name in complaints[0] and says in complaints[0]
    assert len(complaints[0]) < 600


def test_parameters_of_others_are_left_alone() -> None:
    shown = {"embed_options": "x", "utm": "1", "layer": "5"}
    assert link.merged(shown, DEFAULTS | {"head": 2}, DEFAULTS) == {
        "embed_options": "x",
        "utm": "1",
        "head": "2",
    }
