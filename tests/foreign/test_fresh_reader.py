"""Seventy attentions of a reader who saw only the public pages: what stands, what does not."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from dataclasses import dataclass
from types import MappingProxyType

import pytest
import torch

import transformer_viz as tv
from tests.foreign.fresh_reader import (
    KINDS,
    after,
    flows,
    machinery,
    orders,
    softmaxes,
    splits,
    traps,
)
from transformer_viz.core.edits import BlockKeys, ScaleHead, Temperature
from transformer_viz.inference.proof.prove import Changed, prove
from transformer_viz.inference.proof.token_order import exchanges

EDITS = {
    "head": ScaleHead(head=0, value=0.0),
    "temperature": Temperature(value=2.0),
    "hidden": BlockKeys(keys=(1,)),
}
CLASSES = {
    cls.__name__: cls
    for file in (softmaxes, flows, machinery, traps, splits, after, orders)
    for cls in file.MODULES
}
NAMES = tuple(CLASSES)
CLOSE = 1e-5

REFUSED = {
    "Vmapped": "runs inside torch.vmap",
    "Compiled": "is compiled while it runs",
}
UNEDITED = {"Checkpointed": "runs under gradient checkpointing"}
# No map is shown, and a sentence says so.
UNSEEN = (
    *("Quantised", "TopKScatter", "Edges", "RandomFeatures", "DoubleAttention", "PointCloud"),
    *("Router", "SoftTokens", "Symmetric", "MixtureOfSoftmaxes", "Consensus", "DividedLast"),
    "TwoHops",
)

# Maps that are not the module's own, by the module's own reckoning.
MAPS_WRONG = {
    "Slots": "the second round runs the same lines as the first, and is not shown",
    "Reversed": "the module turns its tokens round; rows and columns are numbered backwards",
    "Sorted": "tokens are sorted by a hash; rows and columns are places after the sorting",
    "Neighbours": "the last axis is an offset of -1, 0, 1 and is shown as keys 0, 1, 2",
    "Online": "exponentials of two keys at a time, each with another maximum, shown as weights",
    "Joint": "the three memories are shown twice, the six tokens of the same softmax never",
    "HeadGroups": "four heads of one projection are shown as 0, 1 and again 0, 1 of layer 0",
    "BothDirections": "of two readings of one text the backward one is numbered backwards",
    "MicroBatches": "one attention is shown twice, with a batch of one each",
    "LeftPadded": "two paddings in front are shown as keys 0 and 1, and token 0 as key 2",
    "Clustered": "two rows stand for six queries",
    "Dilated": "even and odd tokens are shown as items of a batch of four",
    "Nystrom": "two of three factors are shown, as two maps of one layer; their product is the map",
    "ShiftedWindows": "tokens are rolled by one; rows and columns are places in a window",
}

# Edits that come through without an error and break their law.
EDITS_WRONG = {
    ("Gated", "temperature"): "acts on the softmax of content only, not on that of places",
    ("Gated", "hidden"): "the softmax of places goes on looking at the hidden key",
    ("HeadGroups", "head"): "takes the first head of each half away",
    ("BothDirections", "hidden"): "hides token 1, and token 4 in the backward reading",
    ("LeftPadded", "hidden"): "hides a padding that was hidden before: nothing changes",
    ("Dilated", "hidden"): "hides tokens 2 and 3",
    ("HeadNorm", "head"): "zero goes through the norm of the head and comes out as its bias",
    ("Reversed", "hidden"): "hides the last token but one",
    ("Sorted", "hidden"): "hides the second token of each block after the sorting",
    ("Neighbours", "hidden"): "hides each token from itself",
    ("ShiftedWindows", "hidden"): "hides the second token of each window after the rolling",
    ("Pruned", "hidden"): "layer 1 hides the second strongest token, whichever that is",
}

# Maps and edits are right (or refused), and what is not proved is said, and true.
PROJECTION = "no output projection was recognised that takes its heads, and nothing else"
TRULY_AMBER = {
    "SetBlock": PROJECTION,
    "TwiceApplied": PROJECTION,
    "Packed": "its 3 rows are not the 12 rows that the output projection got",
    "Ring": "that its first row is number 0 follows from how the keys grew and is not proved",
    "Checkpointed": "runs under gradient checkpointing",
    "Shared": "its weights weigh what they gave before",
    "BothWays": "2 attentions ran there, and an edit of it acts on all of them",
}

# The module moves its tokens about by their own numbers, and the proof says so of this place.
REORDERED = {"Sorted": "encoder L0", "Pruned": "encoder L1"}

# Their axis 1 is no axis of tokens.
TOKENS_ELSEWHERE = ("ColumnVectors", "TimeFirst")


@dataclass(frozen=True)
class Seen:
    """What the probe and the proof said of a module."""

    module: object
    inputs: tuple
    maps: tuple
    sites: frozenset
    said: tuple
    proof: object
    changes: bool  # whether watching changed the output


def runs(module):
    """Without gradients, but for modules that are about them."""
    return contextlib.nullcontext() if module.gradients else torch.inference_mode()


@functools.cache
def seen(name: str) -> Seen:
    module = CLASSES[name]()
    inputs = module.example()

    def together():
        return module(*inputs)

    def alone():
        return module(*module.first(inputs))

    with runs(module):
        plain = together()
        with tv.probe(module) as run:
            watched = together()
        both = {"together": together, "alone": alone} if module.batched else {}
        vectors = isinstance(inputs[0], torch.Tensor) and inputs[0].dim() == 3
        if module.batched and vectors and type(module).__name__ not in TOKENS_ELSEWHERE:
            both["changed"] = [  # tokens of [batch, token, width]
                Changed(
                    one.tokens,
                    inputs[0].shape[1],
                    functools.partial(module, one.made, *inputs[1:]),
                )
                for one in exchanges(inputs[0], every=True)
            ]
        proof = prove(module, together, **both)
    maps = tuple(record.weights.detach() for record in run.attentions)
    sites = frozenset(dataclasses.replace(r.site, path=r.path) for r in run.attentions)
    changes = not torch.equal(plain, watched)
    return Seen(module, inputs, maps, sites, tuple(run.unrecognised), proof, changes)


@functools.cache
def edit_is(name: str, kind: str) -> str:
    """The outcome of an edit that names no place."""
    return outcome(name, EDITS[kind], kind)


def outcome(name: str, edit, kind: str = "temperature") -> str:
    """``right``, ``wrong``, or ``refused: `` and the sentence."""
    module = CLASSES[name]()
    inputs = module.example()
    try:
        with runs(module), tv.probe(module, tv.Intervention((edit,))):
            output = module(*inputs)
    except ValueError as error:
        return f"refused: {error}"
    with torch.no_grad():
        right = any(near(output, wanted) for wanted in module.edited(inputs, kind))
    return "right" if right else "wrong"


def near(one, other) -> bool:
    return one.shape == other.shape and (one - other).abs().max().item() < CLOSE


def maps_are_right(name: str) -> bool:
    """Every map of the truth is shown, and nothing else is."""
    found = seen(name)
    with torch.no_grad():
        truth = found.module.truth(*found.inputs)
    each_is_true = all(any(near(shown, wanted) for wanted in truth) for shown in found.maps)
    return each_is_true and all(any(near(s, wanted) for s in found.maps) for wanted in truth)


def everything_is_right(name: str) -> bool:
    """All maps, and the output under each kind of edit."""
    return maps_are_right(name) and all(edit_is(name, kind) == "right" for kind in KINDS)


def marked(case: tuple, reason: str | None):
    """A case, which fails for a reason if there is one (strictly: see `pyproject.toml`)."""
    return pytest.param(*case, marks=pytest.mark.xfail(reason=reason) if reason else ())


WATCHED = tuple(name for name in NAMES if name not in REFUSED)


def watched(wrong=MappingProxyType({})):
    """The modules that can be watched; a strict xfail for those in ``wrong``."""
    return [marked((name,), wrong.get(name)) for name in WATCHED]


def edited():
    """Each edit of each module that can be watched."""
    cases = [(name, kind) for name in WATCHED for kind in KINDS]
    return [marked(case, EDITS_WRONG.get(case)) for case in cases]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_gives_what_its_own_truth_says(name):
    module = CLASSES[name]()
    inputs = module.example()
    with torch.no_grad():
        assert near(module(*inputs), module.known(inputs, "").output)


@pytest.mark.parametrize("name", watched())
def test_watching_changes_nothing(name):
    assert not seen(name).changes


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_watched_is_refused(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        seen(name)


@pytest.mark.parametrize("name", UNEDITED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_edited_is_refused(name, kind):
    assert UNEDITED[name] in edit_is(name, kind)


@pytest.mark.parametrize("name", watched(MAPS_WRONG))
def test_maps_are_the_truth_or_it_is_said_that_there_are_none(name):
    found = seen(name)
    assert maps_are_right(name) if found.maps else found.said


@pytest.mark.parametrize(("name", "kind"), edited())
def test_an_edit_obeys_its_law_or_is_refused(name, kind):
    assert edit_is(name, kind) != "wrong"


@pytest.mark.parametrize("name", watched())
def test_an_edit_acts_at_the_whole_place_that_a_record_names(name):
    sites = seen(name).sites
    if len(sites) == 1 and edit_is(name, "temperature") == "right":
        (site,) = sites
        place = {"stack": site.stack, "block": site.block, "layer": site.layer}
        edit = Temperature(value=2.0, path=site.path or None, **place)
        assert outcome(name, edit) == "right"


@pytest.mark.parametrize("name", watched())
def test_green_only_where_everything_is_right(name):
    assert everything_is_right(name) or not seen(name).proof.holds


@pytest.mark.parametrize("name", TRULY_AMBER)
def test_what_is_not_proved_is_said(name):
    proof = seen(name).proof
    assert not proof.holds
    assert any(TRULY_AMBER[name] in sentence for sentence in proof.untold)


@pytest.mark.parametrize("name", REORDERED)
def test_tokens_that_are_sorted_or_chosen_are_said(name):
    proof = seen(name).proof
    moved = f"{REORDERED[name]}: before it tokens are sorted, chosen or moved"
    wrong = proof.laws[REORDERED[name]].get("token order") == float("inf")
    assert wrong or any(sentence.startswith(moved) for sentence in proof.untold)


@pytest.mark.parametrize("name", watched())
def test_what_is_right_is_green(name):
    if name not in TRULY_AMBER and seen(name).maps and everything_is_right(name):
        assert seen(name).proof.holds


def test_no_module_is_right_by_luck():
    """The lists above name every module that is not plainly right or plainly said to be unknown."""
    plain = {name for name in NAMES if name not in REFUSED and seen(name).proof.holds}
    assert {name for name in plain if everything_is_right(name)} == plain
    unseen = {name for name in NAMES if name not in REFUSED and not seen(name).maps}
    assert unseen == set(UNSEEN)


def test_the_probed_module_itself_has_an_empty_path():
    module = CLASSES["Cosine"]()
    (record,) = seen("Cosine").proof.laws
    assert record.strip() == "encoder L0"  # no path behind it
    assert outcome("Cosine", Temperature(value=2.0, path="")) == "right"
    around = torch.nn.Sequential(module)
    with (
        pytest.raises(ValueError, match="matches no place"),
        tv.probe(around, tv.Intervention((Temperature(value=2.0, path=""),))),
    ):
        around(*module.example())


class TwoTexts(torch.nn.Module):
    """One attention without a projection reads two texts; what came of both stands side by side."""

    def look(self, x):
        return (x @ x.mT).softmax(-1) @ x

    def forward(self, x, y):
        return torch.cat([self.look(x), self.look(y)], -1)


def test_what_two_texts_gave_side_by_side_are_no_heads_of_one_attention():
    x, y = torch.randn(2, 6, 8), torch.randn(2, 6, 8)
    module = TwoTexts()
    with tv.probe(module) as run:
        module(x, y)
    assert [record.heads for record in run.attentions] == [1, 1]
    assert near(run.attentions[1].weights[:, 0], (y @ y.mT).softmax(-1))
