"""Browser components: plain data in, what the browser needs out; their scripts in ``browser/``.

No Streamlit here: :mod:`transformer_viz.app.ui.components` puts them on a page.
"""

from .tokens import Chip, ChipRow, Picked, picked, spot, tokens_data

__all__ = ["Chip", "ChipRow", "Picked", "picked", "spot", "tokens_data"]
