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

from transformer_viz import reach
from transformer_viz.app import pages
from transformer_viz.app.live.server_engine import server_engine
from transformer_viz.app.page_run import page_run


def main() -> None:
    """Draw the chosen page inside the common frame."""
    reach.option = st.get_option
    st.set_page_config(page_title="transformer viz", layout="wide")
    with page_run(server_engine(), pages.PAGES) as chosen:
        chosen.run()


if __name__ == "__main__":  # under the name "app" another script draws it: deploy/streamlit
    main()
