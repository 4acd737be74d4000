"""The pictures of a scene as bytes for the browser: for the page, and for live frames alike.

Each part is a component on the page; a live frame exchanges all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...components.atlas import HeadNumber, atlas_data
from ...components.blob import both_palettes, pack
from ...components.head_map import head_numbers, map_data
from ...components.lines import lines_data
from ...components.map_look import MapLook
from ...components.qk import qk_data
from ..session.scene import Scene
from . import outcome_html


def atlas(
    scene: Scene, numbers: Sequence[HeadNumber] | None = None, sort: str | None = None
) -> bytes:
    """All heads of the chosen block, or of all blocks side by side.

    Args:
        scene: what is on the screen.
        numbers: what heads are sorted and coloured by, where it is not what this run tells.
        sort: their order; left out, that of the visit's look.

    Raises:
        ValueError: two runs whose pictures cannot be compared at a glance; says why.
    """
    (now, before), place, look = scene.shown, scene.place, scene.look
    blocks = now.maps if look.blocks == "all" else (place.map_name,)
    sort = look.sort if sort is None else sort
    ranked = sort != "change" or before is not None
    return atlas_data(
        now,
        blocks,
        map_look(scene),
        before=before,
        opened=(place.map_name, place.layer, place.head),
        overlaid=look.overlay,
        sort=sort if ranked else "layer",
        scale=look.scale,
        numbers=numbers,
    )


def head(scene: Scene) -> bytes:
    """The opened head as a map, as lines, or as the numbers behind one weight of it.

    Raises:
        ValueError: two runs that cannot be compared; says why.
    """
    return HEADS[scene.look.view](scene)


def _map(scene: Scene) -> bytes:
    (now, before), place = scene.shown, scene.place
    return map_data(
        now,
        place.map_name,
        place.layer,
        place.head,
        map_look(scene),
        before=before,
        most=scene.most,
        numbers=numbers(scene),
    )


def _lines(scene: Scene) -> bytes:
    (now, before), place, look = scene.shown, scene.place, scene.look
    opened = (place.layer, place.head)
    return lines_data(
        now,
        place.map_name,
        (opened, *(at for at in look.overlay if at != opened)),
        map_look(scene),
        before=before,
        top=look.top,
    )


def _qk(scene: Scene) -> bytes:
    (now, _), place, look = scene.shown, scene.place, scene.look
    return qk_data(
        now,
        place.map_name,
        place.layer,
        place.head,
        query=look.token,
        key=look.key,
        seq=look.seq,
    )


def map_look(scene: Scene) -> MapLook:
    """The visit's look, as far as maps, lines and the atlas have it in common."""
    look = scene.look
    return MapLook(
        token=look.token,
        key=look.key,
        words=look.words,
        special=look.special,
        ramp=look.ramp,
        gamma=look.gamma,
        threshold=look.threshold,
        zoom=look.zoom,
        seq=look.seq,
    )


HEADS = {"map": _map, "lines": _lines, "qk": _qk}


def numbers(scene: Scene) -> str:
    """The head's entropy and mean distance, before and after a change."""
    regrouped = scene.look.words or not scene.look.special
    return head_numbers(scene.before, scene.now, scene.place.site, regrouped)


def _panel(part: str, html: str, scene: Scene) -> bytes:
    return pack({"part": part, "seq": scene.look.seq, "html": html, "colours": both_palettes()})


def outcome(scene: Scene) -> bytes:
    """What the runs say: the panel of the held words, or of what takes their place."""
    return _panel("outcome", outcome_html.outcome(scene), scene)


def guesses(scene: Scene) -> bytes:
    """What else could stand at the chosen place."""
    return _panel("guesses", outcome_html.guesses(scene), scene)


#: Every part that changes with an edit, by the name of its component.
PARTS: dict[str, Callable[[Scene], bytes]] = {
    "atlas": atlas,
    "head": head,
    "outcome": outcome,
    "guesses": guesses,
}
