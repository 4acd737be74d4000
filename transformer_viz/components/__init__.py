"""Browser components: plain data in, what the browser needs out; each with its .js and .css.

No Streamlit here: :mod:`transformer_viz.pages.mount` puts them on a page.
"""

from .files import script, style
from .heads import heads_data, heads_height
from .tokens import Chip, ChipRow, Picked, picked, tokens_data

__all__ = [
    "Chip",
    "ChipRow",
    "Picked",
    "heads_data",
    "heads_height",
    "picked",
    "script",
    "style",
    "tokens_data",
]
