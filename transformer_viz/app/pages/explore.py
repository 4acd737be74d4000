"""Page Explore: the attention of each head, and the effect of edits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...i18n import mark, say
from ..cards import head_card, long_map, token_chips
from ..cards.dock import dock
from ..cards.image_card import patches
from ..cards.outcome_card import came_of_it
from ..cards.overview import pictures
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..page_template import show
from ..session import selection
from ..session.scene import Scene, follow

QUESTION = mark("Which words does each head look at?")
QUESTIONS = {
    "image": mark("Which parts of the picture does each head look at?"),
    "audio": mark("Which moments of the sound does each head look at?"),
    "vectors": mark("Which vectors does each head look at?"),
}


def draw(engine: Engine) -> None:
    """Draw the page Explore."""
    show(engine, _body, long=True)


def _body(scene: Scene) -> Callable[[], None] | None:
    if scene.is_long:
        return _long(scene)
    scene, found = head_card.clamp_selection(scene)
    scene = selection.follow_row(scene)
    source = scene.before.source
    chosen = (
        token_chips.remember_click
        if scene.kind.mask_id is None
        else token_chips.toggle_mask(source)
    )
    written = token_chips.sentences(scene, token_chips.rows_for_map(scene, found), chosen)
    question = say(QUESTIONS.get(scene.kind.takes, QUESTION))
    pictures(scene, question, lambda: head_card.opened(scene, found))
    if scene.before.patches is not None:
        patches(scene)
    came_of_it(scene)
    return written_freely(scene, written, dock(scene))


def _long(scene: Scene) -> Callable[[], None] | None:
    """Draw a long text, for which only tiles exist: all heads, the opened map, and the dock.

    Returns a function that runs pending edits after the page is drawn, or None.
    """
    scene = selection.follow_row(long_map.clamp_selection(scene))
    token_chips.no_words()
    ran = scene.of_its_run
    pictures(ran, say(QUESTION), lambda: long_map.opened(scene))
    if scene.kind.writes:
        came_of_it(ran)
    waiting = dock(scene)
    return partial(follow, scene, waiting) if scene.awaited else None
