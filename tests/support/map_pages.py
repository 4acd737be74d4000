"""Which pages draw maps of the run: what must hold for every map is asked of each of them."""

from transformer_viz.app.pages import PAGES

#: Their paths in the URL; the first page has the empty one.
MAP_PAGES = tuple(page.path for page in PAGES if page.has_map)
