"""Parts of the page Corpus: opening or making an atlas, its heads, one head.

May import the same folders as pages, but no page.
"""
