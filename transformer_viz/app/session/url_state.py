"""What is in the link: one row a key, with its default, its check, and how it is written.

Reading and writing here are plain functions of dictionaries; `visit` joins them to Streamlit's
session and address bar.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.head_metrics import shown_metrics
from ...core.interventions import Intervention
from ...core.palette import RAMPS
from ...core.sites import MAPS, STACKS
from ...i18n import languages, say
from ...metrics.residual.norm_statistics import STATISTICS
from ..engine import model_names
from .edit_controls import REACHES, SCOPES

CLEAN = Intervention().to_json()
LONG = 200  # characters of edits from which on they are compressed
MOST = 200_000  # characters that edits may unfold to: a link is no place for more
PACKED = "z."  # how compressed edits begin
FIRST_TEXT = "The animal didn't cross the street because it was too tired."
SET = "set"  # in the link, what a visitor changed in the model's config stands by itself
COMPARES = ("now", "before", "difference")
OVERS = ("weights", "gradients")
VIEWS = ("map", "lines", "qk")
BLOCKS = ("one", "all")
SORTS = ("layer", *(metric.name for metric in shown_metrics()), "change")
SCALES = ("head", "common")
GAMMAS = (0.25, 4)  # the least and the most
BEAMS = range(1, 9)
SEARCHES = ("greedy", "sample", "beam")
DRAWS = (0.1, 5)  # temperatures of the output at which words may be drawn
LISTED = 300  # places or heads that one key may name
WRITTEN = 400  # characters that what was set in a lab may have


@dataclass(frozen=True)
class Key:
    """A word of the link. ``read`` turns its text into a value or raises ValueError with a
    sentence; ``write`` is the inverse."""

    name: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(
                say(
                    "is {text}; it can be {allowed}",
                    text=repr(shortened(text)),
                    allowed=", ".join(allowed),
                )
            )
        return text

    return read


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise ValueError(
            say("is {text}; it must be a whole number from 0", text=repr(shortened(text)))
        )
    return int(text)


def _beam(text: str) -> int:
    if text not in map(str, BEAMS):
        raise ValueError(
            say(
                "is {text}; it can be {least} to {most}",
                text=repr(shortened(text)),
                least=BEAMS[0],
                most=BEAMS[-1],
            )
        )
    return int(text)


def _parts(text: str) -> list[str]:
    parts = text.split(",") if text else []
    if len(parts) > LISTED:
        raise ValueError(
            say("names {count:,} places; it may name {most}", count=len(parts), most=LISTED)
        )
    return parts


def _places(text: str) -> tuple[int, ...]:
    return tuple(sorted({_number(part) for part in _parts(text)}))


def _listed(places: tuple[int, ...]) -> str:
    return ",".join(map(str, places))


def _switch(text: str) -> bool:
    return _one_of("on", "off")(text) == "on"


def _amount(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= most:
            raise ValueError(
                say(
                    "is {text}; it must be a number from {least:g} to {most:g}",
                    text=repr(shortened(text)),
                    least=least,
                    most=most,
                )
            )
        return value

    return read


def _short(text: str) -> str:
    if len(text) > WRITTEN:
        raise ValueError(
            say("has {count:,} characters; it may have {most}", count=len(text), most=WRITTEN)
        )
    return text


def _numbered(text: str, apart: str) -> tuple[int, int]:
    first, found, second = text.partition(apart)
    if not found:
        raise ValueError(
            say(
                "is {text}; it must be numbers such as {example}",
                text=repr(shortened(text)),
                example=f"1{apart}3",
            )
        )
    return _number(first), _number(second)


def _heads(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(dict.fromkeys(_numbered(part, ".") for part in _parts(text)))


def _listed_heads(heads: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{layer}.{head}" for layer, head in heads)


def _region(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    rows, found, columns = text.partition(",")
    if not found:
        raise ValueError(
            say(
                "is {text}; it must be rows and columns such as 1-3,0-4",
                text=repr(shortened(text)),
            )
        )
    return _numbered(rows, "-"), _numbered(columns, "-")


def _listed_region(zoom: tuple[tuple[int, int], tuple[int, int]]) -> str:
    return ",".join(f"{first}-{last}" for first, last in zoom)


def shortened(text: str) -> str:
    """At most 60 characters of what came, for a sentence about it."""
    return text if len(text) <= 60 else text[:57] + "..."


def pack(edits: str) -> str:
    """Edits as the link holds them: their canonical JSON, compressed when long."""
    if len(edits) < LONG:
        return edits
    return PACKED + base64.urlsafe_b64encode(zlib.compress(edits.encode(), 9)).decode().rstrip("=")


def unpack(text: str) -> str:
    """The canonical JSON of edits from a link.

    Raises:
        ValueError: no edits, or damaged ones; says what is wrong.
    """
    if text.startswith(PACKED):
        text = _unfold(text.removeprefix(PACKED))
    return Intervention.from_json(text).to_json()


def _unfold(text: str) -> str:
    unfold = zlib.decompressobj()
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found = unfold.decompress(packed, MOST)
        if unfold.unconsumed_tail or not unfold.eof:
            raise ValueError(say("they are cut off, or larger than a link may hold"))
        return found.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(say("the compressed text is damaged")) from error


def _edits(text: str) -> str:
    try:
        return unpack(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(say("cannot be read: {reason}", reason=error)) from error


def _model(name: str) -> str:
    """The place of a model; what was changed in its config has a key of its own."""
    return model_names.parted(model_names.shared(name))[0]


#: Every key of the link, in the order in which it is written. `scope` is what a change applies to,
#: `answer` the target row whose candidates are shown. The last ones belong to Positions and Norms:
#: whose sentence, which position, shift, pair of dimensions, word, norm, statistic, whose
#: positions change, and which other order of the words. Some belong to kinds of models: the second
#: text of a pair, the tokens behind a mask, the example picture, the seed of random vectors, what
#: is laid over a picture, and the class it is about (None: the most probable). `checkpoint` is the
#: model that the page of this name looks at; where it is empty, that of the visit. Those behind it
#: say how the pictures of heads look (see `look.Look`), in which language, and whether they are
#: shown to a class. `station` is that of the lessons (0: none), `predicted` what was answered at
#: each (station, option). Step inside has its `step` and the opened `number`; Play how words are
#: searched, the `drawing` temperature of the output, the step that is `played`, the `branch` of
#: the tree, and whether all heads of a layer are `pooled`; Labs the `lab` and what was `tried` in
#: it. Streamlit keeps `path` for itself: a link with such a key leads nowhere.
KEYS: tuple[Key, ...] = (
    Key("model", "", str, _model),
    Key("text", FIRST_TEXT, str),
    Key("target", "", str),
    Key("beam", 4, _beam),
    Key("edits", CLEAN, _edits, pack),
    Key("block", "cross", _one_of(*MAPS)),
    Key("layer", 0, _number),
    Key("head", 0, _number),
    Key("token", 0, _number),
    Key("compare", "now", _one_of(*COMPARES)),
    Key("words", False, _switch, lambda on: "on" if on else "off"),
    Key("special", True, _switch, lambda on: "on" if on else "off"),
    Key("scope", "head", _one_of(*SCOPES)),
    Key("answer", 0, _number),
    Key("stack", "encoder", _one_of(*STACKS)),
    Key("place", 0, _number),
    Key("shift", 1, _number),
    Key("pair", 0, _number),
    Key("word", 0, _number),
    Key("site", "", str),
    Key("statistic", "input_norm", _one_of(*(s.name for s in STATISTICS))),
    Key("reach", "both", _one_of(*REACHES)),
    Key("order", 0, _number),
    Key("second", "", str),
    Key("masked", (), _places, _listed),
    Key("picture", "", str),
    Key("seed", 0, _number),
    Key("over", "weights", _one_of(*OVERS)),
    Key("chosen", None, _number),
    Key("checkpoint", "", str, model_names.shared),
    Key("view", "map", _one_of(*VIEWS)),
    Key("key", None, _number),
    Key("blocks", "one", _one_of(*BLOCKS)),
    Key("sort", "layer", _one_of(*SORTS)),
    Key("scale", "head", _one_of(*SCALES)),
    Key("ramp", "ink", _one_of(*RAMPS)),
    Key("gamma", 1.0, _amount(*GAMMAS), "{:g}".format),
    Key("threshold", 0.0, _amount(0, 1), "{:g}".format),
    Key("top", 0, _number),
    Key("overlay", (), _heads, _listed_heads),
    Key("zoom", None, _region, _listed_region),
    Key("lang", "en", _one_of(*languages())),
    Key("present", False, _switch, lambda on: "on" if on else "off"),
    Key("station", 0, _number),
    Key("predicted", (), _heads, _listed_heads),
    Key("step", 0, _number),
    Key("number", "", _short),
    Key("search", "beam", _one_of(*SEARCHES)),
    Key("drawing", 1.0, _amount(*DRAWS), "{:g}".format),
    Key("played", 0, _number),
    Key("branch", "", _short),
    Key("pooled", True, _switch, lambda on: "on" if on else "off"),
    Key("lab", "", _short),
    Key("tried", "", _short),
)
#: What a picture itself says about how it is drawn.
DRAWN = ("sort", "scale", "ramp", "gamma", "threshold", "top")
DEFAULTS = {key.name: key.default for key in KEYS}


def read(link: Mapping[str, str], defaults: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The value of every key, and a sentence for each that could not be used."""
    values, complaints = dict(defaults), []
    for key in KEYS:
        if key.name in link:
            try:
                values[key.name] = key.read(link[key.name])
            except ValueError as error:
                complaints.append(_left_out(key.name, error))
    try:
        words = model_names.read_words(link.get(SET, ""))
        values["model"] = model_names.named(values["model"], words)
    except ValueError as error:
        complaints.append(_left_out(SET, error))
    return values, complaints


def _left_out(name: str, error: ValueError) -> str:
    problem = str(error).rstrip(".")  # some come as a whole sentence
    return say("In the link, {key} {problem}. It was left out.", key=name, problem=problem)


def write(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, str]:
    """The link that `read` turns into these values; what is at its default is left out."""
    found = {
        key.name: key.write(values[key.name])
        for key in KEYS
        if values.get(key.name, defaults[key.name]) not in (None, defaults[key.name])
    }
    words = model_names.parted(values.get("model", ""))[1]
    return found | {SET: model_names.written(words)} if words else found


def others(link: Mapping[str, str]) -> dict[str, str]:
    """What stands in an address that is not ours."""
    return {name: text for name, text in link.items() if name not in DEFAULTS and name != SET}
