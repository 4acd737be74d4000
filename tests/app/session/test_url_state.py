"""The link: an identity for every state, and a sentence for everything that cannot be read."""

from __future__ import annotations

import base64
import zlib
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given, strategies

from tests.support import link_keys
from transformer_viz.app.session import url_state
from transformer_viz.app.session.url_edits import CLEAN, pack, unpack
from transformer_viz.app.session.url_state import DEFAULTS, KEYS, read, write
from transformer_viz.core.editing.edit_controls import REACHES, SCOPES
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
from transformer_viz.core.palette import RAMPS
from transformer_viz.core.sites import MAPS, STACKS
from transformer_viz.i18n import languages
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.residual.norm_statistics import STATISTICS

TEXT = strategies.text(strategies.characters(exclude_categories=["Cs"]), max_size=60)
FINITE = strategies.floats(-100, 100)
PLACE = {"stack": "decoder", "block": "cross", "layer": 1}
EDIT = strategies.one_of(
    strategies.builds(lambda v: Temperature(value=abs(v), **PLACE), FINITE),
    strategies.builds(
        lambda v, h: ScaleHead(value=v, head=h, **PLACE), FINITE, strategies.integers(0, 7)
    ),
    strategies.builds(lambda on: UniformHead(on=on), strategies.booleans()),
    strategies.builds(lambda on: Causal(on=on, stack="decoder"), strategies.booleans()),
    strategies.builds(lambda r: Window(radius=r), strategies.none() | strategies.integers(0, 40)),
    strategies.builds(
        lambda k: BlockKeys(keys=tuple(k)), strategies.lists(strategies.integers(0, 90))
    ),
    strategies.builds(
        lambda n, m: Pad(count=n, masked=m), strategies.integers(0, 20), strategies.booleans()
    ),
    strategies.builds(lambda v: ScalePositions(value=v), FINITE),
)

FULL = {
    "model": 'path:ckpt.pt//{"heads":8,"norm":"post"}',
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
    "answer": 3,
    "stack": "decoder",
    "place": 2,
    "shift": 5,
    "pair": 17,
    "word": 6,
    "site": "decoder.layers.0.cross_norm",
    "statistic": "output_mean",
    "reach": "encoder",
    "order": 4,
    "second": "Und noch einer.",
    "masked": (2, 5, 11),
    "picture": "seven",
    "seed": 6,
    "over": "gradients",
    "chosen": 7,
    "checkpoint": 'path:runs/ckpt.pt//{"heads":8}',
    "view": "lines",
    "key": 0,
    "blocks": "all",
    "sort": "entropy",
    "scale": "common",
    "ramp": "cividis",
    "gamma": 0.45,
    "threshold": 0.125,
    "top": 3,
    "overlay": ((0, 3), (11, 0)),
    "zoom": ((3, 20), (0, 128)),
    "lang": "zh",
    "present": True,
    "station": 4,
    "predicted": ((1, 0), (2, 3)),
    "step": 7,
    "number": "qkv.self/k/3/17",
    "search": "sample",
    "drawing": 0.7,
    "played": 3,
    "branch": "3.1",
    "pooled": False,
    "heads_on": "sentence",
    "heads_by": "previous",
    "removal": "zero",
    "aligned": "1.3",
    "aligned_row": "in",
    "gold": "0-0 1p2",
    "gold_from_one": True,
    "other": "Noch ein Satz.",
    "between": "es, sie",
    "swapped": "stream",
    "corpus": "path:runs/atlas",
    "corpus_by": "entropy",
    "versus": "step",
    "weighed": "content",
    "opposite": "match",
    "beside": "en-mlm",
    "moments": (256, 4096),
    "seen": "cross.1.3",
    "lab": "scale",
    "tried": "guess=1;d=64",
}
NUMBER = strategies.integers(0, 99_999)
PAIR = strategies.tuples(NUMBER, NUMBER)
#: What each key may hold; the words of the edits are whatever an intervention can say.
STATES = strategies.fixed_dictionaries(
    {
        "model": TEXT,
        "text": TEXT,
        "target": TEXT,
        "site": TEXT,
        "second": TEXT,
        "picture": TEXT,
        "checkpoint": TEXT,
        "masked": strategies.sets(NUMBER).map(lambda numbers: tuple(sorted(numbers))),
        "over": strategies.sampled_from(url_state.OVERS),
        "chosen": strategies.none() | NUMBER,
        "beam": strategies.integers(1, 8),
        "edits": strategies.lists(EDIT, max_size=12).map(
            lambda e: Intervention(tuple(e)).to_json()
        ),
        "block": strategies.sampled_from(list(MAPS)),
        "compare": strategies.sampled_from(url_state.COMPARES),
        "scope": strategies.sampled_from(list(SCOPES)),
        "stack": strategies.sampled_from(STACKS),
        "statistic": strategies.sampled_from([s.name for s in STATISTICS]),
        "reach": strategies.sampled_from(list(REACHES)),
        "swapped": strategies.sampled_from(list(url_state.KINDS)),
        "corpus_by": strategies.sampled_from([one.name for one in MEASURES]),
        "versus": strategies.sampled_from(url_state.VERSUS),
        "weighed": strategies.sampled_from(url_state.WEIGHED),
        "opposite": strategies.sampled_from(url_state.OPPOSITES),
        "moments": strategies.sets(NUMBER).map(lambda numbers: tuple(sorted(numbers))),
        "aligned": strategies.just("")
        | NUMBER.map(str)
        | PAIR.map(lambda pair: "{}.{}".format(*pair)),
        "aligned_row": strategies.sampled_from(url_state.SHIFTS),
        "heads_on": strategies.sampled_from(url_state.HEADS_ON),
        "heads_by": strategies.sampled_from(url_state.HEADS_BY),
        "removal": strategies.sampled_from(url_state.REMOVALS),
        "view": strategies.sampled_from(url_state.VIEWS),
        "key": strategies.none() | NUMBER,
        "blocks": strategies.sampled_from(url_state.BLOCKS),
        "sort": strategies.sampled_from(url_state.SORTS),
        "scale": strategies.sampled_from(url_state.SCALES),
        "ramp": strategies.sampled_from(RAMPS),
        "gamma": strategies.integers(25, 400).map(lambda n: n / 100),
        "threshold": strategies.integers(0, 1000).map(lambda n: n / 1000),
        "overlay": strategies.lists(PAIR, max_size=9, unique=True).map(tuple),
        "zoom": strategies.none() | strategies.tuples(PAIR, PAIR),
        "lang": strategies.sampled_from(list(languages())),
        "predicted": strategies.lists(PAIR, max_size=10, unique=True).map(tuple),
        "search": strategies.sampled_from(url_state.SEARCHES),
        "drawing": strategies.integers(10, 500).map(lambda n: n / 100),
        **dict.fromkeys(("number", "branch", "gold", "other", "between", "lab", "tried"), TEXT),
        **dict.fromkeys(("beside", "corpus", "seen"), TEXT),
        **dict.fromkeys(("present", "pooled", "gold_from_one"), strategies.booleans()),
        "words": strategies.booleans(),
        "special": strategies.booleans(),
        **dict.fromkeys(
            (
                "layer",
                "head",
                "token",
                "answer",
                "place",
                "shift",
                "pair",
                "word",
                "order",
                "station",
                "step",
                "played",
                "seed",
                "top",
            ),
            NUMBER,
        ),
    }
)


@given(STATES)
def test_any_state_comes_back_from_its_link(state: dict[str, object]) -> None:
    assert set(state) == {key.name for key in KEYS}
    there = urlencode(write(state, DEFAULTS))
    assert read(dict(parse_qsl(there, keep_blank_values=True)), DEFAULTS) == (state, [])


def test_the_round_trip_is_an_identity() -> None:
    assert set(FULL) == {key.name for key in KEYS}
    assert read(write(FULL, DEFAULTS), DEFAULTS) == (FULL, [])
    assert write(DEFAULTS, DEFAULTS) == {}
    assert read({}, DEFAULTS) == (DEFAULTS, [])


def test_long_edits_are_compressed_and_come_back() -> None:
    edits = Intervention(
        tuple(BlockKeys(keys=tuple(range(30)), stack="encoder", layer=n) for n in range(12))
    ).to_json()
    packed = pack(edits)
    assert packed.startswith("z.") and len(packed) < len(edits) / 4
    assert unpack(packed) == edits
    assert pack(CLEAN) == CLEAN


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
        ("masked", "3,four", "whole number"),
        ("masked", "3,,4", "whole number"),
        ("masked", ",".join(map(str, range(301))), "names 301 places; it may name 300"),
        ("predicted", "1.1," * 300 + "1.1", "names 301 places; it may name 300"),
        ("over", "everything", "weights, gradients"),
        ("view", "raster", "map, lines, qk"),
        ("key", "-1", "whole number"),
        ("ramp", "jet", "ink, viridis, cividis, grey"),
        ("gamma", "0", "0.25 to 4"),
        ("gamma", "nan", "0.25 to 4"),
        ("threshold", "1.5", "0 to 1"),
        ("threshold", "inf", "0 to 1"),
        ("overlay", "1.2,3", "such as 1.3"),
        ("overlay", "1.2,3.x", "whole number"),
        ("zoom", "3-9", "such as 1-3"),
        ("zoom", "3-9,4", "such as 1-3"),
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
    assert url_state.others(shown) == {"embed_options": "x", "utm": "1"}


def test_each_key_says_what_it_means_and_the_guide_lists_them() -> None:
    assert all(key.means for key in KEYS)
    assert link_keys.PATH.read_text("utf-8") == link_keys.text(), (
        "run python -m tests.support.link_keys"
    )
