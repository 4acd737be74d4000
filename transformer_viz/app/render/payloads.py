"""Views of a scene as bytes for the browser, for the page and for live frames.

Each part is a component on the page; a live frame updates all of them at once.
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
    """Return all heads of the chosen block, or of all blocks side by side.

    Args:
        scene: The current scene.
        numbers: Numbers to sort and colour heads by, if other than this run's.
        sort: Order of the heads; by default that of the view options.

    Raises:
        ValueError: Two runs whose views cannot be compared; the message gives the reason.
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
    """Return the opened head as a map, as lines, or as the numbers behind one weight.

    Raises:
        ValueError: Two runs that cannot be compared; the message gives the reason.
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
    """Return the view options shared by maps, lines and the atlas."""
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
    """Return the head's entropy and mean distance, before and after a change."""
    regrouped = scene.look.words or not scene.look.special
    return head_numbers(scene.before, scene.now, scene.place.site, regrouped)


def _panel(part: str, html: str, scene: Scene) -> bytes:
    return pack({"part": part, "seq": scene.look.seq, "html": html, "colours": both_palettes()})


def outcome(scene: Scene) -> bytes:
    """Return the outcome panel."""
    return _panel("outcome", outcome_html.outcome(scene), scene)


def guesses(scene: Scene) -> bytes:
    """Return the panel of alternative tokens at the chosen position."""
    return _panel("guesses", outcome_html.guesses(scene), scene)


#: Parts that change with an edit, by the name of their component.
PARTS: dict[str, Callable[[Scene], bytes]] = {
    "atlas": atlas,
    "head": head,
    "outcome": outcome,
    "guesses": guesses,
}
