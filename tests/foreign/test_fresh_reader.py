"""Some sixty attentions of a reader who saw only the public pages: what stands, what does not."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from dataclasses import dataclass

import pytest
import torch

import transformer_viz as tv
from tests.foreign.fresh_reader import KINDS, Stranger, flows, heads, orders, softmaxes
from transformer_viz.core.edits import BlockKeys, ScaleHead, Temperature
from transformer_viz.inference.proof.prove import Changed, prove
from transformer_viz.inference.proof.token_order import exchanges

EDITS = {
    "head": ScaleHead(head=0, value=0.0),
    "temperature": Temperature(value=2.0),
    "hidden": BlockKeys(keys=(1,)),
}
FILES = (softmaxes, heads, flows, orders)  # entering them fills the list
MODULES = Stranger.modules
CLOSE = 1e-5

REFUSED = {"Compiled": "is compiled while it runs"}
UNEDITED = {"Checkpointed": "runs under gradient checkpointing"}
# No map is shown, and a sentence says so.
UNSEEN = {
    *("Quantised", "TopKScatter", "RandomFeatures", "DoubleAttention", "PointCloud", "TwoHops"),
    *("Symmetric", "MixtureOfSoftmaxes", "Consensus"),
}

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
    module = MODULES[name]()
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
        if module.batched and vectors and name not in TOKENS_ELSEWHERE:
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
    module = MODULES[name]()
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


def faults(name: str) -> list[str]:
    """Every law that a module breaks, but for those that the lists above know."""
    module = MODULES[name]()
    inputs = module.example()
    with torch.no_grad():
        own = near(module(*inputs), module.known(inputs, "").output)
    if name in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name]):
            seen(name)
        return [] if own else ["does not give what its own truth says"]
    found, proof, right = seen(name), seen(name).proof, everything_is_right(name)
    shown = maps_are_right(name) if found.maps else bool(found.said)
    broken = {
        "does not give what its own truth says": not own,
        "watching changes the output": found.changes,
        "is green where something is wrong": proof.holds and not right,
        "shows other maps than the truth, or none and says nothing": shown is (name in MAPS_WRONG),
        "whether maps are seen at all": bool(found.maps) is (name in UNSEEN),
    }
    for kind in KINDS:
        wrong = edit_is(name, kind) == "wrong"
        broken[f"edit of {kind}"] = wrong is not ((name, kind) in EDITS_WRONG)
        if name in UNEDITED:
            broken[f"{kind} is not refused"] = UNEDITED[name] not in edit_is(name, kind)
    if len(found.sites) == 1 and edit_is(name, "temperature") == "right":
        (site,) = found.sites
        place = {"stack": site.stack, "block": site.block, "layer": site.layer}
        edit = Temperature(value=2.0, path=site.path or None, **place)
        broken["an edit does not act at the place a record names"] = outcome(name, edit) != "right"
    if name in TRULY_AMBER:
        said = any(TRULY_AMBER[name] in sentence for sentence in proof.untold)
        broken["what is not proved is not said"] = proof.holds or not said
    elif found.maps and right:
        broken["is right and not green"] = not proof.holds
    if name in REORDERED:
        place = REORDERED[name]
        moved = f"{place}: before it tokens are sorted, chosen or moved"
        wrong = proof.laws[place].get("token order") == float("inf")
        told = any(sentence.startswith(moved) for sentence in proof.untold)
        broken["moved tokens are not said"] = not (wrong or told)
    return [law for law, is_broken in broken.items() if is_broken]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__.rpartition(".")[2])
def test_every_law_of_every_module(file):
    """A module in the lists above that keeps its law after all must leave them."""
    names = [name for name, cls in MODULES.items() if cls.__module__ == file.__name__]
    assert names
    wrong = {}
    for name in names:
        try:
            wrong[name] = faults(name)
        except Exception as error:
            error.add_note(f"in {name}")
            raise
    assert not any(wrong.values()), {name: laws for name, laws in wrong.items() if laws}


def test_the_lists_name_modules():
    named = {*REFUSED, *UNEDITED, *UNSEEN, *MAPS_WRONG, *TRULY_AMBER, *REORDERED}
    assert named | {name for name, _ in EDITS_WRONG} <= set(MODULES)
    assert len(MODULES) >= 60


def test_the_probed_module_itself_has_an_empty_path():
    module = MODULES["Cosine"]()
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
