"""The link: an identity for every state, and a sentence for everything that cannot be read."""

from __future__ import annotations

import base64
import zlib
from urllib.parse import parse_qsl, urlencode

from hypothesis import given
from hypothesis import strategies as draw

from tests.support import link_keys
from transformer_viz.app.session import url_state
from transformer_viz.app.session.url_edits import CLEAN, pack, unpack
from transformer_viz.app.session.url_state import DEFAULTS, KEYS, read, write
from transformer_viz.core import interventions as edit
from transformer_viz.core.editing.edit_controls import REACHES, SCOPES
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature
from transformer_viz.core.palette import RAMPS
from transformer_viz.core.sites import MAPS, STACKS
from transformer_viz.i18n import languages
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.residual.norm_statistics import STATISTICS

TEXT = draw.text(draw.characters(exclude_categories=["Cs"]), max_size=60)
FINITE, SWITCH, NUMBER = draw.floats(-100, 100), draw.booleans(), draw.integers(0, 99_999)
PAIR = draw.tuples(NUMBER, NUMBER)
PAIRS = draw.lists(PAIR, max_size=9, unique=True).map(tuple)
SORTED = draw.sets(NUMBER).map(lambda numbers: tuple(sorted(numbers)))
PLACE = {"stack": "decoder", "block": "cross", "layer": 1}
EDIT = draw.one_of(
    draw.builds(lambda v: Temperature(value=abs(v), **PLACE), FINITE),
    draw.builds(lambda v, h: edit.ScaleHead(value=v, head=h, **PLACE), FINITE, draw.integers(0, 7)),
    draw.builds(lambda on: edit.UniformHead(on=on), SWITCH),
    draw.builds(lambda on: edit.Causal(on=on, stack="decoder"), SWITCH),
    draw.builds(lambda r: edit.Window(radius=r), draw.none() | draw.integers(0, 40)),
    draw.builds(lambda k: BlockKeys(keys=tuple(k)), draw.lists(draw.integers(0, 90))),
    draw.builds(lambda n, m: edit.Pad(count=n, masked=m), draw.integers(0, 20), SWITCH),
    draw.builds(lambda v: edit.ScalePositions(value=v), FINITE),
)
EDITS = draw.lists(EDIT, max_size=12).map(lambda edits: Intervention(tuple(edits)).to_json())
# fmt: off
TEXTS = (
    "model", "text", "target", "site", "second", "picture", "checkpoint", "number", "branch",
    "gold", "other", "between", "lab", "tried", "beside", "corpus", "seen",
)
NUMBERS = (
    "layer", "head", "token", "answer", "place", "shift", "pair", "word", "order", "station",
    "step", "played", "seed", "top",
)
SWITCHES = ("present", "pooled", "gold_from_one", "words", "special")
CHOICES = {
    "over": url_state.OVERS, "block": MAPS, "compare": url_state.COMPARES, "scope": SCOPES,
    "stack": STACKS, "statistic": [one.name for one in STATISTICS], "reach": REACHES,
    "swapped": url_state.KINDS, "corpus_by": [one.name for one in MEASURES],
    "versus": url_state.VERSUS, "weighed": url_state.WEIGHED, "opposite": url_state.OPPOSITES,
    "aligned_row": url_state.SHIFTS, "heads_on": url_state.HEADS_ON,
    "heads_by": url_state.HEADS_BY, "removal": url_state.REMOVALS, "view": url_state.VIEWS,
    "blocks": url_state.BLOCKS, "sort": url_state.SORTS, "scale": url_state.SCALES,
    "ramp": RAMPS, "lang": languages(), "search": url_state.SEARCHES,
}
# fmt: on
#: What each key may hold; the edits are whatever an intervention can say.
STATES = draw.fixed_dictionaries(
    dict.fromkeys(TEXTS, TEXT)
    | dict.fromkeys(NUMBERS, NUMBER)
    | dict.fromkeys(SWITCHES, SWITCH)
    | {name: draw.sampled_from(list(values)) for name, values in CHOICES.items()}
    | dict.fromkeys(("masked", "moments"), SORTED)
    | dict.fromkeys(("chosen", "key"), draw.none() | NUMBER)
    | dict.fromkeys(("overlay", "predicted"), PAIRS)
    | {
        "beam": draw.integers(1, 8),
        "edits": EDITS,
        "aligned": draw.just("") | NUMBER.map(str) | PAIR.map(lambda pair: "{}.{}".format(*pair)),
        "gamma": draw.integers(25, 400).map(lambda n: n / 100),
        "threshold": draw.integers(0, 1000).map(lambda n: n / 1000),
        "zoom": draw.none() | draw.tuples(PAIR, PAIR),
        "drawing": draw.integers(10, 500).map(lambda n: n / 100),
    }
)


@given(STATES)
def test_any_state_comes_back_from_its_link(state: dict[str, object]) -> None:
    assert set(state) == {key.name for key in KEYS}
    there = urlencode(write(state, DEFAULTS))
    assert read(dict(parse_qsl(there, keep_blank_values=True)), DEFAULTS) == (state, [])


def test_defaults_and_parameters_of_others_are_left_alone() -> None:
    assert write(DEFAULTS, DEFAULTS) == {}
    assert read({}, DEFAULTS) == (DEFAULTS, [])
    shown = {"embed_options": "x", "utm": "1", "layer": "5"}
    assert url_state.others(shown) == {"embed_options": "x", "utm": "1"}


def test_long_edits_are_compressed_and_come_back() -> None:
    hidden = [BlockKeys(keys=tuple(range(30)), stack="encoder", layer=n) for n in range(12)]
    edits = Intervention(tuple(hidden)).to_json()
    packed = pack(edits)
    assert packed.startswith("z.") and len(packed) < len(edits) / 4
    assert unpack(packed) == edits and pack(CLEAN) == CLEAN


def test_bad_values_fall_back_and_are_reported() -> None:
    bomb = "z." + base64.urlsafe_b64encode(zlib.compress(b" " * 10**6)).decode()
    # fmt: off
    for name, said, *texts in (
        ("beam", "1 to 8", "99", "four"),
        ("block", "encoder, decoder, cross", "sideways"),
        ("layer", "whole number", "-1", "²"),
        ("head", "whole number", "1e9"),
        ("token", "whole number", ""),
        ("key", "whole number", "-1"),
        ("masked", "whole number", "3,four", "3,,4"),
        ("masked", "names 301 places; it may name 300", ",".join(map(str, range(301)))),
        ("predicted", "names 301 places; it may name 300", "1.1," * 300 + "1.1"),
        ("over", "weights, gradients", "everything"),
        ("view", "map, lines, qk", "raster"),
        ("ramp", "ink, viridis, cividis, grey", "jet"),
        ("gamma", "0.25 to 4", "0", "nan"),
        ("threshold", "0 to 1", "1.5", "inf"),
        ("overlay", "such as 1.3", "1.2,3"),
        ("overlay", "whole number", "1.2,3.x"),
        ("zoom", "such as 1-3", "3-9", "3-9,4"),
        ("compare", "now, before, difference", "<script>"),
        ("words", "on, off", "maybe"),
        ("scope", "everything", "universe"),
        ("edits", "not JSON", "{broken"),
        ("edits", "object with a list", "[]"),
        ("edits", "no edit of kind 'melt'", '{"edits":[{"kind":"melt"}]}'),
        ("edits", "number from 0", '{"edits":[{"kind":"temperature","value":-1}]}'),
        ("edits", "cannot be read", "[" * 100_000),
        ("edits", "damaged", "z.!!!", "z.AAAA"),
        ("edits", "larger", bomb),
    ):
        for text in texts:
            values, complaints = read({name: text, "text": "kept"}, DEFAULTS)
            assert values == DEFAULTS | {"text": "kept"}, (name, text[:40])
            assert len(complaints) == 1 and len(complaints[0]) < 600, (name, text[:40])
            assert name in complaints[0] and said in complaints[0], (name, complaints)
    # fmt: on


def test_each_key_says_what_it_means_and_the_guide_lists_them() -> None:
    assert all(key.means for key in KEYS)
    text = link_keys.PATH.read_text("utf-8")
    assert text == link_keys.text(), "run python -m tests.support.link_keys"
