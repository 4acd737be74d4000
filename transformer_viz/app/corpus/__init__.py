"""What the page Corpus is put together from: opening or making an atlas, its heads, one head.

May import what pages may, but no page.
"""
