"""Display state of a widget: the open head, display options, and the scope of controls."""

from __future__ import annotations

from dataclasses import dataclass

from ..components.map_look import MapLook, Zoom
from ..core.editing.edit_controls import Place
from ..core.sites import MAPS, Site, called
from ..core.trace import Trace
from ..i18n import join_words, say


@dataclass(frozen=True)
class Shown:
    """The open head and the display options, with the names of the app's links.

    ``compare`` is ``now``, ``before`` or ``difference``; ``view`` is ``map``, ``lines`` or ``qk``.
    ``click`` is the effect of a click on a token: ``choose`` its row, or ``hide`` it.
    """

    block: str
    layer: int = 0
    head: int = 0
    scope: str = "head"
    token: int = 0
    key: int | None = None
    view: str = "map"
    compare: str = "now"
    click: str = "choose"
    sort: str = "layer"
    scale: str = "head"
    ramp: str = "ink"
    gamma: float = 1.0
    threshold: float = 0.0
    top: int = 0
    overlay: tuple[tuple[int, int], ...] = ()
    zoom: Zoom | None = None
    dark: bool = False

    @property
    def site(self) -> Site:
        """Open head."""
        return Site(*MAPS[self.block], self.layer, self.head)

    def place(self, maps: tuple[str, ...]) -> Place:
        """Return the open head with the scope of controls, in a model with these maps."""
        return Place(self.block, self.layer, self.head, self.scope, maps)

    def look(self, seq: int) -> MapLook:
        """Return the display options of map, lines and atlas; ``seq`` numbers this picture."""
        return MapLook(
            token=self.token,
            key=self.key,
            ramp=self.ramp,
            gamma=self.gamma,
            threshold=self.threshold,
            zoom=self.zoom,
            seq=seq,
        )


def site_of(given: object, trace: Trace) -> Site:
    """Return the head of a `Site`, or of a map, layer and head.

    Raises:
        ValueError: No description of a head, or one that the run lacks; the message lists the
            available ones.
    """
    if isinstance(given, Site):
        name, layer, head = given.map, given.layer, 0 if given.head is None else given.head
    else:
        match given:
            case (str(name), int(layer), int(head)):
                pass
            case _:
                raise ValueError(
                    say(
                        "A site is a Site, or a map with the numbers of a layer and a head, such "
                        "as {example}; got {given}.",
                        example=(trace.maps[-1], 0, 0),
                        given=repr(given)[:60],
                    )
                )
    if name not in trace.maps:
        raise ValueError(
            say(
                "This model has no {block} attention; it has {blocks}.",
                block=called(name),
                blocks=join_words(map(called, trace.maps)),
            )
        )
    layers, heads = trace.thumbnail(name).shape[:2]
    counts = trace.head_counts(name)
    if not (0 <= layer < layers and 0 <= head < counts[layer]):
        raise ValueError(
            say(
                "There is no {block} L{layer} H{head}; layers are 0 to {last_layer}, heads 0 to "
                "{last_head}.",
                block=called(name),
                layer=layer,
                head=head,
                last_layer=layers - 1,
                last_head=int(counts[layer] if 0 <= layer < layers else heads) - 1,
            )
        )
    return Site(*MAPS[name], layer, head)
