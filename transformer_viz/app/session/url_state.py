"""Keys of the link: each with its default, parser and serialization.

Reading and writing here are plain functions of dictionaries; `visit` connects them to Streamlit's
session and address bar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.editing.edit_controls import REACHES, SCOPES
from ...core.head_metrics import shown_metrics
from ...core.palette import RAMPS
from ...core.sites import MAPS, STACKS
from ...i18n import languages, say
from ...metrics.alignment.linking import SHIFTS
from ...metrics.head_measures.registry import MEASURES
from ...metrics.residual.norm_statistics import STATISTICS
from ..engine import model_names
from ..engine.model_kind import USUAL
from ..engine.swap_jobs import KINDS
from .url_edits import CLEAN, pack, pack_text, read_edits, read_text
from .url_values import (
    amount,
    beam,
    heads,
    listed,
    listed_heads,
    listed_region,
    map_of,
    number,
    one_of,
    places,
    region,
    short,
    switch,
)

FIRST_MEASURE = "previous"  # initial measure of Corpus
FIRST_TEXT = USUAL
SET = "set"  # key of the user's overrides of a model's config
COMPARES = ("now", "before", "difference")
OVERS = ("weights", "gradients")
VIEWS = ("map", "lines", "qk")
BLOCKS = ("one", "all")
SORTS = ("layer", *(metric.name for metric in shown_metrics()), "change")
GAMMAS = (0.25, 4)  # minimum and maximum
SEARCHES = ("greedy", "sample", "beam")
HEADS_ON = ("stored", "sentence", "file")
HEADS_BY = ("layer", "role", "effect", *(measure.name for measure in MEASURES))
#: Colouring of an atlas's tiles: their weights, or a number of each head.
SCALES = tuple(dict.fromkeys(("head", "common", *SORTS[1:-1], *HEADS_BY[2:])))
REMOVALS = ("mean", "zero", "resample", "uniform")
VERSUS = ("sentence", "edits", "model", "step")
WEIGHED = ("raw", "content")
OPPOSITES = ("place", "match")
DRAWS = (0.1, 5)  # sampling temperatures


@dataclass(frozen=True)
class Key:
    """A key of the link.

    Attributes:
        read: Converts its text to a value; raises ValueError with a message.
        write: Inverse of ``read``.
        means: Description for `docs/link-keys.md`.
    """

    name: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    means: str = ""


def _model(name: str) -> str:
    """Return a model's name without overrides, which have a separate key."""
    return model_names.parted(model_names.public_name(name))[0]


#: All keys of the link, in writing order. Streamlit reserves `path`: a link with it opens no page.
KEYS: tuple[Key, ...] = (
    # Input of the model.
    Key(
        "model",
        "",
        str,
        _model,
        means="the model: a name in the box, a path on the server, an upload of this visit, or "
        "a model of the Hugging Face Hub (owner/name@revision)",
    ),
    Key("text", FIRST_TEXT, read_text, pack_text, means="the sentence"),
    Key("target", "", str, means="the translation that is held; empty: the model's own"),
    Key("beam", 4, beam, means="how many texts the search keeps"),
    Key(
        "edits",
        CLEAN,
        read_edits,
        pack,
        means="the changes inside the model, as JSON, compressed when long",
    ),
    # The selected head, and how runs are shown.
    Key("block", "cross", one_of(*MAPS), means="the attention map of the selected head"),
    Key("layer", 0, number, means="the layer of the selected head"),
    Key("head", 0, number, means="the selected head"),
    Key("token", 0, number, means="the selected row of the map"),
    Key(
        "compare",
        "now",
        one_of(*COMPARES),
        means="which run is shown: the changed one, the clean one, or their difference",
    ),
    Key(
        "words",
        False,
        switch,
        lambda on: "on" if on else "off",
        means="pieces of a word are joined",
    ),
    Key(
        "special", True, switch, lambda on: "on" if on else "off", means="special tokens are shown"
    ),
    Key("scope", "head", one_of(*SCOPES), means="what a change applies to"),
    Key(
        "answer",
        0,
        number,
        means="the target row whose candidates are shown, and the word that is asked about",
    ),
    # Positions and Norms, and the order of the words.
    Key("stack", "encoder", one_of(*STACKS), means="Positions, Norms: whose sentence"),
    Key("place", 0, number, means="Positions: the position"),
    Key("shift", 1, number, means="Positions: how far the compared position is away"),
    Key("pair", 0, number, means="Positions: the pair of dimensions"),
    Key("word", 0, number, means="Norms: the word"),
    Key("site", "", str, means="Norms: the norm"),
    Key(
        "statistic",
        "input_norm",
        one_of(*(s.name for s in STATISTICS)),
        means="Norms: what is shown of each norm",
    ),
    Key("reach", "both", one_of(*REACHES), means="Positions: whose positions change"),
    Key("order", 0, number, means="which other order of the words; 0: none"),
    # Inputs of certain kinds of models.
    Key("second", "", str, means="models of two texts: the second text"),
    Key("masked", (), places, listed, means="models that fill masks: the tokens behind a mask"),
    Key("picture", "", str, means="the example picture; empty: the first, or none beside a text"),
    Key("seed", 0, number, means="models of vectors: the seed of the random ones"),
    Key(
        "over",
        "weights",
        one_of(*OVERS),
        means="models of pictures: what is laid over the picture",
    ),
    Key(
        "chosen",
        None,
        number,
        means="models with classes: the class it is about; absent: the most probable",
    ),
    # Checkpoint.
    Key(
        "checkpoint",
        "",
        str,
        model_names.public_name,
        means="Checkpoint: the model that it looks at; empty: that of the visit",
    ),
    # View options of the heads.
    Key("view", "map", one_of(*VIEWS), means="Explore: how the head is drawn"),
    Key("key", None, number, means="the selected column of the map; absent: none"),
    Key("blocks", "one", one_of(*BLOCKS), means="Explore: heads of one block, or of all"),
    Key("sort", "layer", one_of(*SORTS), means="the order of the heads"),
    Key(
        "scale",
        "head",
        one_of(*SCALES),
        means="what colours the heads: weights by each head's largest or by all, or a number",
    ),
    Key("ramp", "ink", one_of(*RAMPS), means="the colours"),
    Key("gamma", 1.0, amount(*GAMMAS), "{:g}".format, means="the exponent of the colours"),
    Key("threshold", 0.0, amount(0, 1), "{:g}".format, means="weights below it are left out"),
    Key("top", 0, number, means="how many weights of each row are shown; 0: all"),
    Key(
        "overlay",
        (),
        heads,
        listed_heads,
        means="further heads whose lines are drawn, as layer.head",
    ),
    Key(
        "zoom",
        None,
        region,
        listed_region,
        means="the part of the map that is enlarged, as rows,columns, each first-last",
    ),
    # Screen.
    Key("lang", "en", one_of(*languages()), means="the language"),
    Key(
        "present",
        False,
        switch,
        lambda on: "on" if on else "off",
        means="shown to a class: large and without controls",
    ),
    # Lessons.
    Key("station", 0, number, means="the station of the lesson that is open; 0: none"),
    Key(
        "predicted",
        (),
        heads,
        listed_heads,
        means="what was answered at each station, as station.option",
    ),
    # Step inside.
    Key("step", 0, number, means="Step inside: the open step"),
    Key("number", "", short, means="Step inside: the opened number"),
    # Play.
    Key("search", "beam", one_of(*SEARCHES), means="Play: how words are searched"),
    Key("drawing", 1.0, amount(*DRAWS), "{:g}".format, means="Play: the temperature of the output"),
    Key("played", 0, number, means="Play: the step of the search that is shown"),
    Key("branch", "", short, means="Play: the branch of the tree, as step.place"),
    Key(
        "pooled",
        True,
        switch,
        lambda on: "on" if on else "off",
        means="Play: all heads of a layer are pooled",
    ),
    # Heads.
    Key("heads_on", "stored", one_of(*HEADS_ON), means="Heads: the sentences"),
    Key("heads_by", "layer", one_of(*HEADS_BY), means="Heads: what the table is sorted by"),
    Key("removal", "mean", one_of(*REMOVALS), means="Heads: what a removed head gives"),
    # Align.
    Key(
        "aligned", "", map_of, means="Align: the map that is read, layer or layer.head; empty: all"
    ),
    Key(
        "aligned_row",
        "out",
        one_of(*SHIFTS),
        means="Align: the row of a word: the one that writes it (out), or that reads it (in)",
    ),
    Key("gold", "", short, means="Align: links drawn by people, such as 0-0 1p2"),
    Key(
        "gold_from_one",
        False,
        switch,
        lambda on: "on" if on else "off",
        means="Align: words of the gold are counted from 1",
    ),
    # Swap.
    Key("other", "", str, means="Swap, Compare: the other sentence; empty: a proposal"),
    Key("between", "", short, means="Swap: the pair of words, with a comma; empty: a proposal"),
    Key("swapped", "heads", one_of(*KINDS), means="Swap: what is taken from the other run"),
    # Corpus.
    Key(
        "corpus",
        "",
        str,
        model_names.public_name,
        means="Corpus: the open atlas: a folder on the server (path:...), an upload of this visit, "
        "or `box`, made of the sentences in the box; empty: none",
    ),
    Key(
        "corpus_by",
        FIRST_MEASURE,
        one_of(*(measure.name for measure in MEASURES)),
        means="Corpus: the measure that colours and sorts the heads",
    ),
    # Compare.
    Key("versus", "sentence", one_of(*VERSUS), means="Compare: what stands on the second side"),
    Key("weighed", "raw", one_of(*WEIGHED), means="Compare: weights as they are, or words only"),
    Key("opposite", "place", one_of(*OPPOSITES), means="Compare: what each head stands beside"),
    Key(
        "beside",
        "",
        str,
        model_names.public_name,
        means="Compare: the other model, named like `model`; empty: the first that fits",
    ),
    Key(
        "moments",
        (),
        places,
        listed,
        means="Compare: two steps of the training; empty: the first and the last",
    ),
    Key(
        "seen",
        "",
        short,
        means="Compare: the head, as map.layer.head; empty: the most different one",
    ),
    # Labs.
    Key("lab", "", short, means="Labs: the open lab; empty: the first"),
    Key("tried", "", short, means="Labs: what was set in it, as name=value;..."),
)
#: Drawing options that a view sends back.
DRAWN = ("sort", "scale", "ramp", "gamma", "threshold", "top")
DEFAULTS = {key.name: key.default for key in KEYS}


def read(link: Mapping[str, str], defaults: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the value of every key, and a message for each unusable value."""
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
    problem = str(error).rstrip(".")  # some are whole sentences
    return say("In the link, {key} {problem}. It was left out.", key=name, problem=problem)


def write(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, str]:
    """Return the link that `read` converts to these values, without defaults."""
    found = {
        key.name: key.write(values[key.name])
        for key in KEYS
        if values.get(key.name, defaults[key.name]) not in (None, defaults[key.name])
    }
    words = model_names.parted(values.get("model", ""))[1]
    return found | {SET: model_names.written(words)} if words else found


def others(link: Mapping[str, str]) -> dict[str, str]:
    """Return the query parameters that are no keys of the app."""
    return {name: text for name, text in link.items() if name not in DEFAULTS and name != SET}
