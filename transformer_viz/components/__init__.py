"""Browser components: Python prepares plain data for the scripts in ``browser/``.

Independent of Streamlit: :mod:`transformer_viz.app.ui.components` puts them on a page.
"""

from .tokens import Chip, ChipRow, Picked, picked, spot, tokens_data

__all__ = ["Chip", "ChipRow", "Picked", "picked", "spot", "tokens_data"]
