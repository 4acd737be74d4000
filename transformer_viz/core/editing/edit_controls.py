"""Mapping between controls and edits: the value a control shows at a site, and the edit it writes.

All changes are stored in the intervention. A control shows the edit that acts on the selected head.
Moving it writes an edit for the scope that the user selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...i18n import mark
from ..edits import SELECTORS
from ..interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    Pad,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from ..sites import MAPS, Site

SCOPES = {
    "everything": mark("everything"),
    "block": mark("this block"),
    "layer": mark("this layer"),
    "head": mark("this head"),
}
REACHES = {
    "both": mark("both sentences"),
    "encoder": mark("the source"),
    "decoder": mark("the target"),
}
HEAD_STATES = {
    "on": mark("on"),
    "scale": mark("scale"),
    "uniform": mark("uniform"),
    "off": mark("off"),
}
HALF = 0.5  # initial factor of "scale"

Selectors = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """The selected head, the scope of a change, and the maps of the model."""

    map_name: str
    layer: int
    head: int
    scope: str = "head"
    maps: tuple[str, ...] = tuple(MAPS)

    @property
    def site(self) -> Site:
        """Head whose edits the controls show."""
        stack, block = MAPS[self.map_name]
        return Site(stack, block, self.layer, self.head)

    @property
    def selectors(self) -> Selectors:
        """Selectors of an edit with the selected scope."""
        stack, block = MAPS[self.map_name]
        words: Selectors = {"stack": stack, "block": block, "layer": self.layer, "head": self.head}
        kept = {"everything": 0, "block": 2, "layer": 3, "head": 4}[self.scope]
        return dict(list(words.items())[:kept])

    @property
    def masked_site(self) -> Site:
        """Site of the causal mask: decoder self-attention for cross heads, which have none."""
        return replace(self.site, block="self") if self.map_name == "cross" else self.site


def temperature(intervention: Intervention, place: Place) -> float:
    """Return the temperature of the selected head; 1 is the model's own."""
    edit = intervention.find(Temperature, place.site)
    return edit.value if isinstance(edit, Temperature) else 1.0


def set_temperature(intervention: Intervention, place: Place, value: float) -> Intervention:
    """Return the intervention with another temperature in the selected scope.

    Called by the slider of `components/edit_sliders.py`; `core/apply_edits.py` divides the scores.
    """
    edits = [Temperature(value=value, **place.selectors)]
    return _write(intervention, edits, (Temperature,), lambda i: temperature(i, place) == value)


def causal(intervention: Intervention, place: Place) -> bool:
    """Return True if later tokens are hidden by an edit, or else by the model's kind of block."""
    edit = intervention.find(Causal, place.masked_site)
    return edit.on if isinstance(edit, Causal) else place.masked_site.stack == "decoder"


def set_causal(intervention: Intervention, place: Place, on: bool) -> Intervention:
    """Return the intervention with the causal mask switched in the selected scope."""
    edits = [Causal(on=on, **place.selectors)]
    return _write(intervention, edits, (Causal,), lambda i: causal(i, place) == on)


def window(intervention: Intervention, place: Place) -> int | None:
    """Return the number of tokens the selected head sees to each side; None without a window."""
    edit = intervention.find(Window, place.site)
    return edit.radius if isinstance(edit, Window) else None


def set_window(intervention: Intervention, place: Place, radius: int | None) -> Intervention:
    """Return the intervention with a window, or without (None), in the selected scope."""
    edits = [Window(radius=radius, **place.selectors)]
    return _write(intervention, edits, (Window,), lambda i: window(i, place) == radius)


def hidden(intervention: Intervention, place: Place) -> tuple[int, ...]:
    """Return the keys that are hidden from the selected head."""
    edit = intervention.find(BlockKeys, place.site)
    return edit.keys if isinstance(edit, BlockKeys) else ()


def set_hidden(intervention: Intervention, place: Place, keys: Iterable[int]) -> Intervention:
    """Return the intervention with keys hidden.

    The scope ``everything`` covers each block that reads their sentence.
    """
    keys = tuple(sorted(keys))
    reached = _readers(place)
    edits = [BlockKeys(keys=keys, **selectors) for selectors in reached]
    return _write(
        intervention, edits, (BlockKeys,), lambda i: hidden(i, place) == keys, selectors=reached
    )


def cut(intervention: Intervention, place: Place, query: int) -> tuple[int, ...]:
    """Return the keys that one row of the selected head is cut from."""
    edit = intervention.find(BlockEdges, place.site)
    edges = edit.edges if isinstance(edit, BlockEdges) else ()
    return tuple(key for row, key in edges if row == query)


def set_cut(
    intervention: Intervention, place: Place, query: int, keys: Iterable[int]
) -> Intervention:
    """Return the intervention with one row's links cut; cuts of other rows are kept."""
    keys = tuple(sorted(keys))
    edit = intervention.find(BlockEdges, place.site)
    others = edit.edges if isinstance(edit, BlockEdges) else ()
    edges = tuple(e for e in others if e[0] != query) + tuple((query, key) for key in keys)
    selectors = place.selectors or dict(zip(("stack", "block"), MAPS[place.map_name], strict=True))
    edits = [BlockEdges(edges=edges, **selectors)]
    return _write(
        intervention,
        edits,
        (BlockEdges,),
        lambda i: _edges(i, place) == tuple(sorted(edges)),
        selectors=[selectors],
    )


def _edges(intervention: Intervention, place: Place) -> tuple[tuple[int, int], ...]:
    edit = intervention.find(BlockEdges, place.site)
    return edit.edges if isinstance(edit, BlockEdges) else ()


def head_state(intervention: Intervention, place: Place) -> tuple[str, float]:
    """Return the state of the selected head, one of `HEAD_STATES`, and its factor."""
    factor = _factor(intervention, place)
    if factor == 0:
        return "off", 0.0
    if factor != 1:
        return "scale", factor
    return ("uniform" if _uniform(intervention, place) else "on"), 1.0


def set_head_state(
    intervention: Intervention, place: Place, state: str, factor: float = HALF
) -> Intervention:
    """Return the intervention with heads on, scaled, uniform or off in the selected scope."""
    wanted = {"scale": factor, "off": 0.0}.get(state, 1.0)
    uniform = state == "uniform"
    scaled = _write(
        intervention,
        [ScaleHead(value=wanted, **place.selectors)],
        (ScaleHead,),
        lambda i: _factor(i, place) == wanted,
    )
    return _write(
        scaled,
        [UniformHead(on=uniform, **place.selectors)],
        (UniformHead,),
        lambda i: _uniform(i, place) == uniform,
    )


def _factor(intervention: Intervention, place: Place) -> float:
    edit = intervention.find(ScaleHead, place.site)
    return edit.value if isinstance(edit, ScaleHead) else 1.0


def _uniform(intervention: Intervention, place: Place) -> bool:
    edit = intervention.find(UniformHead, place.site)
    return isinstance(edit, UniformHead) and edit.on


def padding(intervention: Intervention) -> tuple[int, bool]:
    """Return the number of padding tokens appended to the source, and True if they are masked."""
    edits = [edit for edit in intervention if isinstance(edit, Pad)]
    return (edits[-1].count, edits[-1].masked) if edits else (0, True)


def set_padding(intervention: Intervention, count: int, masked: bool) -> Intervention:
    """Return the intervention with ``count`` padding tokens after the source, masked or not."""
    kept = tuple(edit for edit in intervention if not isinstance(edit, Pad))
    return Intervention((*kept, Pad(count=count, masked=masked)) if count else kept)


def answers_itself(intervention: Intervention) -> bool:
    """Return True if teacher-forced decoding may attend to the tokens it has to predict."""
    return any(
        isinstance(edit, Causal) and not edit.on and edit.stack != "encoder"
        for edit in intervention
    )


def _readers(place: Place) -> list[Selectors]:
    """Return selectors of the blocks in which keys of the same sentence are hidden together."""
    if place.scope != "everything":
        return [place.selectors]
    maps = ("decoder",) if place.map_name == "decoder" else ("encoder", "cross")
    here = [name for name in maps if name in place.maps]
    return [dict(zip(("stack", "block"), MAPS[name], strict=True)) for name in here]


def _write(
    intervention: Intervention,
    edits: list[Any],
    kinds: tuple[type[Edit], ...],
    reached: Callable[[Intervention], bool],
    selectors: list[Selectors] | None = None,
) -> Intervention:
    """Replace the edits within the scope of the new ones; add new ones only if they have an effect.

    ``reached`` returns True if the controls already show the wanted value.
    """
    reach = selectors or [_selectors(edit) for edit in edits]
    kept = tuple(
        edit
        for edit in intervention
        if not (isinstance(edit, kinds) and any(_within(edit, words) for words in reach))
    )
    base = Intervention(kept)
    return base if reached(base) else Intervention((*kept, *edits))


def _selectors(edit: Edit) -> Selectors:
    words = zip(SELECTORS, edit.selectors, strict=True)
    found = {word: value for word, value in words if value is not None}
    return found | {"stack": "decoder"} if edit.block == "cross" else found


def _within(edit: Edit, words: Selectors) -> bool:
    """Return True if all sites of an edit lie within these selectors."""
    own = _selectors(edit)
    return all(own.get(word) == value for word, value in words.items())
