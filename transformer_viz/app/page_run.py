"""Run of the script around the open page: the steps before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ..i18n import say
from .checkpoint import uploads
from .engine.engine import Engine
from .lessons import navigation
from .page_template import Page
from .serving import old_pages
from .session import visit
from .shell import frame
from .ui import components

NAME = "transformer viz"  # follows the page's title in the browser's tab


@contextmanager
def page_run(engine: Engine, pages: Sequence[Page]) -> Iterator[StreamlitPage]:
    """Run everything around the open page in the required order; yield that page.

    1. `visit.speak_first`: the navigation shows the pages' titles, so the language comes first.
    2. `st.navigation`: determines the open page, on which all that follows depends. The first page
       has the root address; a hidden entry has its name, for users who type that.
    3. `uploads.keep_alive`: before anything may stop the run, or the session loses its files.
    4. `navigation.register_pages`: before a button of a lesson leads to one of them.
    5. `visit.begin`: sets the state; no widget with a key of the link may come earlier, or
    Streamlit
       would start it at its default.
    6. The style and the corner, then the sentence box, which stores the keys that have a widget in
       the frame. A page without a sentence has only the corner's, and writes the others once more
       (`visit.keep_unmounted_keys`) before Streamlit drops them. A page with one does this itself,
       at the end of its fragment (`page_template.show`).
    7. The page. It runs between `clear_answered_notices` and the notices themselves; see
       `page_template.notices_above`.
    8. `visit.save` last: the link contains the final state of the page.
    """
    visit.speak_first()
    entries = [_entry(engine, page) for page in pages]
    menus: dict[str, list[StreamlitPage]] = {}
    for page, entry in zip(pages, entries, strict=True):
        named = [_entry(engine, page, named=True)] if page.first else []
        menus.setdefault(page.group, []).extend((entry, *named))
    chosen = st.navigation({say(name): menu for name, menu in menus.items()}, position="top")
    st.set_page_config(page_title=f"{chosen.title} · {NAME}")
    uploads.keep_alive()
    navigation.register_pages(entries, chosen)
    here = next(page for page in pages if chosen.url_path in (page.path, page.address))
    framed = here.framed
    visit.begin(engine)
    old_pages.note_visit()
    frame.style([*menus].index(here.group))
    frame.corner()
    if framed:
        frame.sentence_box(engine)
    else:
        visit.frame_has(frame.CORNER)
        visit.keep_unmounted_keys()
    components.language(
        visit.word_languages(engine)
    )  # before the page, which may draw nothing, or stop
    yield chosen
    visit.save(engine)
    visit.ended()


def _entry(engine: Engine, page: Page, named: bool = False) -> StreamlitPage:
    """Return a page's navigation entry; ``named``: hidden, at its name."""
    return st.Page(
        lambda: page.draw(engine),
        title=say(page.title),
        url_path=page.address if named else page.path,
        default=page.first and not named,
        visibility="hidden" if named else "visible",
    )
