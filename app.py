"""The door: settings that must come first, the pages, and the frame that they share.

transformer-viz app        (or: streamlit run app.py)
"""

from __future__ import annotations

import os

# Torch reads these once, when it is imported: one thread a run, since small maps gain nothing from
# more, and idle threads that do not spin while another visitor's run needs the core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import streamlit as st

from transformer_viz.app.checkpoint import uploads
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.lessons import navigation
from transformer_viz.app.pages import (
    about,
    checkpoint,
    explore,
    labs,
    lessons,
    norms,
    play,
    positions,
    step_inside,
)
from transformer_viz.app.session import visit
from transformer_viz.app.shell import frame
from transformer_viz.app.ui import components
from transformer_viz.i18n import say

UNFRAMED = ("lessons", "checkpoint", "about")  # pages that ask the model at hand nothing


@st.cache_resource(show_spinner=False)
def engine_for(first: str, further: str) -> Engine:
    """The one engine of this server."""
    return Engine(first, further)


def main() -> None:
    """Draw the chosen page inside the common frame."""
    st.set_page_config(page_title="transformer viz", layout="wide")
    engine = engine_for(
        os.environ.get("TRANSFORMER_VIZ_MODEL", "en-de"),
        os.environ.get("TRANSFORMER_VIZ_MODELS", ""),
    )
    visit.speak_first()
    pages = [
        st.Page(
            lambda: explore.draw(engine), title=say("Explore"), url_path="explore", default=True
        ),
        st.Page(lambda: step_inside.draw(engine), title=say("Step inside"), url_path="step-inside"),
        st.Page(lambda: play.draw(engine), title=say("Play"), url_path="play"),
        st.Page(lambda: positions.draw(engine), title=say("Positions"), url_path="positions"),
        st.Page(lambda: norms.draw(engine), title=say("Norms"), url_path="norms"),
        st.Page(lambda: labs.draw(engine), title=say("Labs"), url_path="labs"),
        st.Page(lambda: lessons.draw(engine), title=say("Lessons"), url_path="lessons"),
        st.Page(
            lambda: checkpoint.draw(engine, pages[0]),
            title=say("Checkpoint"),
            url_path="checkpoint",
        ),
        st.Page(about.draw, title=say("About"), url_path="about"),
    ]
    chosen = st.navigation(pages, position="top")
    uploads.keep_alive()
    navigation.register_pages(pages, chosen)
    framed = chosen.url_path not in UNFRAMED
    visit.begin(engine, framed)
    frame.style()
    frame.corner()
    if not framed:
        visit.frame_has(frame.CORNER)
        visit.keep_unmounted_keys()
    else:
        frame.sentence_box(engine)
    chosen.run()
    if not framed:
        components.language()
    visit.save(engine)


main()
